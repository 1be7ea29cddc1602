"""Where values came from, traced by the kernel: what the person typed, what the system asserted, how secret it was.

One record per session tree, so that sub-agents neither lose what their parents may know nor escape what they read.
Nothing a caller passes raises a label. A value is `user` or `system` only if all of it is one token (or one run of
tokens) that the person typed, or one whole field that the system asserted, of the same meaning. Everything else is
`untrusted`, and carries the most confidential thing the tree has read so far: text that a model wrote after it read a
secret may hold it, encoded, translated or in pieces, and no comparison of text can rule that out. Only text that is
made of whole stretches of what the person typed, and of values the system asserted, carries no more than those values.
"""

from collections.abc import Mapping

from overnight.kernel.canonical import Json
from overnight.kernel.flow.composition import Composition
from overnight.kernel.flow.contacts import ContactKind, contacts_in, is_plain, says
from overnight.kernel.flow.label import Confidentiality, Kind, Origin, highest, weakest
from overnight.kernel.flow.sources import Sources
from overnight.kernel.flow.value import LOOSE, at, key_of, leaves, select
from overnight.kernel.flow.visits import Visits
from overnight.kernel.flow.words import LONGEST_RUN, PROSE, Words
from overnight.kernel.tool.spec import Argument, ToolSpec

# Agents use the same few paths, ids and addresses again and again; what was traced is kept until something new is seen.
_LONGEST_REMEMBERED = 100
_REMEMBERED = 4096
# What a person points to may fill in facts; of more than this they hardly read what they point to.
_LONGEST_POINTED = 100_000
_LONGEST_FACT = 80
_NO_FACTS: Mapping[str, Origin] = {}
_UNTOLD: frozenset[Kind] = frozenset({"number", "amount", "flag"})
# What somebody's message may say in their name, once the person has named both; never a link, an account or an amount.
_ASSERTED: frozenset[Kind] = frozenset({"recipient", "id", "date"})
_PERSON = Argument("author", kind="recipient")


