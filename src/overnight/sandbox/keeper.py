"""Starts the process that keeps a command confined.

Every backend starts a *keeper* (bwrap, or our trampoline) that waits for its configuration on a pipe. So the keeper can
be put under its limits before it does anything, and no start needs a slow fork of this process. The keeper reports on
a second pipe, one JSON object a line: `{"exit-code": N}` or `{"signal": N}` when the command ended. A keeper that ends
without could not isolate. A keeper may be started before its program is known (standby.py); it then waits for `go`.
"""

import math
import os
import resource
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from overnight.core.errors import IsolationMissing
from overnight.sandbox.cgroup import Group
from overnight.sandbox.command import Command
from overnight.sandbox.processes import tasks_of

READ_BYTES = 65536

# Ctrl-C in a terminal goes to our whole process group, which a keeper leaves only after its fork: it can strike one.
_MEANT_FOR_US = tuple(-number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT))
_STARTS = 5


@dataclass(frozen=True)
class Keeper:
    """How to start one.

    Attributes:
        argv: from the descriptors it will find its configuration and report at.
        config: from the descriptor of the report; what to write into the configuration pipe.
        fds: further descriptors to inherit; closed by `run_kept`.
        stop: the signal that makes it end everything and itself.
        exec_failed: what its words start with when all is set up but the program cannot be started, if it does not
            report that as exit code 127 itself.
        go_by_stdin: started ahead, it is configured at once and waits for its program on standard input; else it waits
            for its configuration.
    """

    argv: Callable[[int], list[str]]
    config: Callable[[int], bytes]
    fds: tuple[int, ...]
    stop: signal.Signals
    exec_failed: bytes | None = None
    go_by_stdin: bool = False


@dataclass
class Child:
    """A keeper at work.

    Attributes:
        process: the keeper; whoever follows it reaps it and sets `returncode`.
        stdout: what the command prints; read end.
        stderr: likewise, and what the keeper says.
        report: what the keeper reports; read end.
        pidfd: readable when the keeper has ended.
        report_in: the number that the report's other end has in the keeper.
        held: where it waits for its `go`; None once it has it.
    """

    process: subprocess.Popen[bytes]
    stdout: int
    stderr: int
    report: int
    pidfd: int
    report_in: int
    held: int | None = None

    def release(self, go: bytes) -> None:
        """Let a keeper go on that was started ahead.

        Raises:
            OSError: it is gone.
        """
        assert self.held is not None
        held, self.held = self.held, None
        try:
            _write_all(held, go)
        finally:
            os.close(held)

    def close(self) -> None:
        """Close all descriptors."""
        for fd in (self.stdout, self.stderr, self.report, self.pidfd, self.held):
            if fd is not None:
                os.close(fd)


def start(keeper: Keeper, command: Command, group: Group | None, *, hold: bool = False) -> Child:
    """Start `keeper`, limited and in `group`, and tell it what to do; with `hold`, all but its program.

    Raises:
        IsolationMissing: it could not be started or limited; nothing runs.
    """
    opened: list[int] = list(keeper.fds)

    def pipe() -> tuple[int, int]:
        ends = os.pipe()
        opened.extend(ends)
        return ends

    kept: tuple[int, ...] = ()
    try:
        stdout, stdout_in = pipe()
        stderr, stderr_in = pipe()
        report, report_in = pipe()
        held: int | None = None
        if hold and keeper.go_by_stdin:
            stdin, held = pipe()
        else:
            stdin = _stdin(command.stdin)
            opened.append(stdin)
        for chance in reversed(range(_STARTS)):
            config_out, config = pipe()
            try:
                process = subprocess.Popen(
                    keeper.argv(config_out),
                    stdin=stdin,
                    stdout=stdout_in,
                    stderr=stderr_in,
                    pass_fds=(*keeper.fds, config_out, report_in),
                    env={},
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                raise IsolationMissing(f"{keeper.argv(config_out)[0]} does not start: {error}") from error
            try:
                pidfd = os.pidfd_open(process.pid)
                opened.append(pidfd)
                if group is not None:
                    group.add(process.pid)
                _limit(process.pid, command, grouped=group is not None)
                os.close(config_out)
                opened.remove(config_out)
                if hold and not keeper.go_by_stdin:
                    held = config
                else:
                    _write_all(config, keeper.config(report_in))
                break
            except BaseException as error:
                process.kill()
                process.wait()
                if chance and isinstance(error, OSError) and process.returncode in _MEANT_FOR_US:
                    continue
                if isinstance(error, BrokenPipeError):
                    raise IsolationMissing(f"isolation failed: {_said(stderr)}", hint="overnight doctor") from error
                if isinstance(error, OSError):
                    raise IsolationMissing(f"limits could not be set: {error}", hint="overnight doctor") from error
                raise
        kept = (stdout, stderr, report, pidfd) if held is None else (stdout, stderr, report, pidfd, held)
        return Child(process, stdout, stderr, report, pidfd, report_in, held)
    finally:
        for fd in opened:
            if fd not in kept:
                os.close(fd)


def _said(stderr: int) -> str:
    """What a keeper that is gone has said; we hold the other end too, so reading must not wait for its end."""
    os.set_blocking(stderr, False)
    try:
        return os.read(stderr, READ_BYTES).decode(errors="replace").strip()
    except BlockingIOError:
        return "no reason given"


def _stdin(data: bytes) -> int:
    if not data:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    _write_all(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _limit(pid: int, command: Command, *, grouped: bool) -> None:
    """Per-process limits, inherited by all that the keeper starts."""
    limits = command.limits
    wanted = [
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, limits.disk_bytes, limits.disk_bytes),
        (resource.RLIMIT_NOFILE, 4096, 4096),
    ]
    if limits.cpu_s is not None:
        whole = math.ceil(limits.cpu_s)
        wanted.append((resource.RLIMIT_CPU, whole, whole + 1))
    if not grouped:
        # The user's processes are counted all together, other workers' included; Census counts ours exactly. Resident
        # memory cannot be limited; private memory can, without forbidding what is reserved but not used.
        if os.getuid() != 0:  # the kernel exempts root
            tasks = tasks_of(os.getuid()) + 2 * limits.pids
            wanted += [(resource.RLIMIT_NPROC, tasks, tasks)]
        wanted += [(resource.RLIMIT_DATA, limits.memory_bytes, limits.memory_bytes)]
    for kind, soft, hard in wanted:
        ceiling = resource.prlimit(pid, kind)[1]
        if ceiling != resource.RLIM_INFINITY:
            soft, hard = min(soft, ceiling), min(hard, ceiling)
        resource.prlimit(pid, kind, (soft, hard))
    if command.cpus is not None:
        os.sched_setaffinity(pid, command.cpus)
