"""Gives text.md points against a rubric, by rules that can be read and argued with.

Rules of this kind see form, not sense: they are a fence, not a reader. If a model is to judge, let `produce` call it
(`network: true`) with a prompt that treats the text as data, hand its marks over as an output, and check them here; give
it several tries, because its marks are noise too, and compare them with your own on twenty texts before you trust them.
"""

import re
import sys
from pathlib import Path

MAX_BYTES = 20_000
HYPE = r"\b(best|most|greatest|revolutionary|incredibl[ey]|unique|amazing|ever|without any doubt|excited)\b"

raw = Path("text.md").read_bytes()
if len(raw) > MAX_BYTES:
    sys.exit(f"refused: the text is larger than {MAX_BYTES:,} bytes")
text = raw.decode("utf-8", "replace")
words = re.findall(r"[\w'@.-]*\w", text)
sentences = [part for part in re.split(r"(?<=[.!?])\s+", text) if part.strip()]
lengths = [len(re.findall(r"\w+", sentence)) for sentence in sentences] or [0]
opening = " ".join(sentences[:2]).lower()


def near(value, low, high, slack):
    """1 inside low..high, falling to 0 over `slack` outside: a slope tells an author which way to go, a step does not."""
    return max(0.0, 1 - max(low - value, value - high, 0) / slack)


RUBRIC = [
    (10, "says what it is early", len(opening.split()) <= 50 and "kettle" in opening),
    (10, "says whom it helps early", bool(re.search(r"office|team", opening)) and len(opening.split()) <= 50),
    (10, "price", bool(re.search(r"\b4 euros?\b", text))),
    (10, "date", "1 March" in text),
    (10, "contact", "hello@kettle.example" in text),
    (20, "short sentences", near(sum(lengths) / len(lengths), 6, 15, 20)),
    (10, "no long sentence", near(max(lengths), 0, 30, 30)),
    (10, "length", near(len(words), 80, 160, 60)),
    (10, "no hype", max(0.0, 1 - (len(re.findall(HYPE, text, re.IGNORECASE)) + text.count("!")) / 5)),
]
for points, name, share in RUBRIC:
    print(f"METRIC {name.replace(' ', '_').replace(chr(39), '')}={points * float(share):.3f}")
print(f"METRIC points={sum(points * float(share) for points, _, share in RUBRIC):.4f}")
