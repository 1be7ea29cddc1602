"""What a rule says about one argument, compiled once and evaluated on every call.

An `allow` needs every item of a list to hold; `deny` and `ask` apply as soon as one item holds, and also when the
argument is missing or cannot be judged: a restriction is never skipped because there was nothing to read.
"""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from overnight.core.errors import UsageError
from overnight.kernel.canonical import Json
from overnight.kernel.flow.label import Confidentiality, Kind, Label, satisfies

_SHELL = frozenset(";&|<>$`(){}[]*?~#!\\\n\r'\"")


Test: TypeAlias = Callable[[Json, Kind, Label], bool]


class Unjudged(Exception):
    """A value cannot be compared with the constraint; the caller fails closed."""


@dataclass(frozen=True)
class Constraint:
    """What a rule asks of one argument; everything that is given must hold.

    Attributes:
        under: paths at or below one of these, from the workspace's root.
        not_under: paths not at or below one of these; a name without a slash inside counts at any depth.
        one_of: exactly one of these values.
        not_one_of: none of these values.
        starts_with: texts that begin with one of these; of commands only those that need no shell.
        not_starts_with: texts that begin with none of these.
        domain: URL hosts or e-mail addresses at one of these domains or below them.
        not_domain: at none of these domains.
        program: commands that run exactly one of these programs, without a shell's help.
        min: numbers from here.
        max: numbers up to here.
        max_length: characters of a text, or items of a list.
        label: the least the value's origin must be: `system` or `user`.
        carries: raises what the argument may carry; a person's decision, so it counts in `allow` rules only.
    """

    under: tuple[str, ...] = ()
    not_under: tuple[str, ...] = ()
    one_of: tuple[str | int | float | bool, ...] = ()
    not_one_of: tuple[str | int | float | bool, ...] = ()
    starts_with: tuple[str, ...] = ()
    not_starts_with: tuple[str, ...] = ()
    domain: tuple[str, ...] = ()
    not_domain: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    min: float | None = None
    max: float | None = None
    max_length: int | None = None
    label: Literal["system", "user"] | None = None
    carries: Confidentiality | None = None

    def bounds(self, kind: Kind) -> bool:
        """Whether it limits an argument of `kind` to a set that its author had in mind, whoever supplies the value."""
        if self.one_of or self.program:
            return True
        if kind == "path":
            return bool(self.under)
        if kind in ("recipient", "url"):
            return bool(self.domain)
        if kind in ("amount", "number"):
            return self.max is not None
        return False

    def problem(self) -> str | None:
        """Why it can never hold; None if it can."""
        if self.min is not None and self.max is not None and self.min > self.max:
            return f"min {self.min:g} is above max {self.max:g}"
        allowed = _not_under(self.not_under)
        if self.under and not any(allowed(base.rstrip("/"), "path", "untrusted") for base in self.under):
            return "everything in 'under' is excluded by 'not_under'"
        if self.one_of and all(value in self.not_one_of for value in self.one_of):
            return "everything in 'one_of' is excluded by 'not_one_of'"
        if self.domain and all(_in_domain(base, self.not_domain) for base in self.domain):
            return "everything in 'domain' is excluded by 'not_domain'"
        return None

    def allows(self, value: Json, kind: Kind, label: Label) -> bool:
        """For `allow` rules: whether `value`, and every item if it is a list, is certainly within."""
        try:
            if self.max_length is not None and len(value) > self.max_length:  # type: ignore[arg-type]
                return False
            if type(value) is str:
                for test in self.tests:  # noqa: SIM110  # a generator would double the time of the hottest loop
                    if not test(value, kind, label):
                        return False
                return True
            return all(self._holds(item, kind, label) for item in self._items(value))
        except (Unjudged, TypeError):
            return False

    def catches(self, value: Json, kind: Kind, label: Label) -> bool:
        """For `deny` and `ask` rules: whether `value`, or any item of it, is or may be meant."""
        try:
            if type(value) is str:
                for test in self.tests:  # noqa: SIM110  # a generator would double the time of the hottest loop
                    if not test(value, kind, label):
                        return False
                return True
            items = self._items(value)
            return not items or any(self._holds(item, kind, label) for item in items)
        except (Unjudged, TypeError):
            return True

    def _items(self, value: Json) -> Sequence[Json]:
        # A command given as a list of words is one value.
        return value if isinstance(value, list | tuple) and not self.program else (value,)

    def _holds(self, value: Json, kind: Kind, label: Label) -> bool:
        return all(test(value, kind, label) for test in self.tests)

    @cached_property
    def tests(self) -> tuple[Test, ...]:
        """One test for each thing that is asked; each takes value, kind and label, and may raise `Unjudged`."""
        tests: list[Test] = []
        if self.label is not None:
            need = self.label
            tests.append(lambda value, kind, label: satisfies(label, need))
        if self.under:
            tests.append(_under(self.under))
        if self.not_under:
            tests.append(_not_under(self.not_under))
        if self.one_of:
            tests.append(lambda value, kind, label: _among(value, self.one_of))
        if self.not_one_of:
            tests.append(lambda value, kind, label: not _among(value, self.not_one_of))
        if self.starts_with:
            tests.append(lambda value, kind, label: _beginning(value, kind).startswith(self.starts_with))
        if self.not_starts_with:
            folded = tuple(text.casefold() for text in self.not_starts_with)
            tests.append(lambda value, kind, label: not _beginning(value, kind).casefold().startswith(folded))
        if self.domain:
            tests.append(lambda value, kind, label: _in_domain(_host(_text(value), kind), self.domain))
        if self.not_domain:
            tests.append(lambda value, kind, label: not _in_domain(_host(_text(value), kind), self.not_domain))
        if self.program:
            tests.append(lambda value, kind, label: _program(value) in self.program)
        if self.min is not None:
            least = self.min
            tests.append(lambda value, kind, label: _number(value) >= least)
        if self.max is not None:
            most = self.max
            tests.append(lambda value, kind, label: _number(value) <= most)
        return tuple(tests)


