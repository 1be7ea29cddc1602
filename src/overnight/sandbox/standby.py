"""Isolations set up before their program is known.

Moving a process into a control group waits for every core (some 10 ms in an idle harness), and namespaces take as long
again. Both are done by a thread of their own while something else is waited for: the keeper is started with all but
its program and environment, and `take` hands it over when a command comes that it fits exactly. Every command still has
an isolation that nothing ran in before.
"""

import contextlib
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor

from overnight.core.errors import OvernightError
from overnight.sandbox.cgroup import Hierarchy
from overnight.sandbox.command import Command
from overnight.sandbox.keeper import Keeper
from overnight.sandbox.process import Begun, begin


class Standby:
    """What is set up ahead for one sandbox. Any thread may call anything.

    The thread that starts keepers lives until `close`, since the kernel kills a keeper with the thread that started it.
    """

    def __init__(
        self, hierarchy: Hierarchy | None, keeper: Callable[[Command], Keeper], fits: Callable[[Command], Hashable]
    ) -> None:
        """Start with `keeper` in `hierarchy`; commands are interchangeable where `fits` is equal."""
        self._hierarchy = hierarchy
        self._keeper = keeper
        self._fits = fits
        self._lock = threading.Lock()
        self._starter: ThreadPoolExecutor | None = None
        self._waiting: dict[Hashable, list[Future[Begun | None]]] = {}

    def prepare(self, command: Command) -> None:
        """Set up what `command` will need, whatever its program and environment; returns at once, and never fails."""
        if command.stdin or command.hosts:
            return
        with self._lock:
            if self._starter is None:
                self._starter = ThreadPoolExecutor(1, thread_name_prefix="standby")
            self._waiting.setdefault(self._fits(command), []).append(self._starter.submit(self._start, command))

    def take(self, command: Command) -> Begun | None:
        """What was set up for a command like this one; None if nothing was, or if it could not be."""
        if command.stdin or command.hosts or not self._waiting:
            return None
        with self._lock:
            waiting = self._waiting.get(key := self._fits(command))
            future = waiting.pop(0) if waiting else None
            if waiting is not None and not waiting:
                del self._waiting[key]
        return future.result() if future is not None else None

    def close(self) -> None:
        """End all that was set up and not taken. Nothing that was taken may still run."""
        with self._lock:
            starter, self._starter = self._starter, None
            left = [future for waiting in self._waiting.values() for future in waiting]
            self._waiting.clear()
        for future in left:
            if not future.cancel() and (begun := future.result()) is not None:
                begun.abandon()
        if starter is not None:
            starter.shutdown()

    def _start(self, command: Command) -> Begun | None:
        with contextlib.suppress(OvernightError, OSError):  # the command itself will be told, when it is run
            return begin(self._keeper(command), command, self._hierarchy, hold=True)
        return None
