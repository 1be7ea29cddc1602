"""What stands between a tree of sessions and the values that are hidden from it: placeholders out, values in.

A model's text is masked on the way to it; what it proposes is un-masked before it is decided, so that labels, rules and
limits speak about the real values; and what is kept of it is masked again. Placeholders of other sessions stay text.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from overnight.kernel.canonical import Json
from overnight.kernel.flow.label import Confidentiality, Kind, highest
from overnight.kernel.flow.provenance import Provenance
from overnight.kernel.masking import SECRETS, Masker, MaskingSettings, Vault
from overnight.kernel.masking.hiding import Hiding
from overnight.kernel.masking.kinds import Kind as MaskedKind
from overnight.kernel.masking.vault import PLACEHOLDER, Entry
from overnight.kernel.tool.spec import Argument, ToolSpec

MARK: Final = "MASKED_"
"""Stands in every placeholder, so that texts without one cost one look."""

_LONGEST_REMEMBERED: Final = 300
_REMEMBERED: Final = 4096
_SMALLEST_NUMBER: Final = 10**8
_LONGEST_NAME: Final = 40
_SHORTEST: Final = 3

# The kind of argument as which a masked value may have been typed or asserted.
_MEANINGS: Final[dict[MaskedKind, Kind]] = {"email": "recipient", "iban": "account"}

_Value = TypeVar("_Value", bound=Json)


@dataclass(frozen=True, slots=True)
class Lifted:
    """Arguments with the values that their placeholders stand for.

    Attributes:
        arguments: with values.
        levels: how far the values in an argument may travel, for each argument that held placeholders.
        kinds: what they are, for people.
        strangers: arguments with placeholders that this tree of sessions never made.
    """

    arguments: Mapping[str, Json]
    levels: Mapping[str, Confidentiality]
    kinds: Mapping[str, str]
    strangers: frozenset[str]


class Veil:
    """Hides values from one tree of sessions. Not thread-safe: the gate serialises a tree's calls."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self._maskers: dict[tuple[frozenset[MaskedKind], tuple[str, ...]], _Cached] = {}

    def shown(self, value: Json, hiding: Hiding) -> Json:
        """`value` as a model may see it."""
        return self._masked(value, hiding.from_model, hiding.names)

    def kept(self, value: Json, hiding: Hiding) -> Json:
        """`value` as the journal and the inbox may hold it."""
        return self._masked(value, hiding.from_record, hiding.names)

    def kept_text(self, text: str, hiding: Hiding) -> str:
        """`text` as the journal and the inbox may hold it."""
        return str(self.kept(text, hiding))

    def kept_arguments(self, spec: ToolSpec | None, arguments: Mapping[str, Json], hiding: Hiding) -> dict[str, Json]:
        """Arguments of a call as the journal and the inbox may hold them; passwords are hidden whatever they are."""
        if not hiding.from_record:
            return dict(arguments)
        masker = self._masker(hiding.from_record, hiding.names)
        known = spec.by_name if spec is not None else {}
        kept: dict[str, Json] = {}
        for name, value in arguments.items():
            if name in known and known[name].kind == "password" and isinstance(value, str) and value:
                kept[name] = self.vault.placeholder("password", value, value, "")
            else:
                kept[name] = _each(value, name, masker)
        return kept

    def lift(self, spec: ToolSpec, arguments: Mapping[str, Json], provenance: Provenance) -> Lifted | None:
        """The arguments with values instead of this tree's placeholders; None if they hold no placeholder at all."""
        if not any(_holds_mark(value) for value in arguments.values()):
            return None
        known = spec.by_name
        lifted: dict[str, Json] = {}
        levels: dict[str, Confidentiality] = {}
        kinds: dict[str, str] = {}
        strangers: set[str] = set()
        for name, value in arguments.items():
            argument = known.get(name)
            found: dict[str, Entry] = {}
            for placeholder in _placeholders(value):
                entry = self.vault.entry(placeholder)
                if entry is None:
                    strangers.add(name)
                else:
                    found[placeholder] = entry
            lifted[name] = _typed(_replaced(value, found), argument) if found else value
            if found:
                whole = argument is not None and provenance.trace(argument, lifted[name]).label == "user"
                levels[name] = highest(*(_level(entry, provenance, whole) for entry in found.values()))
                kinds[name] = ", ".join(sorted({entry.kind.replace("_", " ") for entry in found.values()}))
        return Lifted(lifted, levels, kinds, frozenset(strangers))

    def revealed(self, value: Json, *, secrets: bool) -> Json:
        """`value` with the values of this tree; for the approver and for undoing, never for a model."""
        found = {name: entry for name, entry in self.entries(value).items() if secrets or entry.kind not in SECRETS}
        return _replaced(value, found) if found else value

    def entries(self, *values: Json) -> dict[str, Entry]:
        """This tree's placeholders within `values`, and what they stand for."""
        names = {name for value in values for name in _placeholders(value)}
        return {name: entry for name in sorted(names) if (entry := self.vault.entry(name)) is not None}

    def _masked(self, value: Json, kinds: frozenset[MaskedKind], names: tuple[str, ...]) -> Json:
        return _each(value, "", self._masker(kinds, names)) if kinds else value

    def _masker(self, kinds: frozenset[MaskedKind], names: tuple[str, ...]) -> "_Cached":
        key = (kinds, names)
        if key not in self._maskers:
            chosen = tuple(kind for kind in MaskingSettings().kinds if kind in kinds)
            self._maskers[key] = _Cached(Masker(self.vault, MaskingSettings(chosen, names)))
        return self._maskers[key]