def _under(bases: tuple[str, ...]) -> Test:
    exact = frozenset(base.rstrip("/") or "/" for base in bases)
    below = tuple(base.rstrip("/") + "/" for base in bases)
    everything = "." in exact  # the workspace's root: whatever is inside it has a relative name

    def test(value: Json, kind: Kind, label: Label) -> bool:
        if type(value) is not str:
            raise Unjudged
        return value in exact or value.startswith(below) or (everything and not value.startswith("/"))

    return test


def _not_under(bases: tuple[str, ...]) -> Test:
    # Folded, so that file systems that ignore case offer no way round; names without a slash count at any depth.
    folded = [base.rstrip("/").casefold() for base in bases]
    anywhere = frozenset(base for base in folded if "/" not in base)
    exact = frozenset(base for base in folded if "/" in base)
    below = tuple(base + "/" for base in exact)

    def test(value: Json, kind: Kind, label: Label) -> bool:
        if type(value) is not str:
            raise Unjudged
        path = value.casefold()
        if path in exact or (below and path.startswith(below)):
            return False
        return anywhere.isdisjoint(path.split("/"))

    return test


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise Unjudged
    return value


def _beginning(value: Json, kind: Kind) -> str:
    """A text whose beginning tells what it does: a shell would run more than what a line begins with."""
    text = _text(value)
    if kind == "command" and not _SHELL.isdisjoint(text):
        raise Unjudged
    return text


def _number(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unjudged
    return value


def _among(value: Json, listed: Sequence[str | int | float | bool]) -> bool:
    return any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in listed)


def _in_domain(host: str, domains: Sequence[str]) -> bool:
    return any(host == domain or host.endswith("." + domain) for domain in domains)


def _host(value: str, kind: Kind) -> str:
    if not value.isascii() or not value.isprintable() or "\\" in value or " " in value:
        raise Unjudged
    if kind == "recipient" or "://" not in value:
        name, at, host = value.rpartition("@")
        if at:
            if not name or "@" in name or "/" in host:
                raise Unjudged
            return host.lower().rstrip(".")
        if kind == "recipient":
            raise Unjudged
        value = f"https://{value}"
    try:
        parts = urlsplit(value)
        host = parts.hostname or ""
    except ValueError:
        raise Unjudged from None
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or not host:
        raise Unjudged
    return host.rstrip(".")


def _program(value: Json) -> str:
    """The program of a command that needs no shell: a list of words, or a line that splits into the same words."""
    if isinstance(value, str):
        if not _SHELL.isdisjoint(value):
            raise Unjudged
        try:
            words = shlex.split(value)
        except ValueError:
            raise Unjudged from None
    elif isinstance(value, list | tuple):
        words = [_text(word) for word in value]
    else:
        raise Unjudged
    if not words or "=" in words[0]:
        raise Unjudged
    # `/usr/bin/git` and `./git` are spelt differently from `git` on purpose or not: neither an allowance nor a
    # prohibition of `git` can tell which program that is, and both fail closed.
    if "/" in words[0]:
        raise Unjudged
    return words[0]


def check_domain(domain: str) -> str:
    """Return `domain` if it can be compared with hosts.

    Raises:
        UsageError: it is a URL, a pattern or has upper-case or non-ASCII letters.
    """
    if not domain.isascii() or domain != domain.lower() or any(char in domain for char in "/:*@ ") or not domain:
        raise UsageError(f"{domain!r} is not a domain", hint="write it like example.org; sub-domains are included")
    return domain.strip(".")
