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

_PARTICLE_WORDS: Final = (
    "van von de da der den del della di du la le dos das do bin ibn al el ter ten zu zum st san y e 't af av"
)
_PARTICLES: Final = frozenset(_PARTICLE_WORDS.split())
_CAPITAL: Final = re.compile(r"[A-Z][A-Za-z'\-]+")
# From a given name on: initials, further names, particles, each a blank apart.
_FOLLOWING: Final = re.compile(
    r"(?:,? {1,2}(?:(?:van|von|de|da|der|den|del|della|di|du|la|le|dos|das|do|bin|ibn|al|el|ter|ten|zu|y|e|af|av) ){0,2}"
    r"[A-Z][\w'\-]*\.?){1,5}"
)
_WORD: Final = re.compile(r"[\w'\-]+")
_TITLE_WORDS: Final = (
    "Mr Mrs Ms Mx Miss Dr Prof Sir Madam Herr Herrn Frau Mme Mlle Monsieur Madame Sr Sra Srta Senor Senora Sig Signor "
    "Signora Dhr Mevr Pan Pani"
)
_TITLES: Final = frozenset(_TITLE_WORDS.split())
_TITLED: Final = re.compile(
    r"\.? (?P<name>(?:(?:[A-Z]\.|Dr\.|Prof\.|van|von|de|der|den|di|da) ){0,3}[A-Z][a-z'\-]+(?:[A-Z][a-z]+)?(?: [A-Z][a-z'\-]+)?)"
)
_GREETING: Final = re.compile(
    r"\b(?:Dear|Hi|Hello|Hey|Hallo|Liebe[rs]?|Guten (?:Tag|Morgen)|Bonjour|Chere?|Hola|Estimad[oa]|Ciao|Gentile|Beste|Ola|"
    r"Thanks|Thank you|[Rr]egards|Best|Cheers|Sincerely|Yours|Gruesse|Gruss|Cordialement|Saludos|[Ss]igned|I am|I'm|name is|"
    r"[Tt]his is),?\s{1,2}\Z"
)
_FIELD: Final = re.compile(
    r"(?:(?:full|first|last|given|family|middle|birth|maiden|customer|patient|client|employee|contact|account|card|holder|"
    r"recipient|sender|owner|guest|passenger|applicant|tenant|signatory|beneficiary)[ _\-]?(?:holder )?name|surname|"
    r"(?:vor|nach|familien)name|prenom|apellidos?|nombre|cognome|cardholder|patient|applicant|beneficiary)"
    r"\\?[\"']?\s?[:=]\s?\\?[\"']?\Z",
    re.IGNORECASE,
)
_FULL: Final = re.compile(r"[A-Z][a-z'\-]+(?: (?:van |von |de |der )?[A-Z][a-z'\-]+){0,3}")
# Before a capital, these make it a part of something else: an identifier, a path, an address.
_INSIDE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@./#$-\\")
# Begin sentences or name things; never a surname by themselves.
_OTHER_WORDS: Final = (
    "the a an and or of in on at to for by with is was are this that these those it he she they we you i if when "
    "then but not no yes monday tuesday wednesday thursday friday saturday sunday january february march april "
    "may june july august september october november december inc ltd llc gmbh corp company university institute "
    "college school street road avenue city county state river lake park island islands bay airport hospital "
    "church bank group team project license licence public foundation software algorithm method theorem law test "
    "function distribution series transform process model error exception code api http url json python java "
    "linux windows english french german spanish standard version copyright all rights reserved none true false "
)
_NOT_SURNAMES: Final = frozenset(_OTHER_WORDS.split())


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
        given, surnames = _lists()
        done = 0
        for capital in _CAPITAL.finditer(text):
            start = capital.start()
            if start < done or (start and text[start - 1] in _INSIDE):
                continue
            word = capital[0]
            span = None
            if word in _TITLES:
                titled = _TITLED.match(text, capital.end())
                if titled and titled["name"].rsplit(" ", 1)[-1].lower() not in _NOT_SURNAMES:
                    span = _person(*titled.span("name"), "title", titled["name"])
            elif word.lower() in given or word.lower() in surnames:
                span = _full_name(text, capital, given, surnames) or _greeted(text, capital, given)
            if span is None and start > 4 and (text[start - 1] in ":=\"'" or text[start - 2] in ":=\"'"):
                field = _FIELD.search(text, max(0, start - 40), start)
                full = _FULL.match(text, start) if field else None
                if full:
                    span = _person(start, full.end(), "field", full[0])
            if span is not None:
                done = span.end
                yield span


def _greeted(text: str, capital: re.Match[str], given: dict[str, bool]) -> Span | None:
    """A given name alone, behind a greeting or at the end of a letter."""
    if capital[0].lower() not in given or (capital.end() < len(text) and text[capital.end()] not in " ,.!;:)\n\r"):
        return None
    greeting = _GREETING.search(text, max(0, capital.start() - 24), capital.start())
    if greeting is None or not (given[capital[0].lower()] or text[capital.end() : capital.end() + 1] == ","):
        return None
    return _person(capital.start(), capital.end(), "greeting", capital[0])


def _full_name(text: str, capital: re.Match[str], given: dict[str, bool], surnames: frozenset[str]) -> Span | None:
    following = _FOLLOWING.match(text, capital.end())
    if following is None:
        return None
    words = [capital, *_WORD.finditer(text, capital.end(), following.end())]
    first = capital[0].lower()
    if text[capital.end()] == ",":
        # "Weber, Anna"
        if first in surnames and words[1][0].lower() in given:
            return _person(capital.start(), words[1].end(), "gazetteer", text[capital.start() : words[1].end()])
        return None
    last = _surname(text, words, 0, given, surnames) if first in given else None
    if last is None:
        return None
    return _person(capital.start(), words[last].end(), "gazetteer", text[capital.start() : words[last].end()])


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
