"""Times work.py in processes of their own and checks every answer. Never imports it.

Replace `draw` and `reference`: a task that nobody can know beforehand, and its right answer by the simplest means. The
clock is the kernel's count of the processor time that a round uses, read from outside.
"""

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
from collections import Counter

ROUNDS = 7
ROUND_CPU_S, ROUND_S = 2, 10
CHILD = """
import json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
print("ready", file=answers, flush=True)
task = json.loads(sys.stdin.readline())
space = {"__name__": "work"}
exec(compile(open(sys.argv[1]).read(), "work.py", "exec"), space)
print(json.dumps(space["work"](task)), file=answers, flush=True)
"""


def draw(rng):
    """A task, as JSON can hold it. Let all be equally hard: the fastest round counts."""
    letters = "etaoinshr"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 6))) for _ in range(400)]
    return " ".join(rng.choices(words, weights=[1 / (rank + 3) for rank in range(400)], k=6000))


def reference(task):
    """The right answer, and the yardstick."""
    counts = Counter(word for word in task.split() if len(word) >= 3)
    return sorted(counts, key=lambda word: (-counts[word], word))[:10]


def timed(task, answer):
    """Seconds of processor time from the import to the answer, which must be right."""
    before = spent_s()
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", "-c", CHILD, os.path.abspath("work.py")],
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
        child.stdout.readline(16)
        started_s = time.clock_gettime((~child.pid << 3) | 2)  # the child's processor time so far
        child.stdin.write(json.dumps(task).encode() + b"\n")
        child.stdin.flush()
        line = child.stdout.readline(1_000_000)
        right = json.loads(line) == answer
    except (OSError, ValueError, RecursionError):
        sys.exit("refused: no answer came in time")
    finally:
        killer.cancel()
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
    if not right:
        sys.exit("refused: an answer is wrong")
    return spent_s() - before - started_s


def limit():
    """In the round's process: so much processor time, and no notes for the next round."""
    resource.setrlimit(resource.RLIMIT_CPU, (ROUND_CPU_S, ROUND_CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def spent_s():
    """Processor time of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    rng = random.Random("a salt that only this file knows" + os.environ.get("OVERNIGHT_SEED", "0"))
    tasks = [draw(rng) for _ in range(ROUNDS)]
    yardstick_s, answers = math.inf, []
    for task in tasks:  # before any of work.py has run: it cannot slow the yardstick down
        begin = time.process_time()
        answers.append(reference(task))
        yardstick_s = min(yardstick_s, time.process_time() - begin)
    fastest_s = min(timed(task, answer) for task, answer in zip(tasks, answers))
    print(f"METRIC relative_time={fastest_s / yardstick_s:.6f}")
