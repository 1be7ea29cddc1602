"""Puts the prompt and each question to a model and writes answers.json.

REPLACE `ask` BY A CALL OF YOUR OWN MODEL and set `network: true` in program.md. What stands here is a stand-in so that
the arena works before you do: it calculates, answers in a chatty sentence, and only obeys a few turns of phrase. A score
measured with it says nothing about any real model.

This step sees no secrets: its environment is cleared. A model server on this machine that needs no key is the simplest
thing to call.
"""

import json
import re
from pathlib import Path


def ask(prompt, question):
    """What the model says."""
    left, sign, right = re.search(r"(\d+) ([-+*/]) (\d+)", question).groups()
    value = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__}[sign](int(left), int(right))
    if sign in "*/" and not re.search(r"\b(step by step|check)\b", prompt, re.IGNORECASE):
        value += 1  # it slips unless it is told to take care
    if re.search(r"\bonly\b.{0,20}\bnumber\b|\bnumber\b.{0,20}\b(only|alone)\b", prompt, re.IGNORECASE | re.DOTALL):
        return str(value)
    return f"The answer is {value}."


if __name__ == "__main__":
    prompt = Path("prompt.md").read_text("utf-8")
    answers = [ask(prompt, question) for question in json.loads(Path("questions.json").read_text("utf-8"))]
    Path("answers.json").write_text(json.dumps(answers), "utf-8")
