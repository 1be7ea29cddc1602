"""Tokens: what a provider reported, and our own count where it reports nothing."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_BYTES_A_TOKEN: Final = 3.0
"""English prose has 4.5 bytes a token with the tokenizers of 2024 and later, code 3.3, Chinese 3.5; from below."""
_MOST_BYTES_A_TOKEN: Final = 5.0
_LONGEST_CONTEXT: Final = 1_000_000
"""Tokens; the longest that models of 2026 take, but for a few."""
_FEWEST_WORDS: Final = 200
_TRUNCATED_BELOW: Final = 0.7


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call.

    Attributes:
        input: all tokens read, those of the cache too.
        output: all tokens written, reasoning too.
        cache_read: of `input`, read from the provider's cache.
        cache_write: of `input`, written to it.
        cache_write_long: of `cache_write`, to be kept for an hour, which costs more.
        reasoning: of `output`, not shown.
        estimated: our own count.
        uses: of tools that the provider runs itself and charges by the use, by name.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_long: int = 0
    reasoning: int = 0
    estimated: bool = False
    uses: tuple[tuple[str, int], ...] = ()

    @property
    def total(self) -> int:
        """All tokens."""
        return self.input + self.output


@dataclass(frozen=True, slots=True)
class Size:
    """What a request holds, as far as it can be seen.

    Attributes:
        bytes: of all its text in UTF-8: no tokenizer makes more tokens than that.
        unseen: tokens of what isn't text or isn't in the request: images, files, conversations kept by the provider.
        items: messages and tools, each of which costs a few tokens of its own.
        whole: it refers to something of a length that nobody here can see, such as a file by its URL.
    """

    bytes: int = 0
    unseen: int = 0
    items: int = 0
    whole: bool = False

    @property
    def expected(self) -> int:
        """Tokens it should be, roughly and rather too many."""
        return math.ceil(self.bytes / _BYTES_A_TOKEN) + self.unseen + 8 * self.items

    def most(self, context: int, rounds: int = 0) -> int:
        """Tokens it can be at most for a model that takes `context` (0: not known), and `rounds` times that beside."""
        seen, taken = self.bytes + self.unseen + 16 * self.items + 64, context or _LONGEST_CONTEXT
        return (max(seen, taken) if self.whole else seen) + rounds * taken


def estimate_tokens(text: str) -> int:
    """Our own count of what was written: rather too many."""
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / _BYTES_A_TOKEN)


def truncation(size: Size, usage: Usage, words: Callable[[], int]) -> str:
    """In words, if the server must have read only a part of what was sent; empty if not.

    Args:
        size: of the request.
        usage: as reported.
        words: counts the request's; asked only where the report is suspicious.
    """
    if usage.estimated or usage.input * _MOST_BYTES_A_TOKEN >= size.bytes:
        return ""
    count = words()
    if count < _FEWEST_WORDS or usage.input >= count * _TRUNCATED_BELOW:
        return ""
    return f"the server read {usage.input} tokens of a request of {count} words: it cut the context"