class Provenance:
    """What one session tree has been told. Not thread-safe: the gate serialises a tree's calls."""

    def __init__(self, request: str = "", peak: Confidentiality = "public") -> None:
        """Start from what the person typed; `peak` is the most confidential thing read before a restart."""
        self.peak: Confidentiality = peak
        self.sources = Sources()
        self.visits = Visits(unknown=peak != "public")
        self.told = False
        """Whether anything but the person has spoken: since then a model's words may be somebody else's."""
        if peak != "public":
            self.sources.lost("what was read before a restart")
            self.told = True
        self._request = Words()
        self._authored = Words()
        self._pointed: set[str] = set()
        self._agreed: set[tuple[Kind, str, str]] = set()
        self._facts: dict[tuple[Kind, str], dict[str, Origin]] = {}
        self._composition = Composition(self._request)
        self._asserted: dict[tuple[Kind, str, str], str] = {}
        self._traced: dict[tuple[Kind, str, str], Origin] = {}
        self._spelled: dict[tuple[Kind, str, str], str] = {}
        self._untraced = Origin("untrusted", "public", "not traced")
        self._user = Origin("user", "public", "your request")
        if request:
            self.typed(request)

    def _forget(self) -> None:
        """What was traced may be traced otherwise from now on."""
        self._traced.clear()
        self._spelled.clear()

    def typed(self, text: str) -> None:
        """Take in what the person typed."""
        self._forget()
        self._request.add(text)

    def agreed(self, spec: ToolSpec, arguments: Mapping[str, Json]) -> None:
        """Take in that a person has seen a call's arguments and let it run: they know of what these name.

        That raises no label: an approval is for one call.
        """
        for argument in spec.arguments:
            if argument.critical and argument.kind not in PROSE and argument.name in arguments:
                self._agreed.update(self._keys(argument, arguments[argument.name]))

    def known_to_person(self, argument: Argument, value: Json) -> bool:
        """Whether the person typed a value, or has let a call with it run."""
        keys = self._keys(argument, value)
        return bool(keys) and (self.trace(argument, value).label == "user" or keys <= self._agreed)

    def _keys(self, argument: Argument, value: Json) -> set[tuple[Kind, str, str]]:
        found = {
            key_of(item, argument.kind)
            for given in at(value, argument.at)
            for item in (given if isinstance(given, list | tuple) else (given,))
        }
        return {(argument.kind, argument.of, key) for key in found if key is not None}

    def raise_peak(self, spec: ToolSpec) -> bool:
        """Count what a tool's result may hold as read; whether that made the tree's peak higher."""
        peak = highest(self.peak, spec.level)
        raised = peak != self.peak
        if raised:
            self._forget()
        self.peak = peak
        return raised

    def seen(
        self,
        spec: ToolSpec,
        result: Json,
        source: str,
        arguments: Mapping[str, Json] | None = None,
        readers: frozenset[str] | None = None,
    ) -> None:
        """Take in a tool's result, field by field.

        Args:
            spec: declares what each field may be trusted with.
            result: as the tool returned it.
            source: for people: which call this was.
            arguments: of the call; without them nobody spoke of what it read.
            readers: who else can read what it read, if the system was asked.
        """
        name = f"{spec.id} ({source})"
        named = arguments is not None and self.speaks_of(spec, arguments)
        if spec.effect in ("egress", "commit") and self.peak != "public" and self._tells(spec, arguments or {}):
            self.sources.spoken = True  # from now on reading on would be for telling
        self.sources.read(spec, arguments or {}, result, name, named=named, readers=readers)
        self.told = True
        if named and spec.effect == "read":
            self._point_to(spec, result)
        for declared in spec.fields:
            if declared.label != "system":
                continue
            level = declared.confidentiality or spec.confidentiality
            origin = Origin("system", level, f"{spec.id} {declared.path or 'result'} ({source})")
            facts = self._facts.setdefault((declared.kind, declared.of), {})
            for value in at(result, declared.path):
                for item in value if isinstance(value, list | tuple) else (value,):
                    key = key_of(item, declared.kind)
                    if key is not None and key not in facts:
                        self._forget()
                        facts[key] = origin
                        if declared.kind in LOOSE:
                            self._asserted[declared.kind, declared.of, key] = str(item)
                        self._composition.add(str(item), origin)

    def failed(self, spec: ToolSpec, source: str, arguments: Mapping[str, Json]) -> None:
        """Take in that a call may have read what it reads, and came back without a result."""
        self.told = True
        self.sources.written(spec, arguments)
        if spec.level != "public" and not spec.echoes:
            self.sources.lost(f"{spec.id} ({source})", named=self.speaks_of(spec, arguments))

    def speaks_of(self, spec: ToolSpec, arguments: Mapping[str, Json]) -> bool:
        """Whether the person spoke of everything that selects what a call reads; of "all there is" nobody speaks."""
        selects = False
        for name, value in arguments.items():
            argument = spec.by_name.get(name)
            if argument is None:
                return False
            if argument.kind in _UNTOLD or (spec.effect != "read" and argument.kind in PROSE):
                continue  # what is written does not select what comes back
            if not self._spoken(argument, value):
                return False
            selects = True
        return selects

    def _tells(self, spec: ToolSpec, arguments: Mapping[str, Json]) -> bool:
        """Whether a call told something that was read, in its own words."""
        known = spec.by_name
        return any(
            known[name].kind in PROSE and self.trace(known[name], value).confidentiality != "public"
            for name, value in arguments.items()
            if name in known
        )

    def _spoken(self, argument: Argument, value: Json) -> bool:
        if isinstance(value, list | tuple):
            return bool(value) and all(self._spoken(argument, item) for item in value)
        if argument.kind in PROSE:
            return self._request.names(value) or self._authored.names(value, exactly=True)
        if argument.of and self.sources.spoke_of((argument.of, str(value))):
            return True
        origin = self.trace(argument, value)
        return origin.label == "user" or (argument.kind == "date" and origin.label == "system")

    def _point_to(self, spec: ToolSpec, result: Json) -> None:
        """Keep the parts of what the person pointed to; and the words of those whom the person named as its author."""
        self._forget()
        room = _LONGEST_POINTED - sum(map(len, self._pointed))
        for leaf in leaves(result):
            if not isinstance(leaf, str) or room <= 0:
                continue
            for line in leaf[:room].splitlines():
                parts = {" ".join(part.split()) for part in (line, *line.split(","))}
                self._pointed |= {part for part in parts if part and len(part) <= _LONGEST_FACT}
            room -= len(leaf)
        if not spec.author or len(self._authored.text) > _LONGEST_POINTED:
            return
        *place, field = spec.author.split(".")
        for item in select(result, place):
            for author in select(item, [field]):
                key = key_of(author, "recipient")
                if key is not None and self._request.holds(_PERSON, author, key):
                    texts = [leaf for leaf in leaves(item) if isinstance(leaf, str)]
                    self._authored.add("\n".join(texts)[:_LONGEST_POINTED])

    def composed(self, value: Json) -> bool:
        """Whether text holds nothing but stretches of what the person typed and values the system asserted."""
        return isinstance(value, str) and (not value.strip() or self._composition.origin_of(value) is not None)

    def trace(self, argument: Argument, value: Json) -> Origin:
        """Where `value`, given for `argument`, came from: the weakest label of its parts, the highest secrecy."""
        kind, of = argument.kind, argument.of
        if type(value) is not str or argument.at:
            return self._trace(argument, value)
        if kind in PROSE:
            # Most prose is the model's own: no part of the request, and nothing that the system asserts as a whole.
            plain = self.peak == "public" and kind != "phrase" and (kind, of) not in self._facts
            if plain and (len(value) > LONGEST_RUN or value not in self._request.text):
                return self._untraced
            return self._trace(argument, value)
        if len(value) > _LONGEST_REMEMBERED:
            return self._trace(argument, value)
        key = (kind, of, value)
        origin = self._traced.get(key)
        if origin is None:
            if len(self._traced) >= _REMEMBERED:
                self._traced.clear()
            origin = self._traced[key] = self._trace(argument, value)
        return origin

    def spelling(self, argument: Argument, value: Json) -> Json:
        """A destination as whoever vouches for it spells it; anything else as it is.

        A name is spelled as the system does, which its tools know, an address as the person typed it. Within a
        structure nothing is respelled: another spelling is not vouched for there.
        """
        if argument.kind not in LOOSE or argument.at:
            return value
        if isinstance(value, list | tuple):
            return [self.spelling(argument, item) for item in value]
        if type(value) is not str or len(value) > LONGEST_RUN:
            return value
        at_hand = (argument.kind, argument.of, value)
        known = self._spelled.get(at_hand)
        if known is None:
            if len(self._spelled) >= _REMEMBERED:
                self._spelled.clear()
            key = key_of(value, argument.kind)
            known = (None if key is None else self._vouched(argument, value, key)) or value
            self._spelled[at_hand] = known
        return known

    def _vouched(self, argument: Argument, value: str, key: str) -> str | None:
        asserted = self._asserted.get((argument.kind, argument.of, key))
        if asserted is not None and argument.kind != "url":
            return asserted
        if self._request.holds(argument, value, key):
            return self._request.spelled(argument, value, key)
        if asserted is None and argument.kind in _ASSERTED and self._authored.holds(argument, value, key):
            return self._authored.spelled(argument, value, key)
        return asserted

    def _trace(self, argument: Argument, value: Json) -> Origin:
        if argument.at:
            return self._trace_within(argument, value)
        if isinstance(value, list | tuple):
            origins = [self.trace(argument, item) for item in value]
            if not origins:
                return Origin("system", "public", "empty")
            source = next((o.source for o in origins if o.label == "untrusted"), origins[0].source)
            return Origin(weakest(*(o.label for o in origins)), highest(*(o.confidentiality for o in origins)), source)
        prose = argument.kind in PROSE
        if prose and self.peak == "public" and len(str(value)) > LONGEST_RUN:
            return self._untraced
        key = key_of(value, argument.kind)
        if key is not None:
            # What can't be spelled as it was typed would be spelled as the model likes: nobody vouches for that.
            loose = argument.kind in LOOSE and isinstance(value, str)
            if self._request.holds(argument, value, key) and not (
                loose and self._request.spelled(argument, str(value), key) is None
            ):
                return self._user
            known = self._facts.get((argument.kind, argument.of), _NO_FACTS).get(key)
            if known is not None:
                return known
            if prose:
                if argument.kind == "phrase" or self.peak != "public":
                    composed = self._composition.origin_of(str(value))
                    if composed is not None:
                        return composed
                if argument.kind == "phrase" and " ".join(str(value).split()) in self._pointed:
                    return Origin("system", self.peak, "what you pointed to")
            elif (
                argument.kind in _ASSERTED
                and self._authored.holds(argument, value, key)
                and not (loose and self._authored.spelled(argument, str(value), key) is None)
            ):
                return Origin("system", self.peak, "somebody whom you named wrote it")
        return self._untraced if self.peak == "public" else Origin("untrusted", self.peak, "not traced")

    def _trace_within(self, argument: Argument, value: Json) -> Origin:
        """Of a value that lies within a structure; whatever else that holds may hold anything."""
        plain = Argument(argument.name, kind=argument.kind, integrity=argument.integrity, of=argument.of)
        steps = argument.at.split(".")
        items = list(value) if steps[0] == "*" and isinstance(value, list | tuple) else [value]
        given = [(item, select(item, steps[1:] if steps[0] == "*" else steps)) for item in items]
        if not given:
            return Origin("system", "public", "empty")
        if any(not found for _, found in given):
            return Origin("untrusted", self.peak, "not traced")
        single_values = [single for _, found in given for single in found]
        if any(self.spelling(plain, single) != single for single in single_values):
            return Origin("untrusted", self.peak, "not spelled as you or the system did")
        origin = self._trace(plain, single_values)
        rest = [leaf for item, found in given for leaf in leaves(item) if leaf not in found and leaf != argument.of]
        return Origin(origin.label, self.peak, origin.source) if rest else origin

    def strange_link(self, value: Json) -> str | None:
        """The first contact in a message that nobody vouches for (see `contacts_in`); None if there is none.

        Whoever reads a message acts on what it links to, so that an attacker who can put a link, or a number to ring,
        into a message from a colleague has reached the colleague.
        """
        if isinstance(value, list | tuple):
            return next((link for link in map(self.strange_link, value) if link is not None), None)
        if not isinstance(value, str) or is_plain(value):
            return None
        return next((text for kind, text in contacts_in(value) if not self._vouches(kind, text)), None)

    def _vouches(self, kind: ContactKind, text: str) -> bool:
        """Whether the person typed a contact, or the system asserted it."""
        if kind == "code":
            return text.casefold() in self._request.text.casefold()
        if kind == "number":
            return says(self._request.text, text) or any(
                says(key, text) for keys in self._facts.values() for key in keys
            )
        if kind == "handle":
            kind, text = "recipient", text.lstrip("@")
        key = key_of(text, kind)
        return key is not None and (
            self._request.holds(Argument("link", kind=kind), text, key) or key in self._facts.get((kind, ""), _NO_FACTS)
        )
