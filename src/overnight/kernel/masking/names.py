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
# A capitalised word with another one after it, particles aside.
# A look back after the first letter: a run of capitals has one beginning, not one a letter; and the search for a letter
# is quick where a look back is not.
_START: Final = r"[A-Z](?<![\w@./#$\\'\-].)"
_CAPITALS: Final = re.compile(
    _START + r"[A-Za-z'\-]{1,40}[.,]?\s{1,2}"
    r"(?=(?:(?:van|von|de|da|der|den|del|della|di|du|la|le|dos|das|do|bin|ibn|al|el|ter|ten|zu|y|e|af|av) ){0,2}[A-Z])"
)
_CAPITAL: Final = re.compile(r"[A-Z][A-Za-z'\-]{1,40}")
# From a given name on: initials, further names, particles, each a blank apart.
_FOLLOWING: Final = re.compile(
    r"(?:,? {1,2}(?:(?:van|von|de|da|der|den|del|della|di|du|la|le|dos|das|do|bin|ibn|al|el|ter|ten|zu|y|e|af|av) )"
    r"{0,2}[A-Z][\w'\-]*\.?){1,5}"
)
_WORD: Final = re.compile(r"[\w'\-]+")
_TITLE_WORDS: Final = (
    "Mr Mrs Ms Mx Miss Dr Prof Sir Madam Herr Herrn Frau Mme Mlle Monsieur Madame Sr Sra Srta Senor Senora Sig Signor "
    "Signora Dhr Mevr Pan Pani"
)
_TITLES: Final = frozenset(_TITLE_WORDS.split())
_TITLED: Final = re.compile(
    r"\.? (?P<name>(?:(?:[A-Z]\.|Dr\.|Prof\.|van|von|de|der|den|di|da) ){0,3}"
    r"[A-Z][a-z'\-]+(?:[A-Z][a-z]+)?(?: [A-Z][a-z'\-]+)?)"
)
_GREETING_WORDS: Final = (
    "Dear Hi Hello Hey Hallo Lieber Liebe Liebes Bonjour Cher Chere Hola Estimado Estimada Ciao Gentile Beste Ola "
    "Thanks Regards Best Cheers Sincerely Yours Gruesse Gruss Cordialement Saludos Signed"
)
_GREETINGS: Final = frozenset(_GREETING_WORDS.split())
# Each with a part that is quicker to look for, and that two of them may share.
_INTRODUCTIONS: Final = (
    ("is ", ("name is ", "his is ")),
    ("I", ("I am ", "I'm ")),
    ("egards", ("egards,\n", "egards\n")),
    ("igned ", ("igned ",)),
    ("T", ("Thank you,\n",)),
)
_FIELDS: Final = (
    "name",
    "Name",
    "NAME",
    "patient",
    "Patient",
    "pplicant",
    "eneficiary",
    "older",
    "prenom",
    "pellido",
    "nombre",
    "cognome",
)
_FIELD: Final = re.compile(
    r"(?:(?:full|first|last|given|family|middle|birth|maiden|customer|patient|client|employee|contact|account|card|holder|"
    r"recipient|sender|owner|guest|passenger|applicant|tenant|signatory|beneficiary)[ _\-]?(?:holder )?name|surname|"
    r"(?:vor|nach|familien)name|prenom|apellidos?|nombre|cognome|card ?holder|patient|applicant|beneficiary)\Z",
    re.IGNORECASE,
)
_GIVEN: Final = re.compile(r"[:=]\s?\\?[\"']?[A-Z]")
_ASSIGNED: Final = re.compile(r"s?\\?[\"']?\s?[:=]\s?\\?[\"']?(?=[A-Z])")
_FULL: Final = re.compile(r"[A-Z][a-z'\-]+(?: (?:van |von |de |der )?[A-Z][a-z'\-]+){0,3}")
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

    def names(self, text: str, *, capitals: bool = True) -> Iterator[Span]:
        """Names in the folded `text`; without `capitals` in it there are none but the workspace's own."""
        if self._extra is not None:
            for match in self._extra.finditer(text):
                yield _person(match.start(), match.end(), "workspace", match[0])
        if not capitals:
            return
        given, surnames = _lists()
        done = 0
        for pair in _CAPITALS.finditer(text):
            start = pair.start()
            if start < done:
                continue
            word = pair[0].rstrip(" .,\n\r\t")
            span = None
            if word in _TITLES:
                titled = _TITLED.match(text, start + len(word))
                if titled and titled["name"].rsplit(" ", 1)[-1].lower() not in _NOT_SURNAMES:
                    span = _person(*titled.span("name"), "title", titled["name"])
            elif word in _GREETINGS:
                span = _alone(text, pair.end(), given)
            elif word.lower() in given or word.lower() in surnames:
                span = _full_name(text, start, start + len(word), given, surnames)
            if span is not None:
                done = span.end if word not in _GREETINGS else done
                yield span
        yield from _introduced(text, given)


