"""The tools the gate knows, by one canonical id each. A name that only looks like a tool's is not that tool."""

import difflib
import re
import unicodedata

from overnight.core.errors import UsageError
from overnight.core.escape import visible
from overnight.kernel.tool.spec import ToolSpec

# Letters that render like a Latin one and survive NFKC: Cyrillic and Greek look-alikes (Unicode TR39, the subset that
# matches the letters of tool ids). Used only to say which tool a refused name imitates.
_LOOKALIKES = str.maketrans(
    "асԁеһіјӏорԛѕԝхуʏνοαεικρτυωκмтнв",
    "acdehijlopqswxyyvoaeikptuwkmthb",
)
_SANITISED = re.compile(r"[^a-z0-9]+")


def sanitised(tool_id: str) -> str:
    """What is left of an id when a transport replaces everything but letters and digits: the collision key."""
    return _SANITISED.sub("_", tool_id.lower()).strip("_")


class UnknownTool(UsageError):
    """No tool has this name; `code` says why: `unknown_tool` or `lookalike_tool`."""

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class Catalogue:
    """Tool specifications by canonical id. Not thread-safe while tools are added; lookups are."""

    def __init__(self) -> None:
        self._specs: dict[str, ToolSpec] = {}
        self._names: dict[str, ToolSpec] = {}
        self._taken: dict[str, str] = {}

    def __contains__(self, tool_id: str) -> bool:
        return tool_id in self._specs

    def __len__(self) -> int:
        return len(self._specs)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """All of them, by id."""
        return tuple(self._specs[name] for name in sorted(self._specs))

    def add(self, spec: ToolSpec) -> None:
        """Make a tool known; the same specification again changes nothing.

        Raises:
            UsageError: its id or an alias is taken, or would be once a transport has sanitised it (`demo/read`,
                `demo_read` and `demo.read` are one name to some of them).
        """
        known = self._specs.get(spec.id)
        if known is not None and known.version == spec.version:
            return
        names = (spec.id, *spec.aliases)
        for name in names:
            if not name.isascii():
                raise UsageError(f"{spec.id}: the alias {name!r} has letters outside ASCII", hint="use plain letters")
            owner = self._taken.get(sanitised(name))
            if owner is not None:
                raise UsageError(
                    f"{spec.id}: {name!r} cannot be told from a name of {owner}",
                    hint="rename one of the two servers or tools",
                )
        self._specs[spec.id] = spec
        for name in names:
            self._names[name] = spec
            self._taken[sanitised(name)] = spec.id

    def find(self, name: str) -> ToolSpec | None:
        """The tool whose id or declared alias is exactly `name`; None if there is none."""
        return self._names.get(name)

    def resolve(self, name: str) -> ToolSpec:
        """The tool that `name` names: its id or a declared alias, exactly.

        Full-width and other compatibility forms (NFKC) are taken for what they stand for; look-alikes from other
        alphabets, invisible characters and different case are refused, and the message says what they imitate.

        Raises:
            UnknownTool: no tool has this name.
        """
        spec = self._names.get(name)
        if spec is not None:
            return spec
        if not name.isascii():
            plain = unicodedata.normalize("NFKC", name)
            spec = self._names.get(plain)
            if spec is not None:
                return spec
            stripped = "".join(c for c in plain if unicodedata.category(c) not in ("Cf", "Mn", "Cc"))
            imitated = self._names.get(stripped.lower().translate(_LOOKALIKES))
            raise UnknownTool(
                f"the tool name {name[:80]!a} has letters that only look plain",
                code="lookalike_tool",
                hint=f"it imitates {imitated.id}" if imitated else "use the plain id",
            )
        close = difflib.get_close_matches(name, self._names, n=1, cutoff=0.6)
        raise UnknownTool(
            f"there is no tool {visible(name, limit=80)!r}",
            code="unknown_tool",
            hint=f"did you mean {close[0]!r}?" if close else "see `overnight gate matrix`",
        )
