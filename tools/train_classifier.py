"""Train the embedded classifier of requests: `python tools/train_classifier.py`.

Reads tools/routing_training.txt, writes src/overnight/models/data/classifier.npz. Deterministic. Temperature and
margin are chosen on templates that the weights they are applied to have not seen (five folds, by template). Nothing
of benchmarks/ is read.
"""

import random
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

from overnight.models.classify import DIMENSIONS, features, vocabulary  # noqa: E402  # after the path
from overnight.models.tiers import LABELS  # noqa: E402

SOURCE = HERE / "routing_training.txt"
TARGET = HERE.parent / "src" / "overnight" / "models" / "data" / "classifier.npz"
FILLED = 12
"""Prompts made of one template with slots; without slots it is one."""
FOLDS = 5
STEPS = 150
DECAY = 3e-5
WANTED = 0.90
"""Share that has to be right among held-out prompts that are answered; the margin is the smallest that reaches it."""
Array = Any


def read() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    slots: dict[str, list[str]] = {}
    templates: dict[str, list[str]] = {}
    current: list[str] = []
    for line in SOURCE.read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if match := re.fullmatch(r"\[(slot:)?(\w+)\]", line):
            current = (slots if match[1] else templates).setdefault(match[2], [])
            continue
        if current in slots.values():
            current += line.split(" | ")
        else:
            current.append(line)
    return slots, templates


def filled(template: str, slots: dict[str, list[str]], rng: random.Random) -> str:
    while match := re.search(r"\{(\w+)\}", template):
        template = template[: match.start()] + rng.choice(slots[match[1]]) + template[match.end() :]
    # Courtesies and capitals say nothing about the kind.
    if rng.random() < 0.15:
        template = rng.choice(["please ", "can you ", "could you please ", "hi, ", "I want you to "]) + template
    if rng.random() < 0.4:
        template = template[0].upper() + template[1:]
    return template + rng.choice(["", "", ".", "?", ":"])


def examples(seed: int) -> tuple[list[str], Array, Array]:
    slots, templates = read()
    assert set(templates) == set(LABELS), set(templates) ^ set(LABELS)
    rng = random.Random(seed)
    texts, labels, groups = [], [], []
    group = 0
    for label, lines in templates.items():
        for template in lines:
            group += 1
            made = {filled(template, slots, rng) for _ in range(FILLED if "{" in template else 3)}
            for text in sorted(made):
                texts.append(text)
                labels.append(LABELS.index(label))
                groups.append(group)
    return texts, np.array(labels), np.array(groups)


class Features:
    """The features of texts, sparse, sorted both ways: sums along either are runs."""

    def __init__(self, texts: list[str]) -> None:
        found = [np.fromiter(sorted(features(text)), dtype=np.int64) for text in texts]
        lengths = np.array([len(item) for item in found])
        self.columns = np.concatenate(found)
        self.values = np.repeat(1.0 / np.sqrt(lengths), lengths).astype(np.float32)[:, None]
        self.starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        self._order = np.argsort(self.columns, kind="stable")
        self._rows = np.repeat(np.arange(len(texts)), lengths)[self._order]
        self._sorted_values = self.values[self._order]
        self._known, self._column_starts = np.unique(self.columns[self._order], return_index=True)

    def scores(self, weights: Array) -> Array:
        """Of every text, for every label."""
        return np.add.reduceat(weights[self.columns] * self.values, self.starts, axis=0)

    def gradient(self, wrong: Array) -> Array:
        """Of the weights, for an error of every text and label."""
        gradient = np.zeros((DIMENSIONS, len(LABELS)), dtype=np.float32)
        runs = np.add.reduceat(wrong[self._rows] * self._sorted_values, self._column_starts, axis=0)
        gradient[self._known] = runs
        return gradient


def fit(texts: list[str], labels: Array, weights_of: Array) -> Array:
    """Multinomial logistic regression with L2, by Adam on the whole batch."""
    known = Features(texts)
    weights = np.zeros((DIMENSIONS, len(LABELS)), dtype=np.float32)
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    wanted = np.eye(len(LABELS), dtype=np.float32)[labels]
    share = (weights_of / weights_of.sum())[:, None].astype(np.float32)
    for step in range(1, STEPS + 1):
        scores = known.scores(weights)
        probabilities = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        gradient = known.gradient((probabilities - wanted) * share) + DECAY * weights
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient**2
        weights -= 0.15 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    return weights


def balanced(labels: Array, groups: Array) -> Array:
    """Every label counts alike, and within it every template."""
    weight = np.zeros(len(labels))
    for label in range(len(LABELS)):
        mine = labels == label
        names, counts = np.unique(groups[mine], return_counts=True)
        each = dict(zip(names, counts, strict=True))
        weight[mine] = [1 / each[group] / len(names) for group in groups[mine]]
    return weight


def calibrate(scores: Array, labels: Array, weight: Array) -> tuple[float, float]:
    """Temperature of least log loss, and the smallest margin at which `WANTED` of the answered are right."""

    def loss(temperature: float) -> float:
        shifted = scores / temperature
        shifted = shifted - shifted.max(axis=1, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return float(-(weight * logs[np.arange(len(labels)), labels]).sum() / weight.sum())

    temperature = min((float(t) for t in np.geomspace(0.1, 10, 200)), key=loss)
    shifted = scores / temperature
    probabilities = np.exp(shifted - shifted.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    ordered = np.sort(probabilities, axis=1)
    margins, right = ordered[:, -1] - ordered[:, -2], probabilities.argmax(axis=1) == labels
    for margin in np.arange(0.0, 0.9, 0.01):
        answered = margins >= margin
        if (weight * answered * right).sum() >= WANTED * (weight * answered).sum():
            break
    print(
        f"held out: {(weight * right).sum() / weight.sum():.1%} right; temperature {temperature:.2f}; margin"
        f" {margin:.2f}: {(weight * answered).sum() / weight.sum():.1%} answered,"
        f" {(weight * answered * right).sum() / (weight * answered).sum():.1%} of them right"
    )
    return temperature, float(margin)


def main() -> None:
    texts, labels, groups = examples(1)
    weight = balanced(labels, groups)
    held = np.zeros((len(texts), len(LABELS)), dtype=np.float32)
    order = np.random.default_rng(1).permutation(np.unique(groups))
    for fold in range(FOLDS):
        out = np.isin(groups, order[fold::FOLDS])
        inside = [text for text, is_out in zip(texts, out, strict=True) if not is_out]
        weights = fit(inside, labels[~out], weight[~out])
        held[out] = Features([text for text, is_out in zip(texts, out, strict=True) if is_out]).scores(weights)
    temperature, margin = calibrate(held, labels, weight)
    weights = fit(texts, labels, weight)
    TARGET.parent.mkdir(exist_ok=True)
    np.savez_compressed(
        TARGET,
        weights=weights.astype(np.float16),
        temperature=np.float32(temperature),
        margin=np.float32(margin),
        labels=np.array(LABELS),
        vocabulary=np.array(sorted(frozenset().union(*map(vocabulary, texts))), dtype=np.uint32),
    )
    print(f"{len(texts)} prompts of {len(np.unique(groups))} templates; {TARGET.stat().st_size / 1024:.0f} KB")


if __name__ == "__main__":
    main()
