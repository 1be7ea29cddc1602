"""Tier 1, embedded: what a prompt asks for, by a linear model over hashed words; a table of weights and no more.

Trained by `tools/train_classifier.py` on prompts of our own. Static embeddings (`wordllama`) were the alternative; see
docs/models-routing.md for why not.
"""

import re
import zlib
from functools import lru_cache
from importlib import resources
from itertools import pairwise
from typing import Any, Final

from overnight.models.router import Classification
from overnight.models.tiers import LABELS, Label

DIMENSIONS: Final = 1 << 14
_HEAD_WORDS: Final = 40
_TAIL_WORDS: Final = 12
"""Only so many words from either end are read: what is asked stands there, what it is asked of in between."""
_WORD: Final = re.compile(r"[^\W\d_]+(?:'[a-z]+)?|\d+(?:[.,:]\d+)*|[^\w\s]", re.UNICODE)
_CODE: Final = re.compile(
    r"\b\w+\.(?:py|js|ts|go|rs|c|cpp|java|sql|sh|css|html)\b|[{};]\s|\w\(\)|==|=>|\b[A-Z]\w+Error\b"
)
_QUOTE: Final = re.compile(r"[\"“”]|'[^']{8,}'")


def features(prompt: str) -> frozenset[int]:
    """Which of `DIMENSIONS` features `prompt` has: words, neighbours, beginnings, first words, form."""
    text = _ends(prompt)
    words = _words(text)
    found = {"bias"}
    content = [word for word in words if word[0].isalnum() or word == "#"]
    found.update(f"w {word}" for word in words)
    found.update(f"b {left} {right}" for left, right in pairwise(words))
    found.update(f"t {a} {b} {c}" for a, b, c in zip(content, content[1:], content[2:], strict=False))
    found.update(f"p {word[:4]}" for word in content if len(word) > 5)
    for place, word in enumerate([word for word in content if word not in _COURTESIES][:3]):
        found.add(f"{place} {word}")
    found.update(_form(text, words))
    return frozenset(zlib.crc32(name.encode()) % DIMENSIONS for name in found)


def vocabulary(prompt: str) -> frozenset[int]:
    """CRC-32 of the words and of whether there are numbers: what has to be known for a prompt to be understood."""
    return frozenset(zlib.crc32(word.encode()) for word in _words(_ends(prompt)) if len(word) > 2 or word == "#")


def _ends(prompt: str) -> str:
    # Cut before splitting: a prompt may be a whole book.
    return prompt if len(prompt) <= 2000 else f"{prompt[:1200]} {prompt[-400:]}"


def _words(text: str) -> list[str]:
    words = [_folded(word) for word in _WORD.findall(text.lower())]
    if len(words) > _HEAD_WORDS + _TAIL_WORDS:
        words = [*words[:_HEAD_WORDS], *words[-_TAIL_WORDS:]]
    return words


_COURTESIES: Final = frozenset(
    {"please", "can", "could", "you", "hi", "hello", "i", "want", "to", "me", "the", "a", "an"}
)


def _folded(word: str) -> str:
    return "#" if word[0].isdigit() else word


def _form(text: str, words: list[str]) -> list[str]:
    numbers = sum(word == "#" for word in words)
    length = len(words)
    found = [
        f"numbers {min(numbers, 4)}",
        f"length {0 if length < 6 else 1 if length < 14 else 2 if length < 30 else 3}",
    ]
    if _CODE.search(text):
        found.append("code")
    if _QUOTE.search(text):
        found.append("quote")
    if text.rstrip().endswith("?"):
        found.append("question")
    if re.search(r":\s*\S", text):
        found.append("colon")
    if numbers and not any(len(word) > 2 and word.isalpha() for word in words):
        found.append("sum")
    return found


class EmbeddedClassifier:
    """The weights, read once. Thread-safe."""

    def __init__(self) -> None:
        # 0.1 s of import: only where a prompt is classified.
        import numpy as np

        with (resources.files("overnight.models") / "data" / "classifier.npz").open("rb") as file:
            stored = np.load(file, allow_pickle=False)
            assert tuple(stored["labels"]) == LABELS, "classifier.npz is of other labels: run tools/train_classifier.py"
            self._weights: Any = stored["weights"].astype(np.float32)
            self._temperature = float(stored["temperature"])
            self.margin = float(stored["margin"])
            self._vocabulary = frozenset(int(word) for word in stored["vocabulary"])
        self._np = np

    def classify(self, prompt: str) -> Classification:
        """What `prompt` asks for; no label where the two likeliest are within the margin, or no word is known."""
        np = self._np
        found = list(features(prompt))
        scores = self._weights[found].sum(axis=0) / len(found) ** 0.5 / self._temperature
        probabilities = np.exp(scores - scores.max())
        probabilities /= probabilities.sum()
        order = np.argsort(-probabilities)
        ranked: list[tuple[Label, float]] = [(LABELS[index], float(probabilities[index])) for index in order]
        (best, confidence), (_, second) = ranked[0], ranked[1]
        # Without a word that it knows, it would go by length and punctuation alone.
        clear = confidence - second >= self.margin and not self._vocabulary.isdisjoint(vocabulary(prompt))
        return Classification(best if clear else None, confidence, ranked)


@lru_cache(maxsize=1)
def embedded() -> EmbeddedClassifier:
    """The classifier that ships."""
    return EmbeddedClassifier()
