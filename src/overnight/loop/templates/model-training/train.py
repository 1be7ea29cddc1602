"""Fits a polynomial to train.csv and predicts inputs.csv. Replace it by your own training."""

import numpy as np

DEGREE = 2  # knob: 1..12
RIDGE = 1.0  # knob: 1e-6..100 log
CLIP = 3.0

x, y = np.loadtxt("train.csv", delimiter=",", skiprows=1, unpack=True)
asked = np.loadtxt("inputs.csv", delimiter=",", skiprows=1, ndmin=1)


def features(values):
    """Powers of the input, scaled to about one."""
    return np.clip(values[:, None] / 2.5, -CLIP, CLIP) ** np.arange(DEGREE + 1)


seen = features(x)
weights = np.linalg.solve(seen.T @ seen + RIDGE * np.eye(DEGREE + 1), seen.T @ y)
np.savetxt("predictions.csv", features(asked) @ weights, fmt="%.9g")
