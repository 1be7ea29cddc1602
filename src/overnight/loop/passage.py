"""What the loop's authors do passes the gate: rules of the same matrix, in the same journal as every other action.

`artifact.write` is decided for every change before it is measured, `author.run` for every start of an author's program.
The rules that allow them are made from what is trusted: `editable` and `hidden` of program.md, `[authors.NAME]` of
overnight.toml. An AGENTS.md can narrow them further, and nothing can widen them.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from overnight.kernel.canonical import Json
from overnight.kernel.gate import Gate
from overnight.kernel.rules.constraint import Constraint
from overnight.kernel.rules.matrix import Rule
from overnight.kernel.session import Principal, Session
from overnight.kernel.tool.code import ToolCode
from overnight.kernel.tool.spec import Argument, ToolSpec
from overnight.loop.arena.arena import PROGRAM, Arena
from overnight.loop.authors.settings import CommandSettings

FAMILY = "artifact"
WRITE = ToolSpec(
    "artifact.write",
    "write",
    (
        Argument("paths", type="array", kind="path"),
        Argument("run", integrity="any"),
        Argument("experiment", type="integer", integrity="any"),
        Argument("tree", integrity="any"),
    ),
    family=FAMILY,
    description="Change an artifact, in a checkout and a commit of the run's own; the person's files stay as they are.",
)
RUN = ToolSpec(
    "author.run",
    "write",
    (
        Argument("command", integrity="any"),
        Argument("hosts", type="array", integrity="any"),
        Argument("environment", type="array", integrity="any"),
        Argument("mounts", type="array", integrity="any"),
        Argument("network", type="boolean", integrity="any"),
    ),
    family=FAMILY,
    description="Start an author's program in a sandbox that reaches no more than this.",
)


def agent(author: str) -> str:
    """Who an author is to the gate."""
    cleaned = "".join(char if char.isascii() and char.isalnum() else "-" for char in author.lower()).strip("-")
    return f"author/{cleaned[:60] or 'unnamed'}"


def rules(arena: Arena, root: Path, authors: Mapping[str, CommandSettings]) -> tuple[Rule, ...]:
    """What program.md and the settings allow, for the outermost layer of the workspace's rules.

    Args:
        arena: whose `editable` bounds every write. A wildcard bounds by the folder it stands in; the exact pattern is
            checked by `scope` besides.
        root: from where the gate's paths start.
        authors: by name, those that run a program.
    """
    place = PurePosixPath(arena.folder.relative_to(root).as_posix())
    below = tuple(sorted({_path(place, _fixed(pattern)) for pattern in arena.front.editable}))
    hidden = tuple(_path(place, name.rstrip("/")) for name in arena.front.hidden if not set(name) & set("*?"))
    where = f"{_path(place, PROGRAM)}: editable"
    made = [
        Rule(
            "allow",
            agents=("author", "author/*"),
            tools=(WRITE.id,),
            arguments={"paths": Constraint(under=below, not_under=hidden)},
            why="the person's program.md lets authors change these",
            where=where,
        )
    ]
    for name, settings in authors.items():
        bounds = {"command": Constraint(one_of=(settings.command,))}
        for key, values in (
            ("hosts", settings.hosts),
            ("environment", settings.environment),
            ("mounts", settings.mounts),
        ):
            bounds[key] = Constraint(one_of=values) if values else Constraint(max_length=0)
        bounds["network"] = Constraint(one_of=(settings.network,))
        made.append(
            Rule(
                "allow",
                agents=("author", agent(name)),
                tools=(RUN.id,),
                arguments=bounds,
                why="the settings let this author run",
                where=f"[authors.{name}]",
            )
        )
    return tuple(made)


def _fixed(pattern: str) -> str:
    """What of a pattern stands before its first wildcard, up to a whole folder or file."""
    parts = []
    for part in PurePosixPath(pattern).parts:
        if set(part) & set("*?"):
            break
        parts.append(part)
    return "/".join(parts)


def _path(place: PurePosixPath, name: str) -> str:
    path = place / name
    return str(path) if path.parts else "./"


class Passage:
    """The gate as one run's authors meet it. May be called from several threads."""

    def __init__(self, gate: Gate, arena: Arena, root: Path, run: str, close: Callable[[], None]) -> None:
        """Pass `gate`, whose policy holds `rules`; `close` gives up what stands behind it."""
        self._gate = gate
        self._place = arena.folder.relative_to(root).as_posix()
        self._run = run
        self._close = close
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()
        for spec in (WRITE, RUN):
            # What happens is done by the loop, in git and in a sandbox; the gate decides it and keeps it on record.
            gate.register(ToolCode(spec, lambda arguments: {"decided": True}, durable=False))

    def write(self, author: str, n: int, paths: Sequence[str], tree: str) -> str:
        """Why an author may not make this change; "" if it may."""
        if not paths:
            return ""
        inside = [str(PurePosixPath(self._place) / path) for path in paths]
        arguments: dict[str, Json] = {"paths": list(inside), "run": self._run, "experiment": n, "tree": tree}
        return self._ask(author, WRITE.id, arguments, f"experiment {n} of {self._run}")

    def start(self, author: str, settings: CommandSettings) -> str:
        """Why an author's program may not be started; "" if it may."""
        arguments: dict[str, Json] = {
            "command": settings.command,
            "hosts": list(settings.hosts),
            "environment": list(settings.environment),
            "mounts": list(settings.mounts),
            "network": settings.network,
        }
        return self._ask(author, RUN.id, arguments, f"a proposal for {self._run}")

    def close(self) -> None:
        """Write what waits in the journal."""
        self._close()

    def _ask(self, author: str, tool: str, arguments: Mapping[str, Json], reason: str) -> str:
        outcome = self._gate.call(self._session(author), tool, arguments, reason=reason)
        if outcome.status == "done":
            return ""
        said = outcome.decision.reasons[0].sentence if outcome.decision.reasons else outcome.status
        return f"the gate said {outcome.decision.verdict} ({outcome.decision.rule}): {said}"

    def _session(self, author: str) -> Session:
        with self._lock:
            if author not in self._sessions:
                # A refused change is recorded and never runs, so the next proposal may be heard.
                self._sessions[author] = self._gate.open(Principal(agent(author)), on_denied="continue")
            return self._sessions[author]
