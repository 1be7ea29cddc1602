"""No isolation: the same limits, environment and kills, for people who asked for exactly that. Its keeper is the
trampoline, which Landlock shares.
"""

import contextlib
import marshal
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from overnight.sandbox.cgroup import Hierarchy, start_ticks
from overnight.sandbox.command import Command, Finished, Mount, SandboxName, check
from overnight.sandbox.keeper import Keeper
from overnight.sandbox.process import run_begun, run_kept
from overnight.sandbox.standby import Standby

# Imported, not run as a script: then its compiled form is kept, which saves 4 ms of each start.
_TRAMPOLINE = "import sys; sys.path.append(sys.argv[2]); import trampoline; sys.exit(trampoline.main(sys.argv[1:]))"
_HERE = str(Path(__file__).parent)
_TMP = "overnight-tmp"
_TMP_NAME = re.compile(rf"{_TMP}-(\d+)-(\d+)-.*")


class Bare:
    """See `Sandbox`; isolates nothing, and mounts only say what the disk limit covers."""

    name: SandboxName = "none"
    remaps = False

    def __init__(self, hierarchy: Hierarchy | None) -> None:
        self._runner = Trampolines(hierarchy)

    def prepare(self, command: Command) -> None:
        """See `Sandbox.prepare`."""
        self._runner.standby.prepare(command)

    def close(self) -> None:
        """See `Sandbox.close`."""
        self._runner.standby.close()

    def run(self, command: Command, cancel: threading.Event | None = None) -> Finished:
        """See `Sandbox.run`."""
        check(command, remaps=False)
        with private_tmp(command) as prepared:
            return self._runner.run(prepared, {"landlock": None}, cancel)


class Trampolines:
    """Runs commands under the trampoline; what it is told of a command comes last, so any can be started ahead."""

    def __init__(self, hierarchy: Hierarchy | None) -> None:
        """Every command gets a group of its own in `hierarchy`."""
        self._hierarchy = hierarchy
        self.standby = Standby(
            hierarchy, lambda command: _trampoline(command, {}), lambda command: (command.limits, command.cpus)
        )

    def run(self, command: Command, confinement: Mapping[str, object], cancel: threading.Event | None) -> Finished:
        """Run `command` to its end; see trampoline.py for the keys of `confinement`."""
        keeper = _trampoline(command, confinement)
        if (begun := self.standby.take(command)) is not None:
            finished = run_begun(begun, keeper.config(begun.child.report_in), command, cancel)
            if finished is not None:
                return finished
        return run_kept(keeper, command, self._hierarchy, cancel)


def _trampoline(command: Command, confinement: Mapping[str, object]) -> Keeper:
    fixed = {"argv": command.argv, "cwd": command.cwd, "env": dict(command.env), "parent": os.getpid()}
    return Keeper(
        argv=lambda config: [sys.executable, "-I", "-S", "-c", _TRAMPOLINE, str(config), _HERE],
        config=lambda report: marshal.dumps({**fixed, **confinement, "report": report}),
        fds=(),
        stop=signal.SIGTERM,
    )


@contextlib.contextmanager
def private_tmp(command: Command) -> Iterator[Command]:
    """`command` with a folder for temporary files of its own, gone afterwards."""
    prefix = f"{_TMP}-{os.getpid()}-{start_ticks(os.getpid())}-"
    folder = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    try:
        mounts = (*command.mounts, Mount(folder, str(folder), writable=True))
        yield replace(command, env={"TMPDIR": str(folder), **command.env}, mounts=mounts)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep_tmp() -> None:
    """Remove the temporary folders of harness processes that are no more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_TMP}-*"):
        match = _TMP_NAME.fullmatch(folder.name)
        if match is not None and start_ticks(int(match[1])) != int(match[2]):
            shutil.rmtree(folder, ignore_errors=True)
