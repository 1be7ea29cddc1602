"""Names of people: from lists, beside capital letters and the words that introduce a person.

A list alone calls every Will and Grace a person, and capital letters alone every Monday Morning; it takes two signs.
What the workspace adds is masked wherever it stands, in any case.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from typing import Final

from overnight.kernel.masking.fold import fold_text
from overnight.kernel.masking.kinds import Span

_PARTICLES: Final = frozenset(
    "van von de da der den del della di du la le dos das do bin ibn al el ter ten zu zum st san y e 't af av".split()
)
_SEQUENCE: Final = re.compile(
    r"(?<![\w@./#$\-])[A-Z][\w'\-]*\.?(?:,? (?:(?:van|von|de|da|der|den|del|della|di|du|la|le|dos|das|do|bin|ibn|al|el|ter|ten|zu|y|e|af|av) )"
    r"{0,2}[A-Z][\w'\-]*\.?){1,7}"
)
_WORD: Final = re.compile(r"[\w'\-]+")
_TITLE: Final = re.compile(
    r"\b(?:Mr|Mrs|Ms|Mx|Miss|Dr|Prof|Sir|Madam|Herrn?|Frau|Mme|Mlle|Monsieur|Madame|Sr|Sra|Srta|Senora?|Sig|Signora?|Dhr|Mevr|Pan|Pani)\.? "
    r"(?P<name>(?:(?:[A-Z]\.|van|von|de|der|den|di|da) ){0,2}[A-Z][a-z'\-]+(?:[A-Z][a-z]+)?(?: [A-Z][a-z'\-]+)?)"
)
_GREETING: Final = re.compile(
    r"\b(?:Dear|Hi|Hello|Hey|Hallo|Liebe[rs]?|Guten (?:Tag|Morgen)|Bonjour|Cher|Chere|Hola|Estimad[oa]|Ciao|Gentile|Beste|Ola|"
    r"Thanks|Thank you|Regards|Best|Cheers|Sincerely|Yours|Gruesse|Gruss|Cordialement|Saludos|signed|I am|I'm|my name is|name is|this is)"
    r",?\s{1,2}(?P<name>[A-Z][a-z'\-]+(?: [A-Z][a-z'\-]+)?)(?=[\s,.!;:)]|$)"
)
_FIELD: Final = re.compile(
    r"\b(?:(?:full|first|last|given|family|middle|birth|maiden|customer|patient|client|employee|contact|account|card|holder|recipient|"
    r"sender|owner|guest|passenger|applicant|tenant|signatory|beneficiary)[ _\-]?(?:holder )?name|surname|(?:vor|nach|familien)name|nom|prenom|"
    r"apellidos?|nombre|cognome|cardholder|patient|applicant|beneficiary)\b\\?[\"']?\s?[:=]\s?\\?[\"']?"
    r"(?P<name>[A-Z][a-z'\-]+(?: (?:van |von |de |der )?[A-Z][a-z'\-]+){0,3})",
    re.IGNORECASE,
)
# Begin sentences or name things; never a surname by themselves.
_NOT_SURNAMES: Final = frozenset(
    "the a an and or of in on at to for by with is was are this that these those it he she they we you i if when then but not no yes "
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october "
    "november december inc ltd llc gmbh corp company university institute college school street road avenue city county state river "
    "lake park island islands bay airport hospital church bank group team project license licence public foundation software "
    "algorithm method theorem law test function distribution series transform process model error exception code api http url json "
    "python java linux windows english french german spanish standard version copyright all rights reserved error none true false".split()
)


class Gazetteer:
    """Lists of names to look for.

    Args:
        extra: names of this workspace (people, customers), each masked as a whole wherever it stands; three characters
            at least.
    """

    def __init__(self, extra: Iterable[str] = ()) -> None:
        phrases = sorted({" ".join(fold_text(name).split()) for name in extra} - {""}, key=len, reverse=True)
        self._extra = (
            re.compile(
                r"(?<!\w)(?:"
                + "|".join(r"\s+".join(map(re.escape, phrase.split())) for phrase in phrases)
                + r")(?!\w)",
                re.IGNORECASE,
            )
            if phrases
            else None
        )

    def names(self, text: str) -> Iterator[Span]:
        """Names in the folded `text`."""
        if self._extra is not None:
            for match in self._extra.finditer(text):
                yield _person(match.start(), match.end(), "workspace", match[0])
        for match in _SEQUENCE.finditer(text):
            yield from _in_sequence(text, match)
        given, _ = _lists()
        for match in _TITLE.finditer(text):
            if match["name"].split()[-1].lower() not in _NOT_SURNAMES:
                yield _person(*match.span("name"), "title", match["name"])
        for match in _GREETING.finditer(text):
            first, *rest = match["name"].split()
            if first.lower() in given and (given[first.lower()] or match[0][0].islower() or "," in match[0]):
                end = (
                    match.end("name")
                    if rest and rest[0].lower() not in _NOT_SURNAMES
                    else match.start("name") + len(first)
                )
                yield _person(match.start("name"), end, "greeting", text[match.start("name") : end])
        for match in _FIELD.finditer(text):
            if match["name"][0].isupper():
                yield _person(*match.span("name"), "field", match["name"])


def _in_sequence(text: str, sequence: re.Match[str]) -> Iterator[Span]:
    given, surnames = _lists()
    words = list(_WORD.finditer(text, sequence.start(), sequence.end()))
    at = 0
    while at < len(words) - 1:
        first = words[at][0].lower()
        if (
            first in surnames
            and text[words[at].end() : words[at].end() + 2] == ", "
            and words[at + 1][0].lower() in given
        ):
            yield _person(
                words[at].start(), words[at + 1].end(), "gazetteer", text[words[at].start() : words[at + 1].end()]
            )
            at += 2
            continue
        if first not in given or text[words[at].end()] == ",":
            at += 1
            continue
        last = _surname(text, words, at, given, surnames)
        if last is None:
            at += 1
            continue
        yield _person(words[at].start(), words[last].end(), "gazetteer", text[words[at].start() : words[last].end()])
        at = last + 1


def _surname(
    text: str, words: list[re.Match[str]], first: int, given: dict[str, bool], surnames: frozenset[str]
) -> int | None:
    """The place of the surname that goes with the given name at `first`, past initials, middle names and particles."""
    certain = given[words[first][0].lower()]
    place = first + 1
    while place < len(words):
        if "," in text[words[place - 1].end() : words[place].start()]:
            return None
        word = words[place][0].lower()
        particle = word in _PARTICLES or (len(word) == 1 and place + 1 < len(words))
        if particle:
            place += 1
            continue
        parts = word.split("-")
        if any(part in surnames for part in parts):
            return place
        if word in given and place + 1 < len(words):
            place += 1
            continue
        shaped = words[place][0][0].isupper() and words[place][0][1:2].islower() and len(word) > 2 and "_" not in word
        unlisted = certain and shaped and words[first][0].istitle() and word not in _NOT_SURNAMES
        return place if unlisted and not any(char.isdigit() for char in word) else None
    return None


@cache
def _lists() -> tuple[dict[str, bool], frozenset[str]]:
    folder = resources.files("overnight.kernel") / "data"

    def words(name: str) -> list[str]:
        lines = (folder / name).read_text("utf-8").splitlines()
        return [word.lower() for line in lines if not line.startswith("#") for word in line.split()]

    given = {word.rstrip("?"): not word.endswith("?") for word in words("given_names.txt")}
    return given, frozenset(words("surnames.txt"))


def _person(start: int, end: int, rule: str, text: str) -> Span:
    return Span(start, end, "name", rule, " ".join(text.lower().split()))
