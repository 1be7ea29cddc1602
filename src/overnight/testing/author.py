"""A scripted model as an author of the loop: it changes one number that the arena marks as a knob, and says why."""

import re
from typing import Final

_FILE: Final = re.compile(r'<data-(\w+) name="editable file ([^"]+)">\n(.*?)\n</data-\1>', re.DOTALL)
_KNOB: Final = re.compile(
    r"^(?P<before>.*?=\s*)(?P<value>-?\d+(?:\.\d+)?)(?P<after>\s*,?\s*#\s*knob\b.*)$", re.MULTILINE
)
_ASKED: Final = re.compile(r"^Propose the (?:first|next) experiment\.$", re.MULTILINE)
_FACTORS: Final = (1.1, 0.9, 1.5, 0.7, 2.0, 0.5, 1.05, 0.95)


def proposal(prompt: str, turn: int) -> str:
    """An answer to the `model` author's question, in its form; "" if `prompt` is none or has no knob.

    Args:
        prompt: as the author asks.
        turn: how many proposals there were before: another one for each.
    """
    if _ASKED.search(prompt) is None:
        return ""
    knobs = [(path, match) for _, path, text in _FILE.findall(prompt) for match in _KNOB.finditer(text)]
    if not knobs:
        return ""
    path, knob = knobs[turn % len(knobs)]
    factor = _FACTORS[turn // len(knobs) % len(_FACTORS)]
    value = float(knob["value"]) * factor
    shown = f"{value:.6g}" if "." in knob["value"] else f"{max(1, round(value))}"
    return (
        f"ASSUMPTIONS: the neighbourhood of a good value is worth a look\n"
        f"HYPOTHESIS: {knob['before'].strip(' =')} is better at {shown} than at {knob['value']}\n\n"
        f"{path}\n<<<<<<< SEARCH\n{knob[0]}\n=======\n{knob['before']}{shown}{knob['after']}\n>>>>>>> REPLACE\n"
    )
