"""What confidential things a session has read, who may see them already, and who can read what it writes into.

Text that a model wrote may hold anything that it has read, encoded, reworded or in pieces. So nothing is looked for in
the text: what counts is what was read, whether the person spoke of it, and who may see it anyway.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from overnight.kernel.canonical import Json
from overnight.kernel.flow.value import at, select
from overnight.kernel.tool.spec import Argument, Audience, ToolSpec

ObjectKey = tuple[str, str]
"""What an object is and its id: `("file", "26")`."""


@dataclass(frozen=True, slots=True)
class Recipients:
    """Who will see what a call sends.

    Attributes:
        names: people, as recipients are compared.
        objects: what the call writes into; whoever can read one of these.
        strangers: also somebody whom no reader's name can stand for: the owner of an address, of an account.
    """

    names: frozenset[str] = frozenset()
    objects: frozenset[ObjectKey] = frozenset()
    strangers: bool = False


@dataclass(slots=True)
class _Read:
    """Things read, together: only who may see all of them is kept.

    Attributes:
        readers: who may see all of it; None if nothing was read.
        objects: read, but without being told by whom else; whoever can read one of these may see it again.
        name: one of them, for people.
    """

    readers: frozenset[str] | None = None
    objects: set[ObjectKey] = field(default_factory=set)
    name: str = ""

    def add(self, readers: frozenset[str], name: str) -> None:
        self.readers = readers if self.readers is None else self.readers & readers
        self.name = name


class Sources:
    """Of one session tree. Not thread-safe: the gate serialises a tree's calls."""

    def __init__(self) -> None:
        self.spoken = False
        """Whether something was read that the person spoke of, or something that was read has been told."""
        self._named = _Read()
        self._other = _Read()
        self._readers: dict[ObjectKey, frozenset[str]] = {}
        self._spoken_of: set[ObjectKey] = set()
        self._mixed: set[ObjectKey] = set()
        self._seen: set[ObjectKey] = set()

    @property
    def strayed(self) -> bool:
        """Whether something confidential was read that the person did not speak of."""
        return self._other.readers is not None or bool(self._other.objects)

    def lost(self, name: str, *, named: bool = False) -> None:
        """Something confidential was read and nobody knows what: nobody else may see it."""
        (self._named if named else self._other).add(frozenset(), name)

    def read(
        self,
        spec: ToolSpec,
        arguments: Mapping[str, Json],
        result: Json,
        name: str,
        *,
        named: bool,
        readers: frozenset[str] | None = None,
    ) -> None:
        """Take in a result.

        Args:
            spec: of the tool.
            arguments: of the call.
            result: as the tool returned it.
            name: for people.
            named: the person spoke of what the call asked for.
            readers: who else can read the objects, as the system said beside the result; None if it was not asked.
        """
        if spec.effect != "read":
            # What was written into objects may hold what was read before.
            self.written(spec, arguments)
        elif named:
            self.spoken = True
        bucket = self._named if named else self._other
        confidential = spec.level != "public" and not spec.echoes
        told = False
        for audience in spec.audiences:
            for item in at(result, audience.items):
                keys = _ids(audience, item, arguments)
                told_readers = readers if audience.readers is None else _readers(audience, item)
                if not keys:
                    if confidential and isinstance(result, list | tuple) and audience.items == "*":
                        bucket.add(frozenset(), name)  # an item of which nothing is told
                    continue
                told = True
                if confidential and spec.effect == "read":
                    self._seen.update(keys)
                for key in keys:
                    if told_readers is not None:
                        self._readers[key] = told_readers
                    if named or (spec.echoes and not self.strayed):
                        self._spoken_of.add(key)
                    if spec.echoes and self.strayed:
                        self._mixed.add(key)
                if confidential and told_readers is not None and audience.readers is not None:
                    bucket.add(told_readers, name)
                elif confidential:
                    bucket.objects.update(keys)
                    bucket.name = name
        if confidential and not told and result not in (None, [], {}, ""):
            bucket.add(frozenset(), name)

    def written(self, spec: ToolSpec, arguments: Mapping[str, Json]) -> None:
        """A call that writes into objects has run, or may have."""
        if self.strayed:
            self._mixed |= objects_of(spec, arguments)

    def readers(self, key: ObjectKey) -> frozenset[str] | None:
        """Who else can read an object; None if nothing told."""
        return self._readers.get(key)

    def spoke_of(self, key: ObjectKey) -> bool:
        """Whether the person named the object, or it holds nothing but what they spoke of."""
        return key in self._spoken_of and key not in self._mixed

    def read_in(self, to: Recipients) -> bool:
        """Whether something is only said where the session has read what others say."""
        return bool(to.objects) and not to.names and not to.strangers and to.objects <= self._seen

    def hidden_from(self, to: Recipients, *, chosen: bool) -> str | None:
        """The name of something read that one of the recipients may not see; None if they may see all of it.

        Args:
            to: who would see it.
            chosen: the person chose them; then they may see what the person spoke of.
        """
        for bucket in (self._other,) if chosen else (self._other, self._named):
            if not self._visible(bucket, to):
                return bucket.name
        return None

    def _visible(self, bucket: _Read, to: Recipients) -> bool:
        if bucket.readers is None and not bucket.objects:
            return True
        if to.strangers:
            return False
        if bucket.readers is None and not to.names and to.objects and bucket.objects == to.objects:
            return True  # said where it was read
        people = set(to.names)
        for key in to.objects:
            known = self._readers.get(key)
            if known is None:
                return False
            people |= known
        if not people and not to.objects:
            return False
        allowed = [] if bucket.readers is None else [bucket.readers]
        allowed += [self._readers.get(key, frozenset()) for key in bucket.objects]
        return all(people <= readers for readers in allowed)


def objects_of(spec: ToolSpec, arguments: Mapping[str, Json], *, discloses: bool = False) -> frozenset[ObjectKey]:
    """The objects that a call writes into; or those that it shows to its recipients."""
    return frozenset(
        key
        for argument in spec.objects
        if (argument.discloses if discloses else argument.into)
        for key in objects_in(argument, arguments)
    )


def objects_in(argument: Argument, arguments: Mapping[str, Json]) -> list[ObjectKey]:
    """The objects that one argument names."""
    return [
        (argument.of, str(value))
        for given in at(arguments.get(argument.name), argument.at)
        for value in (given if isinstance(given, list | tuple) else (given,))
        if value is not None
    ]


def _ids(audience: Audience, item: Json, arguments: Mapping[str, Json]) -> list[ObjectKey]:
    if audience.id.startswith("@"):
        value = arguments.get(audience.id[1:])
        return [] if value is None else [(audience.of, str(value))]
    return [(audience.of, str(value)) for value in select(item, audience.id.split(".")) if value is not None]


def _readers(audience: Audience, item: Json) -> frozenset[str] | None:
    if audience.readers is None:
        return None
    own = {name.casefold() for name in audience.own}
    found = {str(value).casefold() for path in audience.readers for value in at(item, path) if value is not None}
    return frozenset(found - own)
