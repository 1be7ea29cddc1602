"""Programs that would take too much. They are aimed at limits, with small ones, so without any they are not run."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from overnight.sandbox import Command, Finished, Limits, Mount, Sandbox

MIB = 1024 * 1024


@dataclass(frozen=True)
class LimitAttempt:
    """A program, its limits, and whether what came of it is as it must be."""

    name: str
    code: str
    limits: Limits
    as_it_must: Callable[[Finished], bool]

    def holds(self, sandbox: Sandbox) -> Finished | None:
        """None if the limit held; else how it ended."""
        with TemporaryDirectory() as folder:
            work = Path(folder).resolve()
            finished = sandbox.run(
                Command(
                    (sys.executable, "-I", "-c", self.code),
                    str(work),
                    {"PATH": "/usr/bin:/bin"},
                    (Mount(work, str(work), writable=True),),
                    self.limits,
                )
            )
        return None if self.as_it_must(finished) else finished


def _in_time(finished: Finished, seconds: float) -> bool:
    return finished.killed == "wall" and finished.seconds < seconds


LIMIT_ATTEMPTS = (
    LimitAttempt(
        "memory bomb",
        "x = [bytearray(50_000_000) for _ in range(40)]",
        Limits(wall_s=20, memory_bytes=300 * MIB),
        lambda finished: finished.killed == "memory" or b"MemoryError" in finished.stderr,
    ),
    LimitAttempt(
        "memory bomb over children",
        "import os, time\n"
        "for _ in range(10):\n"
        "    if os.fork() == 0: x = bytearray(b'x' * 60_000_000); time.sleep(9)\n"
        "time.sleep(9)",
        Limits(wall_s=20, memory_bytes=300 * MIB),
        lambda finished: finished.killed == "memory",
    ),
    LimitAttempt(
        "fork bomb",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        Limits(wall_s=1, pids=40),
        lambda finished: finished.killed in ("wall", "pids") and finished.seconds < 3,
    ),
    LimitAttempt(
        "thread bomb",
        "import threading, time\nn = 0\n"
        "try:\n"
        "    while n < 2000: threading.Thread(target=time.sleep, args=(9,), daemon=True).start(); n += 1\n"
        "except RuntimeError: pass\n"
        "print(n < 100, flush=True)\nimport os; os._exit(0)",
        Limits(wall_s=20, pids=40),
        lambda finished: finished.stdout == b"True\n" or finished.killed == "pids",
    ),
    LimitAttempt(
        "disk fill, one file",
        "f = open('f', 'wb')\nwhile True: f.write(bytes(1_000_000))",
        Limits(wall_s=20, disk_bytes=100 * MIB),
        lambda finished: finished.killed == "disk" or finished.signal == 25 or b"too large" in finished.stderr,
    ),
    LimitAttempt(
        "disk fill, many files",
        "for n in range(10**9):\n    with open(f'f{n}', 'wb') as f: f.write(bytes(5_000_000))",
        Limits(wall_s=20, disk_bytes=100 * MIB),
        lambda finished: finished.killed == "disk",
    ),
    LimitAttempt(
        "disk fill, deleted files",
        "import os\nk = []\n"
        "while True: f = open('f', 'wb', 0); os.unlink('f'); f.write(bytes(20_000_000)); k.append(f)",
        Limits(wall_s=20, disk_bytes=100 * MIB),
        lambda finished: finished.killed == "disk",
    ),
    LimitAttempt(
        "disk fill, empty files",
        "for n in range(10**9): open(f'f{n}', 'wb').close()",
        Limits(wall_s=60, disk_bytes=8 * MIB),
        lambda finished: finished.killed == "disk",
    ),
    LimitAttempt(
        "disk reserved at once",
        "import os\n"
        "try: os.posix_fallocate(os.open('f', os.O_CREAT | os.O_RDWR), 0, 500_000_000)\n"
        "except OSError: pass\n"
        "import time; time.sleep(0.5)",
        Limits(wall_s=20, disk_bytes=100 * MIB),
        lambda finished: finished.killed == "disk" or finished.exit_code == 0 or finished.signal == 25,
    ),
    LimitAttempt(
        "open files",
        "import os\nk = []\ntry:\n    while len(k) < 100_000: k.append(os.dup(0))\nexcept OSError: print('stopped')",
        Limits(wall_s=20),
        lambda finished: finished.stdout == b"stopped\n",
    ),
    LimitAttempt(
        "output flood",
        "import os\nwhile True: os.write(1, b'x' * 65536)",
        Limits(wall_s=1),
        lambda finished: _in_time(finished, 1.5) and finished.truncated and len(finished.stdout) < 2 * MIB,
    ),
    LimitAttempt(
        "ignores SIGTERM",
        "import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(60)",
        Limits(wall_s=0.5, grace_s=0.2),
        lambda finished: _in_time(finished, 1.2),
    ),
    LimitAttempt(
        "children hold the output open",
        "import os, time\nif os.fork() == 0: os.setsid(); time.sleep(60)\nprint('done')",
        Limits(wall_s=20),
        lambda finished: finished.exit_code == 0 and finished.seconds < 5,
    ),
    LimitAttempt(
        "burns CPU in children",
        "import os\nfor _ in range(4): os.fork()\nwhile True: pass",
        Limits(wall_s=20, cpu_s=0.5),
        lambda finished: finished.killed == "cpu" and finished.seconds < 10,
    ),
)
