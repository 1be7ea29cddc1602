"""Learns handwritten digits from 300 labelled images and predicts 1,497 others.

Reads digits.npz, writes predictions.npz, in the form that program.md describes.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

MODEL = "logistic"  # knob: ["logistic", "svm", "neighbours"]
REGULARISATION = 1.0  # knob: 1e-3..100 log
GAMMA = 0.5  # knob: 0.01..5 log
NEIGHBOURS = 5  # knob: 1..25
POWER = 1.0  # knob: 0.3..3.0 log
BLUR = 0.0  # knob: 0.0..1.5
SHIFTS = False  # learn from copies moved by one pixel as well
MAX_ITERATIONS = 200

SEED = int(os.environ.get("OVERNIGHT_SEED", "0"))  # for methods that draw random numbers; these do not


def main():
    with np.load("digits.npz") as archive:
        images, labels, asked = archive["images"], archive["labels"], archive["asked"]
    images, asked = images.reshape(-1, 8, 8) / 16, asked.reshape(-1, 8, 8) / 16
    if SHIFTS:
        images, labels = with_shifts(images, labels)
    classifier = model().fit(features(images), labels)
    np.savez("predictions.npz", labels=classifier.predict(features(asked)).astype(np.uint8))
    print(f"train_accuracy: {classifier.score(features(images), labels):.4f}")


def model():
    """The classifier, untrained."""
    if MODEL == "svm":
        return SVC(C=REGULARISATION, gamma=GAMMA)
    if MODEL == "neighbours":
        return KNeighborsClassifier(NEIGHBOURS, weights="distance")
    return LogisticRegression(C=REGULARISATION, max_iter=MAX_ITERATIONS)


def features(images):
    """One row per image: pixels, smoothed over their neighbours and with their contrast changed."""
    kernel = np.array([BLUR / 2, 1, BLUR / 2]) / (1 + BLUR)
    for axis in (1, 2):
        padded = np.pad(images, [(0, 0)] + [(1, 1) if axis == other else (0, 0) for other in (1, 2)])
        images = sum(weight * padded.take(range(k, k + 8), axis) for k, weight in enumerate(kernel))
    return (images**POWER).reshape(len(images), -1)


def with_shifts(images, labels):
    """The images, and each moved by one pixel left, right, up and down."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    corners = [(1, 1), (0, 1), (2, 1), (1, 0), (1, 2)]
    moved = [padded[:, row : row + 8, column : column + 8] for row, column in corners]
    return np.concatenate(moved), np.tile(labels, len(moved))


if __name__ == "__main__":
    main()
