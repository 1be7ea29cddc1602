"""Text that is made of whole stretches of what a person typed and of values the system asserted, and so tells no more.

Anything that is free can carry something else: the order of single words, capitals, blanks, punctuation. So stretches
keep their spelling and what stands between their words; there are few of them, and few single words; between them stand
at most two small words ("I've", "the") and one small number.
"""

import re

from overnight.kernel.flow.label import Confidentiality, Origin, highest
from overnight.kernel.flow.tokens import Token, each_token, tokens_of
from overnight.kernel.flow.words import LONGEST_RUN, Words

_LONGEST = 2000
_MOST_PIECES = 6
_MOST_SINGLES = 2
_MOST_GLUE = 2
_GLUE = frozenset(
    {"a", "an", "and", "are", "at", "be", "for", "from", "he", "i", "i'm", "i've", "in", "is", "it", "my", "of", "on"}
    | {
        "or",
        "our",
        "she",
        "that",
        "the",
        "they",
        "they've",
        "this",
        "to",
        "we",
        "we've",
        "with",
        "you",
        "you've",
        "your",
    }
)
_SMALL_NUMBER = re.compile(r"\d{1,2}(?:-?(?:st|nd|rd|th))?")
_BETWEEN = re.compile(r"(?: ?[-–] | |: |, |\. |\n|! |\? )?['\"]?|['\"]?(?: |: |, |\. )")
_OUTSIDE = re.compile(r"['\"]?|[.!?]|[.!?]['\"]|['\"][.!?]")


class Composition:
    """What text may be composed of. Not thread-safe."""

    def __init__(self, words: Words) -> None:
        self._words = words
        # First word of a system's value → its words and origin.
        self._runs: dict[str, list[tuple[tuple[str, ...], str, Origin]]] = {}
        self._asserted: set[str] = set()

    def add(self, value: str, origin: Origin) -> None:
        """Take in a value that the system asserted."""
        if len(value) > LONGEST_RUN:
            return
        words = tuple(token.text for token in tokens_of(value))
        if words:
            self._asserted.update(words)
            runs = self._runs.setdefault(words[0], [])
            runs.append((words, value, origin))
            runs.sort(key=lambda run: -len(run[0]))

    def origin_of(self, text: str) -> Origin | None:
        """The origin of `text` if it is composed; None if it holds anything else."""
        if len(text) > _LONGEST:
            return None
        typed, tokens = self._words.starts, []
        for token in each_token(text):
            word = token.text
            if not (word.casefold() in typed or word in self._asserted or _is_glue(word)):
                return None  # nobody's word but the text's own: most texts have one of these soon
            tokens.append(token)
        return self._matched(text, tokens, titled=False) or self._matched(text, tokens, titled=True)

    def _matched(self, text: str, tokens: list[Token], *, titled: bool) -> Origin | None:
        index = pieces = singles = glue = numbers = end = 0
        level: Confidentiality = "public"
        while index < len(tokens):
            token = tokens[index]
            between = text[end : token.start]
            if not (_BETWEEN if index else _OUTSIDE).fullmatch(between):
                return None
            run = self._run(text, tokens, index)
            if run is not None:
                count = len(run[0])
                level = highest(level, run[1].confidentiality)
            else:
                count = self._typed(text, tokens, index, titled=titled)
                if count == 0 or (count == 1 and _is_glue(token.text)):
                    if _SMALL_NUMBER.fullmatch(token.text):
                        numbers += 1
                    elif _is_glue(token.text):
                        glue += 1
                    else:
                        return None
                    count = 1
                else:
                    singles += count == 1
            pieces += 1
            end = tokens[index + count - 1].end
            index += count
        if pieces > _MOST_PIECES or singles > _MOST_SINGLES or glue > _MOST_GLUE or numbers > 1:
            return None
        if pieces == glue + numbers or not _OUTSIDE.fullmatch(text[end:]):
            return None
        return Origin("system", level, "composed of your words and system values")

    def _run(self, text: str, tokens: list[Token], index: int) -> tuple[tuple[str, ...], Origin] | None:
        """The value of the system that stands at `index`, exactly as it was asserted."""
        start = tokens[index].start
        for words, value, origin in self._runs.get(tokens[index].text, ()):
            last = index + len(words) - 1
            if last < len(tokens) and text[start : tokens[last].end] == value.strip(" .,;:!?()'\""):
                return words, origin
        return None

    def _typed(self, text: str, tokens: list[Token], index: int, *, titled: bool) -> int:
        """How many tokens from `index` on stand in the typed text like this."""
        typed = self._words.tokens
        best = 0
        for start in self._words.starts.get(tokens[index].text.casefold(), ()):
            count = 0
            while index + count < len(tokens) and start + count < len(typed):
                mine, theirs = tokens[index + count], typed[start + count]
                if not _same(mine.text, theirs.text, first=index + count == 0, titled=titled):
                    break
                if count and not self._same_gap(text, tokens[index + count - 1 : index + count + 1], start + count):
                    break
                count += 1
            best = max(best, count)
        return best

    def _same_gap(self, text: str, pair: list[Token], second: int) -> bool:
        before, after = self._words.tokens[second - 1], self._words.tokens[second]
        theirs = self._words.text[before.end : after.start]
        mine = text[pair[0].end : pair[1].start]
        return mine == theirs or (mine == " " and not theirs.strip())


def _same(mine: str, theirs: str, *, first: bool, titled: bool) -> bool:
    """Whether a word is spelt as it was typed; titles and first words may have capitals."""
    if mine == theirs and not titled:
        return True
    capital = theirs[:1].upper() + theirs[1:]
    if titled:
        return mine == (theirs if theirs[1:] != theirs[1:].lower() else capital)
    return first and mine in (capital, theirs[:1].lower() + theirs[1:])


def _is_glue(text: str) -> bool:
    word = text.replace("’", "'")
    lower = word[:1].lower() + word[1:]
    return lower in _GLUE or word in ("I", "I'm", "I've") or _SMALL_NUMBER.fullmatch(text) is not None
