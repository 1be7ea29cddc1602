"""Text that somebody vouches for, cut into whole tokens: is a value in it, and does it speak of something?"""

import re

from overnight.kernel.canonical import Json
from overnight.kernel.flow.label import Kind
from overnight.kernel.flow.tokens import Day, Token, days_of, first_token, minutes_of, number_of, spans_in, tokens_of
from overnight.kernel.flow.value import url_key
from overnight.kernel.tool.spec import Argument

LONGEST_RUN = 200
"""Longer texts are a model's composition even if a person's words are in them; tracing them would cost for nothing."""

PROSE: frozenset[Kind] = frozenset({"text", "phrase", "message"})
EXACT: frozenset[Kind] = frozenset({"path", "id", "account"})

_ISO = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?: (\d{2}):(\d{2})(?::00)?)?")
# A bare number this long or longer does not occur in prose by accident.
_TELLING_DIGITS = 6
_ONE_WORD = re.compile(r"[\w./@:-]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_CUES = frozenset({"id", "ids", "no", "nr", "number"})
_QUOTED = re.compile(r"(?<!\w)[\"'‘“`]([^\"'’”`\n]{1,80})[\"'’”`](?!\w)")
# What must stand before a password: "the password of my account to", "password:", "the PIN is".
_PASSWORD_CUE = re.compile(
    r"\b(?:pass(?:word|phrase|code)|pin|secret)\b(?:[ \t]+\w+){0,4}?"
    r"[ \t]*(?:\b(?:to|is|as|be|with)\b|[=:])?[ \t]*[\"'`(]?$",
    re.IGNORECASE,
)
# Words of three letters and fewer, and these, occur in most texts: finding them in a mailbox finds everything.
_COMMON = frozenset(
    {"about", "after", "again", "also", "before", "channel", "could", "document", "documents", "email", "emails"}
    | {"event", "events", "every", "everything", "file", "files", "folder", "from", "have", "into", "list", "mail"}
    | {"mails", "message", "messages", "name", "other", "please", "read", "send", "share", "should", "summary", "text"}
    | {"their", "them", "then", "there", "these", "they", "this", "those", "what", "when", "where", "which", "will"}
    | {"with", "would", "write", "your"}
)
_SHORTEST_TELLING = 4


class Words:
    """Text that somebody vouches for. Not thread-safe."""

    def __init__(self) -> None:
        self.text = ""
        self.tokens: list[Token] = []
        self.starts: dict[str, list[int]] = {}
        self._plain = ""
        self._days: list[Day] = []
        self._minutes: set[int] = set()
        self._spans: set[int] = set()
        self._accounts: set[str] = set()
        self._numbers: set[float] = set()
        self._quoted: set[str] = set()

    def add(self, text: str) -> None:
        """Take in more text."""
        shift = len(self.text) + 1
        self.text += "\n" + text
        self._plain = " ".join(self.text.split()).casefold()
        self._quoted.update(" ".join(found.split()).casefold() for found in _QUOTED.findall(text))
        self._spans.update(spans_in(text))
        for index, token in enumerate(tokens_of(text), start=len(self.tokens)):
            moved = Token(token.kind, token.text, token.start + shift, token.end + shift)
            self.tokens.append(moved)
            self.starts.setdefault(token.text.casefold(), []).append(index)
            self._accounts.add(re.sub(r"\s", "", token.text).upper())
            if token.kind == "date":
                self._days.extend(days_of(token))
            elif token.kind == "time":
                self._minutes.add(minutes_of(token))
            elif token.kind in ("amount", "number"):
                number = number_of(token.text)
                if number is not None:
                    self._numbers.add(number)

    def names(self, value: Json, *, exactly: bool = False) -> bool:
        """Whether the text speaks of `value` so that it tells what is meant: by a name, in quotes, or in several words.

        One ordinary word does not: a search for it may find everything there is. `exactly` leaves names and quotes.
        """
        if not isinstance(value, str) or len(value) > LONGEST_RUN:
            return False
        found = tokens_of(value)
        words = [token.text.casefold() for token in found]
        if not words or not all(word in self.starts for word in words):
            return False
        if any(token.kind in ("name", "email", "url", "account") for token in found):
            return True
        plain = " ".join(value.split()).casefold()
        if plain in self._quoted:
            return True
        if exactly:
            return False
        telling = {word for word in words if len(word) >= _SHORTEST_TELLING and word not in _COMMON}
        return len(telling) >= 2 or (len(telling) == 1 and len(words) >= 2 and plain in self._plain)

    def holds(self, argument: Argument, value: Json, key: str) -> bool:
        """Whether all of `value` is one token, or one run of tokens, of the meaning that `argument` has.

        Args:
            argument: what is asked for.
            value: as given.
            key: its form for comparison (see `key_of`).
        """
        if not self.tokens:
            return False
        kind = argument.kind
        if kind in ("amount", "number"):
            return float(key) in self._numbers
        if kind == "date":
            return self._holds_date(key)
        if not isinstance(value, str):
            return False
        if kind == "password":
            return self._holds_password(value)
        if kind == "url":
            return any(token.kind in ("url", "name") and url_key(token.text) == key for token in self.tokens)
        if kind == "account" and key in self._accounts:
            return True
        if kind in PROSE and (len(value) > LONGEST_RUN or value not in self.text):
            return False
        exact = kind in EXACT
        if value.casefold() in self.starts:
            words = [value]
        elif _ONE_WORD.fullmatch(value) is None and first_token(value).casefold() in self.starts:
            # What stands between the words counts too: "a@b.c," and "a@b.c <" are not the address that was typed.
            if " ".join(value.split()).casefold() not in self._plain:
                return False
            words = [token.text for token in tokens_of(value)]
        else:
            return False
        if not words:
            return False
        for start in self.starts.get(words[0].casefold(), ()):
            run = self.tokens[start : start + len(words)]
            if len(run) < len(words):
                continue
            if exact and any(token.text != word for token, word in zip(run, words, strict=True)):
                continue
            if any(token.text.casefold() != word.casefold() for token, word in zip(run, words, strict=True)):
                continue
            if kind == "id" and len(words) == 1 and not self._is_id(start, argument):
                continue
            return True
        return False

    def spelled(self, argument: Argument, value: str, key: str) -> str | None:
        """How the text spells a value that it holds, where it does so first; None if that can't be told.

        What the comparison overlooks (capitals, blanks, a scheme, a last slash) would tell the reader of a destination
        whatever a model spells with it.
        """
        if argument.kind == "url":
            typed = next((t.text for t in self.tokens if t.kind in ("url", "name") and url_key(t.text) == key), None)
            scheme, found, _ = value.partition("://")
            if typed is None or not found or "://" in typed:
                return typed
            return f"{scheme.lower()}://{typed}"  # some tools want a scheme, and people seldom type one
        if argument.kind == "account" and key in self._accounts:
            plain = (re.sub(r"\s", "", token.text) for token in self.tokens)
            return next((text for text in plain if text.upper() == key), None)
        if argument.kind in EXACT and value in self.text:
            return value
        places = self.starts.get(value.casefold())
        if places:
            return self.tokens[places[0]].text
        pattern = r"\s+".join(re.escape(word) for word in value.split())
        flags = 0 if argument.kind in EXACT else re.IGNORECASE
        match = re.search(rf"(?<!\w){pattern}(?!\w)", self.text, flags)
        return match.group() if match else None

    def _holds_date(self, key: str) -> bool:
        """The day was written, and if there is a time, that too: itself, or so long after one as was written."""
        found = _ISO.fullmatch(key)
        if found is None:
            return False
        year, month, date = (int(part) for part in found.groups()[:3])
        if not any(d.month == month and d.day == date and d.year in (None, year) for d in self._days):
            return False
        if found.group(4) is None:
            return True
        minute = int(found.group(4)) * 60 + int(found.group(5))
        if minute in self._minutes or minute in (0, 23 * 60 + 59):
            return True
        return any((minute - span) % (24 * 60) in self._minutes for span in self._spans)

    def _holds_password(self, value: str) -> bool:
        """A password is what was typed as one: after that word, and in quotes unless it looks like no word at all."""
        if _LETTERS.fullmatch(value) is not None:
            pattern = rf"(?<=['\"`]){re.escape(value)}(?=['\"`])"
        else:
            pattern = rf"(?<![^\s'\"`(]){re.escape(value)}(?![^\s'\"`).,;]|[.,;]\S)"
        return value.strip("'\"`.,;()") == value and any(
            _PASSWORD_CUE.search(self.text, max(0, found.start() - 100), found.start())
            for found in re.finditer(pattern, self.text)
        )

    def _is_id(self, index: int, argument: Argument) -> bool:
        """Whether the text says that the word at `index` is an id: "file 13", "the general channel", "#13", quotes.

        A name that is no plain word or short number needs no such cue.
        """
        token = self.tokens[index]
        if token.text.isdigit():
            if len(token.text) >= _TELLING_DIGITS:
                return True
            if token.kind not in ("number", "name"):
                return False
        elif not argument.of or _LETTERS.fullmatch(token.text) is None or token.text.casefold() in self._quoted:
            return True
        cues = _CUES | ({argument.of.casefold()} if argument.of else set())
        if index and self.tokens[index - 1].text.casefold() in cues:
            return True
        if not token.text.isdigit() and any(t.text.casefold() in cues for t in self.tokens[index + 1 : index + 2]):
            return True
        return f"#{token.text}" in self.text