class _Cached:
    """A masker that remembers short texts: agents use the same paths, ids and addresses again and again."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._known: dict[tuple[str, str], str] = {}

    def mask(self, text: str, name: str = "") -> str:
        """`text`, which stands behind `name` in a table: a password is often known by that alone."""
        if len(text) < _SHORTEST:
            return text
        if len(text) > _LONGEST_REMEMBERED:
            return self._masker.mask(text).text
        key = (name, text)
        known = self._known.get(key)
        if known is None:
            context = f"{name}: " if name.isidentifier() else ""
            known = self._masker.masked_from(context + text, len(context)).text
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = known
        return known


def _each(value: Json, name: str, masker: _Cached) -> Json:
    if isinstance(value, str):
        return masker.mask(value, name)
    if isinstance(value, Mapping):
        return {_key(key, masker): _each(item, key, masker) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each(item, name, masker) for item in value]
    if isinstance(value, int) and abs(value) >= _SMALLEST_NUMBER:
        written = str(value)
        masked = masker.mask(written, name)
        return value if masked == written else masked
    return value


def _key(name: str, masker: _Cached) -> str:
    return name if len(name) <= _LONGEST_NAME and name.isidentifier() else masker.mask(name)


def _holds_mark(value: Json) -> bool:
    if isinstance(value, str):
        return MARK in value
    if isinstance(value, Mapping):
        return any(_holds_mark(item) or MARK in key for key, item in value.items())
    return isinstance(value, list | tuple) and any(map(_holds_mark, value))


def _placeholders(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        if MARK in value:
            for match in PLACEHOLDER.finditer(value):
                yield match[0]
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _placeholders(key)
            yield from _placeholders(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _placeholders(item)


def _replaced(value: Json, found: Mapping[str, Entry]) -> Json:
    if isinstance(value, str):
        if MARK not in value:
            return value
        return PLACEHOLDER.sub(lambda match: found[match[0]].text if match[0] in found else match[0], value)
    if isinstance(value, Mapping):
        return {str(_replaced(key, found)): _replaced(item, found) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, found) for item in value]
    return value


def _typed(value: Json, argument: Argument | None) -> Json:
    """A number that was hidden as text is a number again where one is wanted."""
    if argument is not None and argument.type in ("integer", "number") and isinstance(value, str) and value.isdigit():
        return int(value)
    return value


def _level(entry: Entry, provenance: Provenance, whole: bool) -> Confidentiality:
    """How far a masked value may travel: as its kind says, unless a person typed it or the system says otherwise.

    A secret that a person typed goes where all of the argument is what they typed; into a longer text only personal
    data does.
    """
    if whole:
        return "public"
    if entry.kind in SECRETS:
        return "secret"
    meanings: tuple[Kind, ...] = (_MEANINGS.get(entry.kind, "text"), "text")
    for kind in meanings:
        origin = provenance.trace(Argument("value", kind=kind), entry.text)
        if origin.label == "user":
            return "public"
        if origin.label == "system":
            return origin.confidentiality
    return "private"
