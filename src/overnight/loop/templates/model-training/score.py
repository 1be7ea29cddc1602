"""Compares predictions.csv with the answers. It reads numbers and nothing else, and never imports train.py.

Half of the answers decide (`val`), half are the holdout. Keep it so with your own data: an author that sees its score a
hundred times fits to it, and only answers that never decided anything can tell.
"""

import csv
import math
import sys

split = "holdout" if "--holdout" in sys.argv else "val"
with open("answers.csv", newline="") as file:
    answers = [(float(row["y"]), row["split"]) for row in csv.DictReader(file)]
with open("predictions.csv") as file:
    lines = file.read(1_000_000).split()
if len(lines) != len(answers):
    sys.exit(f"refused: {len(lines)} predictions, not {len(answers)}")
try:
    predictions = [float(line) for line in lines]
except ValueError as problem:
    sys.exit(f"refused: {problem}")
# nan and inf are numbers to Python: refuse them before they meet an average.
if not all(math.isfinite(value) for value in predictions):
    sys.exit("refused: a prediction is not finite")
errors = [(one - other) ** 2 for one, (other, part) in zip(predictions, answers) if part == split]
print(f"METRIC rmse={math.sqrt(math.fsum(errors) / len(errors)):.6f}")
