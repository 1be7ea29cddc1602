"""How git is started: never with anything of a repository that executes, never hanging, its own words in errors.

A repository is data that others may have written, so every call switches off what a repository's configuration can
make git run: hooks, fsmonitor, pagers, filters named by global attributes, automatic maintenance, fetches of missing
objects, prompts. Filters, textconv and external diffs of the repository itself are avoided by using only commands that
never apply them.
"""

import os
import re
import select
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from overnight.core.errors import GitError, Missing

ANSWER_TIMEOUT_S = 120.0
"""No helper answers later than this unless it is stuck; a guess on the safe side, not a measurement."""

COMMAND_TIMEOUT_S = 1800.0
"""Walking every object of the largest repositories takes minutes; nothing else takes more than a second."""

_OVERRIDES = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.attributesFile=/dev/null",
    "core.logAllRefUpdates=false",
    "core.quotePath=true",
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
)
_SETTINGS = {
    "LC_ALL": "C",
    # A protocol.NAME.allow of the repository would win over protocol.allow, but nothing wins over this one.
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_ASKPASS": "/bin/false",
    "SSH_ASKPASS": "/bin/false",
}
# The person's own git configuration stays in force (safe.directory, excludes); these would add to it, or run programs.
_DROPPED = ("GIT_", "PAGER", "EDITOR", "VISUAL", "SSH_ASKPASS", "LESSOPEN", "LESSCLOSE", "LANGUAGE")


_UNWRITABLE = ("Permission denied", "Read-only file system", "insufficient permission", "unable to create directory")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment git gets: ours without what steers git, with relative PATH entries removed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    # A "." in PATH would let a file of the arena called `git` or `sh` run.
    kept["PATH"] = os.pathsep.join(
        part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(part)
    )
    return {**kept, **_SETTINGS, **(extra or {})}


def command(arguments: Sequence[str | bytes], path: str) -> list[str | bytes]:
    """The full command line for `git ARGUMENTS`.

    Raises:
        Missing: git is not installed.
    """
    program = shutil.which("git", path=path)
    if program is None:
        raise Missing("git is not installed", hint="install it, e.g. `apt-get install git`")
    line: list[str | bytes] = [program]
    for override in _OVERRIDES:
        line += ["-c", override]
    return line + list(arguments)


def failure(what: str, words: str) -> GitError:
    """A GitError that carries git's own `words` and says what to do next."""
    words = words.strip()
    hint = ""
    if "dubious ownership" in words or "unsafe repository" in words:
        found = re.search(r"(?:repository at|repository \() ?'?([^'\n)]+)", words)
        place = found[1] if found else "FOLDER"
        words = words.splitlines()[0]
        hint = f"it belongs to another user; if you trust it: git config --global --add safe.directory '{place}'"
    elif any(sign in words for sign in _UNWRITABLE):
        hint = "make the repository's .git folder writable for you"
    elif "No space left" in words or "Disk quota" in words:
        hint = "free some disk space, then resume; nothing recorded is lost"
    elif ".lock" in words and "File exists" in words:
        hint = "another git is at work, or one died and left its lock file; try again, or remove the file it names"
    return GitError(f"git {what} failed: {words or 'it ended without a word'}", hint=hint)


def run(
    arguments: Sequence[str | bytes],
    *,
    cwd: Path,
    extra: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    expect: Sequence[int] = (0,),
) -> tuple[int, bytes]:
    """Run one git command to its end; returns its exit status and stdout.

    Raises:
        GitError: it ended with a status not in `expect`, or could not be started.
    """
    env = environment(extra)
    what = os.fsdecode(arguments[0])
    try:
        done = subprocess.run(
            command(arguments, env["PATH"]),
            cwd=cwd,
            env=env,
            input=stdin,
            capture_output=True,
            start_new_session=True,
            timeout=COMMAND_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as problem:
        raise failure(what, f"it did not end within {COMMAND_TIMEOUT_S:.0f} s") from problem
    except OSError as problem:
        raise failure(what, f"{problem.strerror}: {problem.filename}") from problem
    if done.returncode not in expect:
        raise failure(what, done.stderr.decode("utf-8", "replace"))
    return done.returncode, done.stdout


class Helper:
    """A git command that stays alive and answers requests in turn; started at first use, again after it died.

    Hold `lock` from sending a request until its answer is read. A request that fails kills the process, so that no
    later request can read a stale answer.
    """

    def __init__(self, arguments: Sequence[str | bytes], *, cwd: Path, extra: Mapping[str, str]) -> None:
        self.lock = threading.RLock()
        self._arguments = list(arguments)
        self._cwd = cwd
        self._extra = dict(extra)
        self._process: subprocess.Popen[bytes] | None = None
        self._words: IO[bytes] | None = None
        self._pending = b""

    @property
    def pid(self) -> int | None:
        """Process id of the running helper, or None."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def send(self, request: bytes) -> None:
        """Write a request, starting the process if it is not there.

        Raises:
            GitError: it could not be started, or died while reading.
        """
        if self.pid is None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except OSError as problem:
            raise self._died() from problem

    def line(self) -> bytes:
        """The next line of the answer, without its newline."""
        while b"\n" not in self._pending:
            self._fill(1 << 16)
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def exactly(self, size: int) -> bytes:
        """The next `size` bytes of the answer."""
        parts, have = [self._pending], len(self._pending)
        while have < size:
            self._pending = b""
            self._fill(max(1 << 16, min(size - have, 1 << 20)))
            parts.append(self._pending)
            have += len(self._pending)
        whole = b"".join(parts)
        self._pending = whole[size:]
        return whole[:size]

    def stop(self) -> str:
        """End the process; returns what it said on stderr."""
        process, words, self._process, self._words, self._pending = self._process, self._words, None, None, b""
        if process is None or words is None:
            return ""
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except OSError:
                pass  # closing flushes; a dead process no longer reads
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with words:
            words.seek(0)
            return words.read().decode("utf-8", "replace")

    def _start(self) -> None:
        self.stop()
        env = environment(self._extra)
        # A file, not a pipe: nobody has to drain it, so a talkative git can't block on it.
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `stop`)
        try:
            self._process = subprocess.Popen(
                command(self._arguments, env["PATH"]),
                cwd=self._cwd,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._words,
                # Ctrl-C is for us; a helper killed in the middle of a transaction would lose it.
                start_new_session=True,
            )
        except OSError as problem:
            self._words.close()
            self._words = None
            raise failure(self._name, f"{problem.strerror}: {problem.filename}") from problem

    def _fill(self, size: int) -> None:
        assert self._process is not None and self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(ANSWER_TIMEOUT_S * 1000):
            self._process.kill()
            self.stop()
            raise failure(self._name, f"it did not answer within {ANSWER_TIMEOUT_S:.0f} s")
        chunk = os.read(descriptor, size)
        if not chunk:
            raise self._died()
        self._pending += chunk

    def _died(self) -> GitError:
        return failure(self._name, self.stop())

    @property
    def _name(self) -> str:
        return os.fsdecode(self._arguments[0])
