"""Where values came from, traced by the kernel: what the person typed, what the system asserted, how secret it was.

One record per session tree, so that sub-agents neither lose what their parents may know nor escape what they read.
Nothing a caller passes raises a label. A value is `user` or `system` only if all of it is one token (or one run of
tokens) that the person typed, or one whole field that the system asserted, of the same meaning. Everything else is
`untrusted`, and carries the most confidential thing the tree has read so far: text that a model wrote after it read a
secret may hold it, encoded, translated or in pieces, and no comparison of text can rule that out. Only text whose every
word was typed by the person or belongs to a value the system asserted carries no more than those values.
"""

import re
from collections.abc import Mapping, Sequence

from overnight.kernel.canonical import Json
from overnight.kernel.label import Confidentiality, Kind, Origin, highest, weakest
from overnight.kernel.tokens import Day, Token, days_of, first_token, links_in, number_of, tokens_of
from overnight.kernel.tool import Argument, ToolSpec

_ISO_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[T ].*)?")
# A bare number this long or longer does not occur in prose by accident.
_TELLING_DIGITS = 6
# Longer texts are a model's composition even if a person's words are in them; tracing them would cost time for nothing.
_LONGEST_RUN = 200
_LONGEST_COMPOSED = 2000
# Agents use the same few paths, ids and addresses again and again; what was traced is kept until something new is seen.
_LONGEST_REMEMBERED = 100
_REMEMBERED = 4096
_ONE_WORD = re.compile(r"[\w./@:-]+")
_PROSE: frozenset[Kind] = frozenset({"text", "phrase", "message"})
_CUES = frozenset({"id", "ids", "no", "nr", "number"})
_NO_FACTS: Mapping[str, Origin] = {}


