"""Times primes.py in processes of their own and checks every answer. Never imports it.

The ranges are drawn here, and a round's process learns its own when the clock starts. The clock is the kernel's count
of the processor time that the process and its descendants use: they cannot set it, and a busy machine moves it little.
docs/examples.md says what this does not exclude.
"""

import ctypes
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from itertools import accumulate

ARTIFACT = os.path.abspath("primes.py")
ARTIFACT_BYTES = 20_000
LIMIT = 1_000_000
RANGES = 60
ROUNDS = 7
ROUND_CPU_S, ROUND_S = 2, 10  # a slower answer is none; by the clock only because a process may also do nothing
SALT = "20261130"
# Says that it is there, then waits; only what follows is timed. Its output is the answers alone: prints go to stderr.
CHILD = """
import json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
print("ready", file=answers, flush=True)
ranges = json.loads(sys.stdin.readline())
space = {"__name__": "primes"}
exec(compile(open(sys.argv[1]).read(), "primes.py", "exec"), space)
print(json.dumps(space["count_primes"](ranges)), file=answers, flush=True)
"""


class Refused(Exception):
    """There is no time, because an answer is wrong, late or missing, or because a process stayed behind."""


def main():
    if os.path.getsize(ARTIFACT) > ARTIFACT_BYTES:
        raise Refused(f"primes.py is larger than {ARTIFACT_BYTES:,} bytes")
    guard()
    rng = random.Random(SALT + os.environ.get("OVERNIGHT_SEED", "0"))
    tasks = [draw(rng) for _ in range(ROUNDS)]
    plain = []
    for ranges in tasks:  # before any of the artifact's code has run: it cannot slow the yardstick down
        begin = time.process_time()
        answers = plain_counts(ranges)
        plain.append((time.process_time() - begin, answers))
    yardstick_s = min(seconds for seconds, _ in plain)
    fastest_s = min(timed(ranges, answers) for ranges, (_, answers) in zip(tasks, plain, strict=True))
    # The fastest of several rounds of equal work: what disturbs a measurement only ever makes it longer.
    print(f"METRIC relative_time={fastest_s / yardstick_s:.6f}")
    print(f"METRIC milliseconds={fastest_s * 1000:.4f}")


def guard():
    """Close this process to others of the same user, and become the parent of all that a round leaves behind."""
    libc = ctypes.CDLL(None, use_errno=True)
    not_dumpable, child_subreaper = (4, 0), (36, 1)  # PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER
    if libc.prctl(*not_dumpable, 0, 0, 0) or libc.prctl(*child_subreaper, 0, 0, 0):
        raise Refused(f"prctl failed: {os.strerror(ctypes.get_errno())}")


def draw(rng):
    """Ranges of all widths, a few of them at the ends or empty, in any order."""
    widths = [round((LIMIT / 8) ** (number / RANGES)) for number in range(RANGES)]  # the same work in every round
    lows = [rng.randrange(LIMIT - width + 1) for width in widths]
    ranges = [(0, 0), (0, 3), (LIMIT - 1, LIMIT), (0, LIMIT // 2)]
    ranges += [(low, low + width) for low, width in zip(lows, widths, strict=True)]
    rng.shuffle(ranges)
    return ranges


def plain_counts(ranges):
    """The right answers, by one sieve of everything: also the yardstick."""
    flags = bytearray(b"\1") * LIMIT
    flags[:2] = b"\0\0"
    for number in range(2, math.isqrt(LIMIT) + 1):
        if flags[number]:
            flags[number * number :: number] = bytes(len(range(number * number, LIMIT, number)))
    below = [0, *accumulate(flags)]
    return [below[high] - below[low] for low, high in ranges]


def timed(ranges, answers):
    """Seconds of processor time that a fresh process takes from the ranges to the answers.

    Raises:
        Refused: the answers are not exactly these, or not there in time.
    """
    before = spent_s()
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", "-c", CHILD, ARTIFACT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={},
        cwd="/",
        start_new_session=True,
        preexec_fn=limit,
    )
    killer = threading.Timer(ROUND_S, child.kill)
    killer.start()
    try:
        if child.stdout.readline(16) != b"ready\n":
            raise Refused("the process did not start")
        started_s = time.clock_gettime((~child.pid << 3) | 2)  # clock_getcpuclockid(3): the child's processor time
        child.stdin.write(json.dumps(ranges).encode() + b"\n")
        child.stdin.flush()
        line = child.stdout.readline(100_000)
    except OSError as problem:
        raise Refused(f"the process ended early: {problem}") from None
    finally:
        killer.cancel()
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
    if left_behind():
        raise Refused("a process stayed behind")
    try:
        same = json.loads(line) == answers
    except (ValueError, RecursionError):
        raise Refused("no answers came in time") from None
    if not same:
        raise Refused("an answer is wrong")
    return spent_s() - before - started_s


def limit():
    """In the round's process: so much processor time, and no notes for the next round."""
    resource.setrlimit(resource.RLIMIT_CPU, (ROUND_CPU_S, ROUND_CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def spent_s():
    """Processor time of all processes that have ended, those that they waited for included."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def left_behind():
    """Whether the round's process started one that it did not wait for: such are our children since it ended."""
    try:
        return os.waitpid(-1, os.WNOHANG) is not None
    except ChildProcessError:
        return False


if __name__ == "__main__":
    try:
        main()
    except Refused as problem:
        sys.exit(f"refused: {problem}")
