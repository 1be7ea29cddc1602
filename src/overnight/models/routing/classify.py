"""Tier 1, embedded: what a prompt asks for, by a linear model over hashed words and letters; tables and no more.

Trained by `tools/train_classifier.py` on prompts of our own, by several writers. Static embeddings (`wordllama`) were
the alternative; see docs/models-routing.md for why not.
"""

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources
from typing import Any, Final

from overnight.models.routing.router import Classification
from overnight.models.routing.tiers import LABELS, Label

DIMENSIONS: Final = 1 << 16
"""Of each of the two blocks of features: words, and letters within words."""
_FEWEST_WORDS: Final = 3
"""With fewer, a prompt asks for nothing that could be told from them."""
_HEAD_CHARACTERS: Final = 500
_TAIL_CHARACTERS: Final = 300
"""Only so much from either end is read: what is asked stands there, what it is asked of in between."""
_NUMBER: Final = re.compile(r"\d+(?:[.,:]\d+)*")
_WORD: Final = re.compile(r"[^\W_]+|#|[^\w\s]")
_SENTENCES: Final = re.compile(r"(?<=[.!?:;])\s+|\s+[-—]\s+|\s*\|\s*|\n+")
_ASKS: Final = re.compile(
    r"\b(?:can you|could you|please|pls|plz|need|help|how|what|which|who|when|why|should|want|give me|tell me|is there|"
    r"are there|i'd like|bitte|wie|was|warum|welche|kannst|por favor|puedes|qué|cuál|peux|quel|pourquoi)\b|\?"
)
_CODE: Final = re.compile(r"[{};=<>`]|\w\(|\w_\w|\.\w{1,4}\b")
_COLON: Final = re.compile(r":\s*\S")
_QUOTE: Final = re.compile(r"[\"“”„«»]")

_KINDS: Final = {
    name: zlib.crc32(f"{name}:".encode())
    for name in ("w", "b", "t", "F", "L", "Q", "F opens", "L opens", "Q opens", "form")
}


def features(prompt: str) -> tuple[dict[int, int], dict[int, int]]:
    """How often `prompt` has each feature: of its words and sentences, and of the letters in its words."""
    text = _ends(prompt)
    words = _words(text)
    letters: Counter[int] = Counter()
    for word, count in Counter(words).items():
        for gram in _grams(word):
            letters[gram] += count
    return Counter([name % DIMENSIONS for name in _named(text, words)]), letters


def vocabulary(prompt: str) -> frozenset[int]:
    """CRC-32 of the words and of whether there are numbers: what has to be known for a prompt to be understood."""
    return frozenset(zlib.crc32(word.encode()) for word in _words(_ends(prompt)) if len(word) > 2 or word == "#")


def _ends(prompt: str) -> str:
    # Cut before anything else: a prompt may be a whole book.
    if len(prompt) <= _HEAD_CHARACTERS + _TAIL_CHARACTERS:
        return prompt
    return f"{prompt[:_HEAD_CHARACTERS]} {prompt[-_TAIL_CHARACTERS:]}"


def _words(text: str) -> list[str]:
    return _WORD.findall(_NUMBER.sub("#", text.lower()))


def _named(text: str, words: list[str]) -> list[int]:
    """The features of words and sentences, as CRC-32 of a kind and the words: quicker than of a text made for it."""
    crc, kind = zlib.crc32, _KINDS
    raw = [word.encode() for word in words]
    found = [crc(word, kind["w"]) for word in raw]
    pairs = [crc(word, kind["b"]) for word in raw]
    found += [crc(right, left) for left, right in zip(pairs, raw[1:], strict=False)]
    found += [crc(c, crc(b, crc(a, kind["t"]))) for a, b, c in zip(raw, raw[1:], raw[2:], strict=False)]
    sentences = [part for part in _SENTENCES.split(text.strip()) if part.strip()]
    # What is asked stands in the first sentence, in the last, or in one that asks; the rest is what it is asked of.
    for place, parts in (
        ("F", sentences[:1]),
        ("L", sentences[-1:]),
        ("Q", [part for part in sentences if _ASKS.search(part.lower())]),
    ):
        for part in parts:
            inside = [word.encode() for word in _words(part)]
            firsts = [crc(word, kind[place]) for word in inside]
            found += firsts
            found += [crc(right, left) for left, right in zip(firsts, inside[1:], strict=False)]
            opening = kind[f"{place} opens"]
            for word in inside[:2]:
                found.append(opening := crc(word, opening))
    found += [crc(name.encode(), kind["form"]) for name in _form(text, words, len(sentences))]
    return found


