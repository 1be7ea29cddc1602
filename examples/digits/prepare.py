"""How digits.npz and answers.npz were made from scikit-learn's bundled digits. Run once, by the arena's owner.

    python prepare.py        # needs scikit-learn and its bundled data

digits.npz is what train.py gets: 300 labelled images and 1,497 without labels, in random order. answers.npz is what
only the scorer sees: the labels of those, and which of them are validation and which holdout. The images carry noise,
so that the task is not solved from the start.
"""

import numpy as np
from sklearn.datasets import load_digits

SALT = 20261130
LABELLED = 300
HOLDOUT = 747
NOISE = 2.5  # standard deviation, on a scale of 0 to 16 per pixel

if __name__ == "__main__":
    rng = np.random.default_rng(SALT)
    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(images))
    noisy = np.clip(np.rint(images[order] + NOISE * rng.standard_normal(images.shape)), 0, 16).astype(np.uint8)
    labels = labels[order].astype(np.uint8)
    asked = labels[LABELLED:]
    holdout = np.zeros(len(asked), bool)
    holdout[rng.permutation(len(asked))[:HOLDOUT]] = True
    np.savez_compressed("digits.npz", images=noisy[:LABELLED], labels=labels[:LABELLED], asked=noisy[LABELLED:])
    np.savez_compressed("answers.npz", labels=asked, holdout=holdout)