def _introduced(text: str, given: dict[str, bool]) -> Iterator[Span]:
    """Names behind "my name is" and in fields that are for names."""
    for words in (words for part, several in _INTRODUCTIONS if part in text for words in several):
        at = text.find(words)
        while at >= 0:
            span = _alone(text, at + len(words), given)
            if span:
                yield span
            at = text.find(words, at + 1)
    for words in _FIELDS if _assigns(text) else ():
        at = text.find(words)
        while at >= 0:
            end = at + len(words)
            assigned = _ASSIGNED.match(text, end)
            if assigned and _FIELD.search(text, max(0, at - 24), end):
                full = _FULL.match(text, assigned.end())
                if full:
                    yield _person(full.start(), full.end(), "field", full[0])
            at = text.find(words, end)


def _assigns(text: str) -> bool:
    """Whether a capital letter stands behind a sign that gives a field its value."""
    for sign in ":=":
        at = text.find(sign)
        while at >= 0:
            if _GIVEN.match(text, at):
                return True
            at = text.find(sign, at + 1)
    return False


def _alone(text: str, start: int, given: dict[str, bool]) -> Span | None:
    """The given name at `start`, where nothing else could stand."""
    word = _CAPITAL.match(text, start)
    if word is None or word[0].lower() not in given:
        return None
    after = text[word.end() : word.end() + 1]
    if (after and after not in " ,.!;:)\n\r") or not (given[word[0].lower()] or after in ",\n"):
        return None
    return _person(word.start(), word.end(), "greeting", word[0])


def _full_name(text: str, start: int, end: int, given: dict[str, bool], surnames: frozenset[str]) -> Span | None:
    following = _FOLLOWING.match(text, end)
    if following is None:
        return None
    words = [(start, end), *(word.span() for word in _WORD.finditer(text, end, following.end()))]
    spelt = [text[a:b] for a, b in words]
    first = spelt[0].lower()
    if text[end] == ",":
        # "Weber, Anna"
        last = 1 if first in surnames and spelt[1].lower() in given else None
    else:
        last = _surname(text, words, spelt, given, surnames) if first in given else None
    if last is None:
        return None
    return _person(start, words[last][1], "gazetteer", text[start : words[last][1]])


def _surname(
    text: str, words: list[tuple[int, int]], spelt: list[str], given: dict[str, bool], surnames: frozenset[str]
) -> int | None:
    """The place of the surname that goes with the given name before, past initials, middle names and particles."""
    certain = given[spelt[0].lower()]
    place = 1
    while place < len(words):
        if "," in text[words[place - 1][1] : words[place][0]]:
            return None
        word = spelt[place].lower()
        if word in _PARTICLES or (len(word) == 1 and place + 1 < len(words)):
            place += 1
            continue
        if any(part in surnames for part in word.split("-")):
            return place
        if word in given and place + 1 < len(words):
            place += 1
            continue
        shaped = (
            spelt[place][0].isupper()
            and spelt[place][1:2].islower()
            and len(word) > 2
            and word.replace("-", "").isalpha()
        )
        return place if certain and shaped and spelt[0].istitle() and word not in _NOT_SURNAMES else None
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