class Provenance:
    """What one session tree has been told. Not thread-safe: the gate serialises a tree's calls."""

    def __init__(self, request: str = "", peak: Confidentiality = "public") -> None:
        """Start from what the person typed; `peak` is the most confidential thing read before a restart."""
        self.peak: Confidentiality = peak
        self._typed: list[Token] = []
        self._text = ""
        self._plain = ""
        self._starts: dict[str, list[int]] = {}
        self._days: list[Day] = []
        self._accounts: set[str] = set()
        self._numbers: set[float] = set()
        self._facts: dict[tuple[Kind, str], dict[str, Origin]] = {}
        # First word of a system's value → its words and origin, for text that is composed of such values.
        self._runs: dict[str, list[tuple[tuple[str, ...], Origin]]] = {}
        self._traced: dict[tuple[Kind, str, str], Origin] = {}
        self._untraced = Origin("untrusted", "public", "not traced")
        self._user = Origin("user", "public", "your request")
        if request:
            self.typed(request)

    def typed(self, text: str) -> None:
        """Take in what the person typed."""
        self._traced.clear()
        offset = len(self._typed)
        self._text += "\n" + text
        self._plain = " ".join(self._text.split()).casefold()
        for index, token in enumerate(tokens_of(text), start=offset):
            self._typed.append(token)
            self._starts.setdefault(token.text.casefold(), []).append(index)
            self._accounts.add(re.sub(r"\s", "", token.text).upper())
            if token.kind == "date":
                self._days.extend(days_of(token))
            elif token.kind in ("amount", "number"):
                number = number_of(token.text)
                if number is not None:
                    self._numbers.add(number)

    def raise_peak(self, spec: ToolSpec) -> bool:
        """Count what a tool's result may hold as read; whether that made the tree's peak higher."""
        peak = highest(self.peak, spec.confidentiality, *(f.confidentiality or "public" for f in spec.fields))
        raised = peak != self.peak
        if raised:
            self._traced.clear()
        self.peak = peak
        return raised

    def seen(self, spec: ToolSpec, result: Json, source: str) -> None:
        """Take in a tool's result, field by field.

        Args:
            spec: declares what each field may be trusted with.
            result: as the tool returned it.
            source: for people: which call this was.
        """
        for declared in spec.fields:
            if declared.label != "system":
                continue
            level = declared.confidentiality or spec.confidentiality
            origin = Origin("system", level, f"{spec.id} {declared.path or 'result'} ({source})")
            facts = self._facts.setdefault((declared.kind, declared.of), {})
            for value in _select(result, declared.path.split(".") if declared.path else []):
                for item in value if isinstance(value, list | tuple) else (value,):
                    key = _key(item, declared.kind)
                    if key is not None and key not in facts:
                        self._traced.clear()
                        facts[key] = origin
                        self._index(str(item), origin)

    def trace(self, argument: Argument, value: Json) -> Origin:
        """Where `value`, given for `argument`, came from: the weakest label of its parts, the highest secrecy."""
        if type(value) is not str or len(value) > _LONGEST_REMEMBERED or argument.kind in _PROSE:
            return self._trace(argument, value)
        key = (argument.kind, argument.of, value)
        origin = self._traced.get(key)
        if origin is None:
            if len(self._traced) >= _REMEMBERED:
                self._traced.clear()
            origin = self._traced[key] = self._trace(argument, value)
        return origin

    def _trace(self, argument: Argument, value: Json) -> Origin:
        if isinstance(value, list | tuple):
            origins = [self.trace(argument, item) for item in value]
            if not origins:
                return Origin("system", "public", "empty")
            source = next((o.source for o in origins if o.label == "untrusted"), origins[0].source)
            return Origin(weakest(*(o.label for o in origins)), highest(*(o.confidentiality for o in origins)), source)
        if argument.kind in _PROSE and len(str(value)) > _LONGEST_RUN and self.peak == "public":
            return self._untraced
        key = _key(value, argument.kind)
        if key is not None:
            if self._was_typed(argument, value, key):
                return self._user
            known = self._facts.get((argument.kind, argument.of), _NO_FACTS).get(key)
            if known is not None:
                return known
            if argument.kind in _PROSE and (argument.kind == "phrase" or self.peak != "public"):
                composed = self._composed(str(value))
                if composed is not None:
                    return composed
        return self._untraced if self.peak == "public" else Origin("untrusted", self.peak, "not traced")

    def strange_link(self, value: Json) -> str | None:
        """The first link, mail address or account number in a message that nobody vouches for; None if there is none.

        Whoever reads a message acts on what it links to, so that an attacker who can put a link into a message from a
        colleague has reached the colleague.
        """
        if isinstance(value, list | tuple):
            return next((link for link in map(self.strange_link, value) if link is not None), None)
        if not isinstance(value, str):
            return None
        for kind, text in links_in(value):
            key = _key(text, kind)
            argument = Argument("link", kind=kind)
            if key is None or not (
                self._was_typed(argument, text, key) or key in self._facts.get((kind, ""), _NO_FACTS)
            ):
                return text
        return None

    def _index(self, value: str, origin: Origin) -> None:
        words = tuple(token.text.casefold() for token in tokens_of(value[:_LONGEST_RUN]))
        if words and len(value) <= _LONGEST_RUN:
            runs = self._runs.setdefault(words[0], [])
            runs.append((words, origin))
            runs.sort(key=lambda run: -len(run[0]))

    def _composed(self, value: str) -> Origin | None:
        """The origin of text that consists of nothing but typed words and system values; None if it has more."""
        if len(value) > _LONGEST_COMPOSED:
            return None
        tokens = tokens_of(value)
        between = value
        for token in reversed(tokens):
            between = between[: token.start] + between[token.end :]
        if not between.isascii():
            return None
        words = [token.text.casefold() for token in tokens]
        index = 0
        level: Confidentiality = "public"
        while index < len(words):
            for run, origin in self._runs.get(words[index], ()):
                if tuple(words[index : index + len(run)]) == run:
                    index += len(run)
                    level = highest(level, origin.confidentiality)
                    break
            else:
                if words[index] not in self._starts:
                    return None
                index += 1
        return Origin("system", level, "composed of your words and system values")

    def _was_typed(self, argument: Argument, value: Json, key: str) -> bool:
        if not self._typed:
            return False
        kind = argument.kind
        if kind in ("amount", "number"):
            return float(key) in self._numbers
        if kind == "date":
            day = _ISO_DAY.fullmatch(key)
            if day is None:
                return False
            year, month, date = (int(part) for part in day.groups()[:3])
            return any(d.month == month and d.day == date and d.year in (None, year) for d in self._days)
        if not isinstance(value, str):
            return False
        if kind == "password":
            return bool(re.search(rf"(?<![^\s'\"`(]){re.escape(value)}(?![^\s'\"`).,;]|[.,;]\S)", self._text))
        if kind == "url":
            return any(token.kind in ("url", "name") and _url_key(token.text) == key for token in self._typed)
        if kind == "account" and key in self._accounts:
            return True
        if kind in _PROSE and (len(value) > _LONGEST_RUN or value not in self._text):
            return False
        exact = kind in ("path", "id", "account")
        if value.casefold() in self._starts:
            words = [value]
        elif _ONE_WORD.fullmatch(value) is None and first_token(value).casefold() in self._starts:
            # What stands between the words counts too: "a@b.c," and "a@b.c <" are not the address that was typed.
            if " ".join(value.split()).casefold() not in self._plain:
                return False
            words = [token.text for token in tokens_of(value)]
        else:
            return False
        if not words:
            return False
        for start in self._starts.get(words[0].casefold(), ()):
            run = self._typed[start : start + len(words)]
            if len(run) < len(words):
                continue
            if exact and any(token.text != word for token, word in zip(run, words, strict=True)):
                continue
            if any(token.text.casefold() != word.casefold() for token, word in zip(run, words, strict=True)):
                continue
            if kind == "id" and value.isdigit() and len(value) < _TELLING_DIGITS and not self._cued(start, argument):
                continue
            return True
        return False

    def _cued(self, index: int, argument: Argument) -> bool:
        """Whether the text says that the number at `index` is an id: "file 13", "event with id 13", "#13"."""
        token = self._typed[index]
        if token.kind not in ("number", "name"):
            return False
        before = self._typed[max(0, index - 2) : index]
        cues = _CUES | ({argument.of.casefold()} if argument.of else set())
        if before and before[-1].text.casefold() in cues:
            return True
        return f"#{token.text}" in self._text


