"""Stays with a confined command to its end: output, clock, limits, kills."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from overnight.core.errors import IsolationMissing
from overnight.sandbox.cgroup import Group, Hierarchy
from overnight.sandbox.command import Command, Finished, Killed
from overnight.sandbox.disk import DiskWatch
from overnight.sandbox.keeper import READ_BYTES, Child, Keeper, start
from overnight.sandbox.output import Output
from overnight.sandbox.processes import Census, descendants

# How often limits that the kernel does not enforce are looked at. A disk takes some 2 GB/s, so 50 MB a tick.
_TICK_S = 0.025
# How long pipes may stay open after the keeper is gone and everything in its group was killed.
_DRAIN_S = 0.25
# How long a keeper may take to end what it started.
_STOP_S = 0.5


def run_kept(keeper: Keeper, command: Command, hierarchy: Hierarchy | None, cancel: threading.Event | None) -> Finished:
    """Run `command`, whose confinement `keeper` carries out.

    Raises:
        IsolationMissing: the keeper could not be started or could not isolate.
    """
    started = time.monotonic()
    return _follow(begin(keeper, command, hierarchy), command, cancel, started)


def run_begun(begun: Begun, go: bytes, command: Command, cancel: threading.Event | None) -> Finished | None:
    """Run `command` under a keeper that was started ahead and goes on by `go`; None if it is gone, and nothing ran.

    Raises:
        IsolationMissing: the keeper could not isolate.
    """
    started = time.monotonic()
    try:
        begun.child.release(go)
    except OSError:
        begun.abandon()
        return None
    return _follow(begun, command, cancel, started)


@dataclass(frozen=True)
class Begun:
    """A keeper that was started, and the group it is in."""

    keeper: Keeper
    child: Child
    group: Group | None

    def close(self) -> None:
        """End what is left of it."""
        self.child.close()
        if self.group is not None:
            self.group.close()

    def abandon(self) -> None:
        """Kill it: nobody follows it."""
        signal.pidfd_send_signal(self.child.pidfd, signal.SIGKILL)
        self.child.process.wait()
        self.close()


def begin(keeper: Keeper, command: Command, hierarchy: Hierarchy | None, *, hold: bool = False) -> Begun:
    """Start `keeper` in a group of its own; with `hold` it waits for its program.

    Raises:
        IsolationMissing: it could not be started; nothing is left.
    """
    group = None
    if hierarchy is not None:
        try:
            group = Group(hierarchy, command.limits.memory_bytes, command.limits.pids)
        except OSError as error:
            for fd in keeper.fds:
                os.close(fd)
            raise IsolationMissing(f"no control group could be made: {error}", hint="overnight doctor") from error
    try:
        return Begun(keeper, start(keeper, command, group, hold=hold), group)
    except BaseException:
        if group is not None:
            group.close()
        raise


def _follow(begun: Begun, command: Command, cancel: threading.Event | None, started: float) -> Finished:
    try:
        return _Watch(begun, command, cancel, started).to_the_end()
    finally:
        begun.close()


class _Watch:
    """One command from start to end."""

    def __init__(self, begun: Begun, command: Command, cancel: threading.Event | None, started: float) -> None:
        self._child = child = begun.child
        self._pid = child.process.pid
        self._command = command
        self._group = group = begun.group
        self._keeper = begun.keeper
        self._cancel = cancel
        self._started = started
        self._deadline = started + command.limits.wall_s
        self._killed: Killed | None = None
        self._asked = False
        self._hard_kill_at = math.inf
        writable = [str(mount.source) for mount in command.mounts if mount.writable]
        limits = command.limits
        self._census = Census(self._pid, limits) if group is None else None
        self._disk = DiskWatch(writable, limits.disk_bytes, self._inside)
        self._streams = {
            child.stdout: Output(limits.output_bytes),
            child.stderr: Output(limits.output_bytes),
        }

    def _inside(self) -> Iterable[int]:
        pids = self._group.pids() if self._group is not None else descendants(self._pid)
        return [pid for pid in pids if pid != self._pid]

    def to_the_end(self) -> Finished:
        try:
            self._follow()
        except BaseException:
            self._kill_now()
            os.wait4(self._pid, 0)
            self._child.process.returncode = -signal.SIGKILL
            raise
        return self._finished()

    def _follow(self) -> None:
        """Read the streams and keep the limits until the keeper is gone and both streams are closed."""
        poll = select.poll()
        open_fds = {*self._streams, self._child.pidfd}
        for fd in open_fds:
            poll.register(fd, select.POLLIN)
        next_tick = self._started + _TICK_S
        gone_at = math.inf
        while open_fds:
            now = time.monotonic()
            until = min(next_tick, self._deadline, self._hard_kill_at, gone_at + _DRAIN_S)
            flood = False
            for fd, _ in poll.poll(max(math.ceil((until - now) * 1000), 0)):
                if fd == self._child.pidfd:
                    gone_at = time.monotonic()
                    closed = True
                    if self._group is not None and len(open_fds) > 1:
                        self._group.kill()  # what it left behind holds the pipes open
                else:
                    data = os.read(fd, READ_BYTES)
                    self._streams[fd].add(data)
                    closed = not data
                    flood = flood or (len(data) == READ_BYTES and self._streams[fd].truncated)
                if closed:
                    poll.unregister(fd)
                    open_fds.discard(fd)
            now = time.monotonic()
            if now >= gone_at + _DRAIN_S:
                break
            if flood:
                time.sleep(0.0005)  # 100 MB/s of noise must not cost the other workers a core
            if now >= self._hard_kill_at:
                self._kill_now()
            elif now >= self._deadline and self._killed is None:
                self._end("wall")
            if now >= next_tick:
                next_tick = now + _TICK_S
                self._tick()

    def _tick(self) -> None:
        if self._killed is not None:
            return
        group, cpu_limit = self._group, self._command.limits.cpu_s
        if self._cancel is not None and self._cancel.is_set():
            self._end("cancelled")
        elif group is not None and group.out_of_memory():
            self._end("memory")
        elif self._census is not None and (exceeded := self._census.exceeded()) is not None:
            self._end(exceeded)
        elif self._disk.exceeded():
            self._end("disk")
        elif group is not None and cpu_limit is not None and (group.cpu_s() or 0.0) > cpu_limit:
            self._end("cpu")

    def _end(self, reason: Killed) -> None:
        self._killed = reason
        self._deadline = math.inf
        grace_s = self._command.limits.grace_s
        if grace_s > 0 and reason in ("wall", "cancelled"):
            self._hard_kill_at = time.monotonic() + grace_s
            for pid in self._inside():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
        else:
            self._kill_now()

    def _kill_now(self) -> None:
        if self._group is not None:
            self._group.kill()
        ask = self._group is None and self._keeper.stop != signal.SIGKILL and not self._asked
        signal.pidfd_send_signal(self._child.pidfd, self._keeper.stop if ask else signal.SIGKILL)
        self._asked = True
        # A keeper that was asked ends what no group holds; if it cannot, it goes too.
        self._hard_kill_at = time.monotonic() + _STOP_S if ask else math.inf

    def _could_not_exec(self, words: bytes) -> bool:
        return self._keeper.exec_failed is not None and words.startswith(self._keeper.exec_failed)

    def _finished(self) -> Finished:
        _, status, usage = os.wait4(self._pid, 0)
        status_code = self._child.process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - self._started
        group = self._group
        cpu_s = group.cpu_s() if group is not None else None
        out, err = (self._streams[fd] for fd in (self._child.stdout, self._child.stderr))
        report = _read_report(self._child.report)
        exit_code, ended_by = report.get("exit-code"), report.get("signal")
        if self._killed is None and group is not None and group.out_of_memory():
            self._killed = "memory"
        if self._killed is not None:
            exit_code, ended_by = None, signal.SIGKILL
        elif exit_code is None and ended_by is None and status_code < 0:
            ended_by = -status_code
        elif exit_code is None and ended_by is None and self._could_not_exec(err.value()):
            exit_code = 127 if b"No such file" in err.value() else 126
        elif exit_code is None and ended_by is None:
            words = err.value().decode(errors="replace").strip()
            raise IsolationMissing(f"isolation failed: {words or 'no reason given'}", hint="overnight doctor")
        if ended_by == signal.SIGXCPU and self._command.limits.cpu_s is not None:
            self._killed = "cpu"
        return Finished(
            exit_code=exit_code,
            signal=ended_by,
            killed=self._killed,
            stdout=out.value(),
            stderr=err.value(),
            truncated=out.truncated or err.truncated,
            seconds=seconds,
            cpu_s=cpu_s if cpu_s is not None else usage.ru_utime + usage.ru_stime,
            memory_bytes=group.memory_bytes() if group is not None else None,
        )


def _read_report(fd: int) -> dict[str, int]:
    """All that the keeper reported. Its end of the pipe is closed, or held by what could not be killed."""
    os.set_blocking(fd, False)
    report: dict[str, int] = {}
    with contextlib.suppress(BlockingIOError):
        for line in os.read(fd, READ_BYTES).splitlines():
            with contextlib.suppress(ValueError):
                report.update(json.loads(line))
    return report
