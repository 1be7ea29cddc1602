"""Train the embedded classifier of requests: `python tools/train_classifier.py`.

Reads tools/routing_writers/*.tsv (`label<TAB>prompt`), each by another writer, and writes
src/overnight/models/data/classifier.npz. Deterministic. Temperature and margin are chosen on prompts of writers that
the weights they are applied to have never seen: what counts is people who are in none of these files. Nothing of
benchmarks/ is read.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse  # type: ignore[import-untyped]  # no stubs come with it
from sklearn.linear_model import LogisticRegression

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

from overnight.models.routing.classify import DIMENSIONS, features, vocabulary  # noqa: E402  # after the path
from overnight.models.routing.tiers import LABELS  # noqa: E402

SOURCES = HERE / "routing_writers"
TARGET = HERE.parent / "src" / "overnight" / "models" / "data" / "classifier.npz"
STRENGTH = 20.0
"""Inverse of the L2 penalty. 3, 10, 20 and 30 are within a percent of each other on writers held out."""
WANTED = 0.88
"""Share that has to be right, of each writer held out, among prompts that are answered; the margin is the smallest that
reaches it for all."""
Array = Any


def read() -> dict[str, tuple[list[str], Array]]:
    """Prompts and labels by writer."""
    found = {}
    for path in sorted(SOURCES.glob("*.tsv")):
        rows = [line.split("\t") for line in path.read_text("utf-8").splitlines() if line]
        assert all(len(row) == 2 and row[0] in LABELS for row in rows), path
        found[path.stem] = ([prompt for _, prompt in rows], np.array([LABELS.index(label) for label, _ in rows]))
    return found


def counted(prompts: list[str]) -> Array:
    """Dampened counts of the features of every prompt, both blocks side by side, sparse."""
    rows, columns, values = [], [], []
    for row, prompt in enumerate(prompts):
        for block, counts in enumerate(features(prompt)):
            rows += [row] * len(counts)
            columns += [block * DIMENSIONS + at for at in counts]
            values += [1.0 + np.log(count) for count in counts.values()]
    return sparse.csr_matrix((values, (rows, columns)), shape=(len(prompts), 2 * DIMENSIONS))


def weighed(counts: Array, rarity: Array) -> Array:
    """Counts by how rare their features are, each block of length one."""
    blocks = []
    for block in range(2):
        within = slice(block * DIMENSIONS, (block + 1) * DIMENSIONS)
        values = counts[:, within].multiply(rarity[within]).tocsr()
        lengths = np.sqrt(np.asarray(values.multiply(values).sum(axis=1)).ravel())
        blocks.append(sparse.diags(1.0 / np.where(lengths > 0, lengths, 1.0)) @ values)
    return sparse.hstack(blocks).tocsr()


def fit(counts: Array, labels: Array) -> tuple[Array, Array, Array]:
    """How rare each feature is, weights and biases; multinomial logistic regression with L2."""
    seen = np.asarray((counts > 0).sum(axis=0)).ravel()
    rarity = np.where(seen > 0, 1.0 + np.log((1 + counts.shape[0]) / (1 + seen)), 0.0)
    model = LogisticRegression(C=STRENGTH, max_iter=500, class_weight="balanced")
    model.fit(weighed(counts, rarity), labels)
    return rarity, model.coef_.T, model.intercept_


def shares(scores: Array, temperature: float) -> Array:
    shifted = scores / temperature
    shares = np.exp(shifted - shifted.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def calibrate(scores: Array, labels: Array, writers: Array) -> tuple[float, float]:
    """Temperature of least log loss, and the smallest margin at which `WANTED` of what is answered is right."""
    rows = np.arange(len(labels))

    def loss(temperature: float) -> float:
        return float(-np.log(shares(scores, temperature)[rows, labels]).sum())

    temperature = min((float(value) for value in np.geomspace(0.1, 10, 200)), key=loss)
    found = shares(scores, temperature)
    ordered = np.sort(found, axis=1)
    margins, right = ordered[:, -1] - ordered[:, -2], found.argmax(axis=1) == labels

    def enough(margin: float) -> bool:
        answered = margins >= margin
        return all(right[answered & (writers == writer)].mean() >= WANTED for writer in np.unique(writers))

    margin = next(float(m) for m in np.arange(0.0, 0.95, 0.01) if enough(m))
    for writer in np.unique(writers):
        mine = writers == writer
        answered = mine & (margins >= margin)
        print(
            f"{writer}, held out: {right[mine].mean():.1%} right; answered {answered.sum() / mine.sum():.1%}, "
            f"{right[answered].mean():.1%} of them right"
        )
    print(f"temperature {temperature:.2f}, margin {margin:.2f}")
    return temperature, margin


def main() -> None:
    writers = read()
    prompts = [prompt for mine, _ in writers.values() for prompt in mine]
    labels = np.concatenate([mine for _, mine in writers.values()])
    names = np.concatenate([[name] * len(mine) for name, (mine, _) in writers.items()])
    counts = counted(prompts)
    held = np.zeros((len(prompts), len(LABELS)))
    for name in writers:
        out = names == name
        rarity, weights, bias = fit(counts[~out], labels[~out])
        held[out] = weighed(counts[out], rarity) @ weights + bias
    temperature, margin = calibrate(held, labels, names)
    rarity, weights, bias = fit(counts, labels)
    scale = float(np.abs(weights).max() / 127)
    np.savez_compressed(
        TARGET,
        rarity=rarity.reshape(2, DIMENSIONS).astype(np.float16),
        weights=np.round(weights / scale).astype(np.int8).reshape(2, DIMENSIONS, len(LABELS)),
        scale=np.float32(scale),
        bias=bias.astype(np.float32),
        temperature=np.float32(temperature),
        margin=np.float32(margin),
        labels=np.array(LABELS),
        vocabulary=np.array(sorted(frozenset().union(*map(vocabulary, prompts))), dtype=np.uint32),
    )
    print(f"{len(prompts)} prompts of {len(writers)} writers; {TARGET.stat().st_size / 1024:.0f} KB")


if __name__ == "__main__":
    main()