def _key(value: Json, kind: Kind) -> str | None:
    """The form in which two values of `kind` are equal; None if it is no such value."""
    if isinstance(value, bool) or value is None:
        return None
    if kind in ("amount", "number"):
        try:
            return repr(float(value))  # type: ignore[arg-type]  # lists and tables raise TypeError
        except (TypeError, ValueError):
            return None
    if isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str) or not value:
        return None
    if kind == "account":
        return re.sub(r"\s", "", value).upper()
    if kind == "url":
        return _url_key(value)
    if kind == "date":
        return value.replace("T", " ")
    if kind == "recipient":
        return value.casefold()
    return value


def _url_key(value: str) -> str:
    scheme, found, rest = value.partition("://")
    if not found:
        scheme, rest = "https", value
    host, slash, path = rest.partition("/")
    # http and https of one address count as one: which of them was typed says nothing about who chose the address.
    plain = "web" if scheme.lower() in ("http", "https") else scheme.lower()
    return f"{plain}://{host.lower()}{(slash + path).rstrip('/')}"


def _select(value: Json, path: Sequence[str]) -> list[Json]:
    """The values at a dotted path; `*` goes into every item of a list or table."""
    if not path:
        return [value]
    step, rest = path[0], path[1:]
    if step == "*":
        if isinstance(value, Mapping):
            return [found for item in value.values() for found in _select(item, rest)]
        if isinstance(value, list | tuple):
            return [found for item in value for found in _select(item, rest)]
        return []
    if step == "@keys":
        return list(value) if isinstance(value, Mapping) else []
    if isinstance(value, Mapping) and step in value:
        return _select(value[step], rest)
    return []
