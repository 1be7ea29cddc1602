"""The code behind a tool, and what the gate does around it: precondition, before-images, changes."""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from overnight.core.errors import StoreError
from overnight.kernel.canonical import Json, canonical_json
from overnight.kernel.journal.entry import Change
from overnight.kernel.ledger.ledger import Amounts
from overnight.kernel.ledger.limits import Unit
from overnight.kernel.paths import PathRefused, PathRoot
from overnight.kernel.tool.spec import ToolSpec
from overnight.store.blobs import Blobs

Run = Callable[[Mapping[str, Json]], Json]
"""Does it: takes the decided arguments, returns a JSON value, raises on failure. Called from any thread."""

LARGEST_SNAPSHOT_BYTES = 64 << 20
"""Files above this are not kept before they are changed; the tool is then treated as one that cannot be undone."""


@dataclass(frozen=True)
class ToolCode:
    """A tool as registered with the gate.

    Attributes:
        spec: what decisions are made from.
        run: does it. Only the gate calls it.
        precondition: states what an approval relies on, e.g. the hash of the file to be overwritten; computed when the
            question is asked and again before the approved call runs.
        durable: whether the record must be on the disk before it runs. Only tools whose effects are recorded elsewhere
            as well (the loop's, in git) may go without.
        cost_usd: the most a call may cost, charged before it runs.
        readers: asks the system who else can read the object that a call has just read, for results that do not say.
    """

    spec: ToolSpec
    run: Run
    precondition: Callable[[Mapping[str, Json]], Json] | None = None
    durable: bool = True
    cost_usd: Callable[[Mapping[str, Json]], float] | None = None
    readers: Callable[[Mapping[str, Json]], Sequence[str]] | None = None

    def read_by(self, arguments: Mapping[str, Json]) -> frozenset[str] | None:
        """Who else can read what a call with these arguments has read; None if nobody can say."""
        if self.readers is None:
            return None
        try:
            return frozenset(name.casefold() for name in self.readers(arguments))
        except Exception:
            return None  # then nobody may see it

    def amounts(self, arguments: Mapping[str, Json]) -> Amounts:
        """What a call with these arguments is charged."""
        charged: dict[Unit, float] = {"calls": 1}
        if self.spec.effect == "egress" or self.spec.egress_with or self.spec.objects:
            charged["bytes"] = len(canonical_json(dict(arguments)))
        if self.cost_usd is not None:
            charged["usd"] = self.cost_usd(arguments)
        return charged


def changed_files(spec: ToolSpec, arguments: Mapping[str, Json]) -> tuple[str, ...]:
    """The files that a reversible tool with an effect may change: its path arguments."""
    if spec.effect == "read" or not spec.reversible:
        return ()
    found: list[str] = []
    for argument in spec.arguments:
        value = arguments.get(argument.name)
        if argument.kind == "path" and value is not None:
            found += [str(item) for item in (value if isinstance(value, list | tuple) else (value,))]
    return tuple(found)


def images(paths: PathRoot, blobs: Blobs, files: Sequence[str]) -> dict[str, str | None]:
    """The content of each file, as a blob id; None where there is none.

    Raises:
        StoreError: a file cannot be kept, so that changing it could not be undone.
    """
    return {name: _image(paths, blobs, name) for name in files}


def changes(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> tuple[Change, ...]:
    """What became of each file."""
    return tuple(Change(f"file:{name}", before[name], after[name]) for name in before if before[name] != after[name])


def _image(paths: PathRoot, blobs: Blobs, name: str) -> str | None:
    try:
        handle = paths.open(name, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except (OSError, PathRefused) as problem:
        raise StoreError(f"{name!r} cannot be kept before it is changed: {problem}", hint="check the file") from None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_SNAPSHOT_BYTES:
            raise StoreError(
                f"{name!r} cannot be kept before it is changed: it is no file of up to {LARGEST_SNAPSHOT_BYTES} bytes",
                hint="declare the tool as not reversible, so that it asks first",
            )
        return blobs.put(file.read())
