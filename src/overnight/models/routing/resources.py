"""What this machine has to spare, and whether a local model fits into it at this moment."""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from overnight.models.queue.shared import waiting
from overnight.models.release import Release
from overnight.models.routing.settings import RouterSettings
from overnight.models.upstream.keys import key_for
from overnight.store.database import Database

_LOCAL_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_CONNECT_S: Final = 0.2
_GPU_S: Final = 3.0
_CALLS: Final = 20
"""Speed is the median over so many of the newest calls."""


@dataclass(frozen=True)
class Resources:
    """This machine at one moment.

    Attributes:
        ram_bytes: free for new processes without swapping, within the process's own memory limit.
        vram_bytes: free on the graphics card with most to spare; None without one.
        load: runnable processes for each processor, over the last minute.
    """

    ram_bytes: int
    vram_bytes: int | None
    load: float


def look() -> Resources:
    """This machine now. Takes a few milliseconds; with `nvidia-smi` some tens."""
    load = os.getloadavg()[0] / max(1, len(os.sched_getaffinity(0)))
    return Resources(_free_ram_bytes(), _free_vram_bytes(), load)


def _free_ram_bytes() -> int:
    free = 0
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    # A container's own limit is not in /proc/meminfo.
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return free
    return free if limit == "max" else max(0, min(free, int(limit) - used))


def _free_vram_bytes() -> int | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    asked = [program, "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_GPU_S, check=True)
        return max(int(line) for line in done.stdout.split()) * 2**20
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


class Monitor:
    """Says whether a model is to be offered. What it measures is measured once; make another for the next moment."""

    def __init__(
        self,
        settings: RouterSettings,
        database: Database | None = None,
        resources: Callable[[], Resources] = look,
    ) -> None:
        """Measure nothing yet.

        Args:
            settings: the bounds.
            database: where calls are on record, for the measured speed, and where those wait that are served by turns.
            resources: how the machine is looked at.
        """
        self._settings = settings
        self._database = database
        self._look = resources
        self._seen: Resources | None = None

    @property
    def resources(self) -> Resources:
        """The machine, as it was at first use."""
        if self._seen is None:
            self._seen = self._look()
        return self._seen

    def why_not(self, release: Release) -> str:
        """Why a model is not to be offered, as a sentence; "" if it is."""
        if release.provider.kind == "any-llm":
            # It brings the client of all providers, which those who only ask for a place need not wait for.
            from overnight.models.upstream.any_llm import missing

            if problem := missing():
                return problem
        try:
            key_for(release.provider_name, release.provider)
        except LookupError as problem:
            return str(problem)
        if release.settings.tier > 2 or release.target.host not in _LOCAL_HOSTS:
            return ""
        return self._busy(release) or self._closed(release) or self._slow(release) or self._large(release)

    def tokens_s(self, release: str) -> float | None:
        """Median tokens a second of the newest calls, waiting included; None without any."""
        if self._database is None:
            return None
        rows = self._database.rows(
            "SELECT c.output_tokens AS tokens, s.ended_us - s.started_us AS us FROM model_calls c"
            " JOIN spans s ON s.trace = c.trace AND s.span = c.span"
            " WHERE c.release = ? AND c.outcome = 'ok' AND c.output_tokens >= 8 ORDER BY c.at_us DESC LIMIT ?",
            (release, _CALLS),
        )
        speeds = sorted(row["tokens"] / row["us"] * 1e6 for row in rows if row["us"] > 0)
        return speeds[len(speeds) // 2] if speeds else None

    def _busy(self, release: Release) -> str:
        settings = self._settings
        asked = waiting(self._database, release.provider_name) if self._database and release.provider.slots else 0
        if asked > settings.most_waiting:
            return f"{asked} requests wait for its provider, at most {settings.most_waiting} may"
        if self.resources.load > settings.most_load:
            return f"the machine is busy: load {self.resources.load:.1f} a processor, at most {settings.most_load:g}"
        return ""

    def _closed(self, release: Release) -> str:
        target = release.target
        try:
            socket.create_connection((target.host, target.port), _CONNECT_S).close()
        except OSError:
            return f"nothing answers at {target.host}:{target.port}; start its server"
        return ""

    def _slow(self, release: Release) -> str:
        speed = self.tokens_s(release.name)
        if speed is not None and speed < self._settings.least_tokens_s:
            return f"it made {speed:.1f} tokens/s lately, at least {self._settings.least_tokens_s:g} are asked for"
        return ""

    def _large(self, release: Release) -> str:
        needed = self._settings.memory.get(release.name)
        # A model that answered lately is loaded, and its memory is no longer free.
        if needed is None or self.tokens_s(release.name) is not None:
            return ""
        seen = self.resources
        free = max(seen.ram_bytes, seen.vram_bytes or 0)
        if free < needed:
            return f"it needs {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free"
        return ""
