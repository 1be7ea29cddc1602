"""Compares answers.json with the golden answers: the share that is exactly right.

Twenty golden answers are a start, two hundred let you believe a difference of a few percent. Put half into the holdout:
a prompt that was chosen among a hundred by its score has been fitted to the answers that scored it.
"""

import json
import sys
from pathlib import Path

split = "holdout" if "--holdout" in sys.argv else "val"
golden = json.loads(Path("golden.json").read_text("utf-8"))
raw = Path("answers.json").read_bytes()
if len(raw) > 1_000_000:
    sys.exit("refused: answers.json is larger than 1 MB")
try:
    answers = json.loads(raw)
except (ValueError, RecursionError) as problem:
    sys.exit(f"refused: answers.json is not JSON: {problem}")
if not isinstance(answers, list) or len(answers) != len(golden) or not all(isinstance(text, str) for text in answers):
    sys.exit(f"refused: not a list of {len(golden)} texts")
right = [text.strip() == item["answer"] for text, item in zip(answers, golden) if item["split"] == split]
print(f"METRIC right={sum(right) / len(right):.6f}")
