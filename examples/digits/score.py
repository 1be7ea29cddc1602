"""Scores predictions.npz: the share of right labels. `--holdout` scores the images that decide nothing.

Never imports train.py; the predictions are data, and pickles are never opened.
"""

import sys
import zipfile

import numpy as np

MAX_BYTES = 200_000


class Refused(Exception):
    """The predictions are not in the form that program.md describes."""


def load(path, count):
    """The predicted labels: `count` whole numbers from 0 to 9.

    Raises:
        Refused: anything else.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(item.file_size for item in archive.infolist()) > MAX_BYTES:
                raise Refused(f"the predictions are larger than {MAX_BYTES:,} bytes")
        with np.load(path, allow_pickle=False) as archive:
            if archive.files != ["labels"]:
                raise Refused(f"the arrays are {archive.files}, not just labels")
            labels = archive["labels"]
    except (
        OSError,
        ValueError,
        EOFError,
        MemoryError,
        SyntaxError,
        zipfile.BadZipFile,
        NotImplementedError,
    ) as problem:
        raise Refused(f"predictions.npz cannot be read: {problem}") from None
    if labels.shape != (count,) or labels.dtype.kind not in "iu":
        raise Refused(f"labels are {labels.dtype} of shape {labels.shape}, not {count} whole numbers")
    if labels.min() < 0 or labels.max() > 9:
        raise Refused("a label is not from 0 to 9")
    return labels


def accuracy(predicted, answers, holdout):
    """The share of right labels among the validation images, or among the holdout."""
    asked = answers["holdout"] == holdout
    return float(np.mean(predicted[asked] == answers["labels"][asked]))


if __name__ == "__main__":
    with np.load("answers.npz", allow_pickle=False) as archive:
        answers = dict(archive)
    try:
        predicted = load("predictions.npz", len(answers["labels"]))
    except Refused as problem:
        sys.exit(f"refused: {problem}")
    print(f"METRIC accuracy={accuracy(predicted, answers, '--holdout' in sys.argv):.6f}")