def _form(text: str, words: list[str], sentences: int) -> Iterable[str]:
    numbers, length = words.count("#"), len(words)
    return (
        f"numbers {min(numbers, 6)}",
        f"share {10 * numbers // max(length, 1)}",
        f"length {sum(length >= bound for bound in (6, 12, 25, 50))}",
        f"sentences {min(sentences, 5)}",
        f"asks {text.rstrip().endswith('?')}",
        f"colon {bool(_COLON.search(text))}",
        f"code {bool(_CODE.search(text))}",
        f"quotes {min(len(_QUOTE.findall(text)), 2)}",
    )


@lru_cache(maxsize=1 << 14)
def _grams(word: str) -> tuple[int, ...]:
    """Two to five neighbouring letters of a word; its ends count as letters."""
    framed = f" {word[:24]} "
    return tuple(
        zlib.crc32(framed[start : start + size].encode()) % DIMENSIONS
        for size in (2, 3, 4, 5)
        for start in range(max(len(framed) - size + 1, 1 if size == 2 else 0))
    )


class EmbeddedClassifier:
    """The weights, read once. Thread-safe."""

    def __init__(self) -> None:
        # 0.1 s of import: only where a prompt is classified.
        import numpy as np

        with (resources.files("overnight.models") / "data" / "classifier.npz").open("rb") as file:
            stored = np.load(file, allow_pickle=False)
            assert tuple(stored["labels"]) == LABELS, "classifier.npz is of other labels: run tools/train_classifier.py"
            self._rarity: Any = stored["rarity"].astype(np.float32)
            self._weights: Any = stored["weights"].astype(np.float32) * stored["scale"]
            self._bias: Any = stored["bias"]
            self._temperature = float(stored["temperature"])
            self.margin = float(stored["margin"])
            self._vocabulary = frozenset(int(word) for word in stored["vocabulary"])
        self._np = np

    def classify(self, prompt: str) -> Classification:
        """What `prompt` asks for; no label if the two likeliest are close, or its words too few or unknown."""
        np = self._np
        scores = self._bias.copy()
        for block, counts in enumerate(features(prompt)):
            if counts:
                at = np.fromiter(counts, dtype=np.int64, count=len(counts))
                often = np.fromiter(map(_dampened, counts.values()), dtype=np.float32, count=len(counts))
                values = often * self._rarity[block, at]
                length = math.sqrt(float(values @ values)) or 1.0
                scores += (values / length) @ self._weights[block, at]
        scores /= self._temperature
        probabilities = np.exp(scores - scores.max())
        probabilities /= probabilities.sum()
        order = np.argsort(-probabilities)
        ranked: list[tuple[Label, float]] = [(LABELS[index], float(probabilities[index])) for index in order]
        (best, confidence), (_, second) = ranked[0], ranked[1]
        clear = confidence - second >= self.margin and self._understood(prompt)
        return Classification(best if clear else None, confidence, ranked)

    def _understood(self, prompt: str) -> bool:
        # Without a word that it knows, it would go by length and punctuation alone.
        words = _words(_ends(prompt[:_HEAD_CHARACTERS]))
        enough = sum(word[0].isalnum() or word == "#" for word in words) >= _FEWEST_WORDS
        return enough and not self._vocabulary.isdisjoint(vocabulary(prompt))


@lru_cache(maxsize=256)
def _dampened(count: int) -> float:
    """A word ten times is not ten times the evidence."""
    return 1.0 + math.log(count)


@lru_cache(maxsize=1)
def embedded() -> EmbeddedClassifier:
    """The classifier that ships."""
    return EmbeddedClassifier()
