"""What is in force of the files that execute or decide, and the gate that a run's authors pass.

As soon as an approver exists, the trusted copies rule and a change waits for `overnight gate trust`; the first run of a
fresh arena trusts it if a person is at the terminal. Before there is an approver nobody could trust anything, so each
run trusts what it was started with, says so once, and the journal keeps it.
"""

import sys
from pathlib import Path

from overnight.core.errors import Refused
from overnight.kernel.approval.approver import Approver
from overnight.kernel.approval.trust import Trust, Waiting
from overnight.kernel.gate import Gate
from overnight.kernel.keys import SigningKey, config_folder, outside
from overnight.kernel.parts import open_parts
from overnight.kernel.rules.policy_files import policy_in_force
from overnight.kernel.tool.files import SPECS
from overnight.loop.arena import arena as arenas
from overnight.loop.arena.arena import PROGRAM, Arena
from overnight.loop.passage import FAMILY, Passage, rules
from overnight.loop.place import Say
from overnight.loop.start import command_settings
from overnight.workspace import settings
from overnight.workspace.workspace import Workspace


class Grounds:
    """What a run stands on: the arena in force, the settings in force, and the gate over both."""

    def __init__(self, workspace: Workspace, say: Say) -> None:
        """Open the gate's parts for `workspace`; `say` is told what was trusted and what waits."""
        self.workspace = workspace
        self._say = say
        folder = outside(config_folder(), workspace.folder)
        self._parts = open_parts(workspace.folder, workspace.database, bursts={FAMILY: None})
        key = SigningKey.open(folder, "trust")
        self.trust = Trust(workspace.folder, workspace.database, self._parts.journal, key)
        self._strict = bool(Approver(folder).known())

    def arena(self, folder: Path) -> Arena:
        """The arena in `folder`, as its program.md is in force.

        Raises:
            ArenaError: there is none, or it is not usable.
            Refused: it was never trusted, and nobody is at the terminal to do so.
        """
        standing = arenas.load(folder)
        path = self._inside(standing.folder / PROGRAM)
        if path is None:
            return standing
        content = self._put_in_force([path, settings.FILE, "AGENTS.md"]).get(path)
        return arenas.load(folder, content) if content is not None else standing

    def passage(self, arena: Arena, run: str, author_command: str | None) -> Passage:
        """The gate for the authors of one run.

        Raises:
            SettingsError: a trusted AGENTS.md has a mistake.
        """
        inside = arena.folder.is_relative_to(self.workspace.folder)
        root = self.workspace.folder if inside else arena.folder
        programs = command_settings(author_command, self.workspace.resolved.settings.authors)
        policy = policy_in_force(self.trust, rules(arena, root, programs))
        gate = Gate(root, self._parts, policy)
        known = {spec.id for spec in SPECS}
        for spec in policy.tools:
            if spec.id not in known:
                gate.catalogue.add(spec)
        return Passage(gate, arena, root, run, self.close)

    def close(self) -> None:
        """Write what waits in the journal."""
        self._parts.journal.close()

    def _inside(self, path: Path) -> str | None:
        if not path.is_relative_to(self.workspace.folder):
            return None
        return path.relative_to(self.workspace.folder).as_posix()

    def _put_in_force(self, paths: list[str]) -> dict[str, bytes | None]:
        present = [path for path in paths if self.trust.current(path) is not None]
        if not self._strict:
            changed = [item for item in self.trust.pending() if item.path in present]
            self.trust.trust_as_started(changed)
            return {path: self.trust.current(path) for path in present}
        at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
        for path in self.trust.trust_first(present, by_person_at_terminal=at_terminal):
            self._say(f"trusted on this first run: {path}")
        for item in self.trust.pending():
            if item.path in present:
                self._say(_waits(item))
        return {path: self.trust.in_force(path) for path in present}


def _waits(item: Waiting) -> str:
    if not item.known:
        raise Refused(f"{item.path} is not trusted", reason="not_trusted", hint="run `overnight gate trust`")
    return f"{item.path} has changed since it was trusted; the trusted copy rules until `overnight gate trust`"
