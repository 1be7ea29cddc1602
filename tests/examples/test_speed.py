from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Examples = Callable[[str], Any]

# Counts correctly, whatever else it does: primes below every end, by one sieve.
HONEST = """
def count_primes(ranges):
    top = max((high for _, high in ranges), default=0) + 2
    flags = bytearray(b"\\1") * top
    flags[:2] = b"\\0\\0"
    for number in range(2, int(top**0.5) + 1):
        if flags[number]:
            flags[number * number :: number] = bytes(len(range(number * number, top, number)))
    return [flags.count(1, low, high) for low, high in ranges]
"""


def test_the_baseline_is_right_and_a_better_algorithm_is_faster(example: Examples) -> None:
    speed = example("speed")
    baseline = speed.score()
    assert 0.1 < baseline < 10
    (speed.folder / "primes.py").write_text(HONEST)
    assert speed.score() < baseline


def test_work_done_at_import_counts(example: Examples) -> None:
    speed = example("speed")
    (speed.folder / "primes.py").write_text(HONEST)
    plain = speed.score()
    (speed.folder / "primes.py").write_text(f"sum(range(3_000_000))\n{HONEST}")
    assert speed.score() > plain + 0.3


def test_work_done_by_a_child_counts(example: Examples) -> None:
    speed = example("speed")
    (speed.folder / "primes.py").write_text(HONEST)
    plain = speed.score()
    idle = "import os\nif not (child := os.fork()):\n    sum(range(3_000_000))\n    os._exit(0)\nos.waitpid(child, 0)\n"
    (speed.folder / "primes.py").write_text(idle + HONEST)
    assert speed.score() > plain + 0.3


WRONG = {
    "off by one": HONEST.replace("flags[:2]", "flags[:1]").replace('b"\\0\\0"', 'b"\\0"'),
    "only whole thousands": HONEST.replace(
        "low, high in ranges]", "low, high in [(l // 9 * 9, h) for l, h in ranges]]"
    ),
    "nothing": "def count_primes(ranges):\n    return []\n",
    "no list": "def count_primes(ranges):\n    return None\n",
    "true for one": HONEST
    + "\ncount = count_primes\ndef count_primes(ranges):\n    return [str(n) for n in count(ranges)]\n",
    "no function": "x = 1\n",
    "does not parse": "def count_primes(ranges:\n",
    "raises": "def count_primes(ranges):\n    raise ValueError\n",
    "ends": "import os\nos._exit(0)\n",
    "never answers": "while True:\n    pass\n",
    "hangs up": "import os, sys\nos.close(0)\nos.closerange(1, 30)\nos._exit(0)\n",
    "kills its group": "import os\nos.killpg(0, 9)\n",
    "prints a metric": 'print("METRIC relative_time=0.000001", flush=True)\nimport os\nos._exit(0)\n',
    "answers before the question": 'import os\nos.write(3, b"[0]\\n")\nos.write(4, b"[0]\\n")\n' + HONEST,
    "writes without end": "import os\nwhile True:\n    os.write(3, b'1' * 4096)\n",
    "too long": HONEST + "#" * 20_000,
    "leaves a process": "import os, time\nif not os.fork():\n    os.setsid()\n    time.sleep(3)\n    os._exit(0)\n"
    + HONEST,
}


# One of each kind; the others run with the slow ones.
FIRST = {"off by one", "raises", "never answers", "kills its group", "prints a metric", "leaves a process"}


@pytest.mark.parametrize(
    "case", [case if case in FIRST else pytest.param(case, marks=pytest.mark.slow) for case in WRONG]
)
def test_no_time_without_right_answers_in_time_from_a_process_alone(example: Examples, case: str) -> None:
    speed = example("speed")
    (speed.folder / "primes.py").write_text(WRONG[case])
    speed.refusal()


SHUT_OUT = {
    "memory": 'open(f"/proc/{os.getppid()}/mem", "rb")',
    "seed": 'open(f"/proc/{os.getppid()}/environ", "rb").read()',
    "output": 'open(f"/proc/{os.getppid()}/fd/1", "w").write("x")',
    "notes": 'open("/tmp/notes", "wb", buffering=0).write(b"x")',
    "arena": 'open("/arena/primes.py", "ab")',
}


@pytest.mark.parametrize("what", SHUT_OUT)
def test_in_the_sandbox_the_artifact_cannot_reach_its_scorer(example: Examples, what: str) -> None:
    speed = example("speed")
    (speed.folder / "primes.py").write_text(f"import os\n{SHUT_OUT[what]}\n{HONEST}")
    done = speed.run_isolated("python score.py")
    assert done.exit_code == 1, done
    assert b"METRIC" not in done.stdout
    assert any(problem in done.stderr for problem in (b"PermissionError", b"OSError", b"FileNotFoundError")), done


def test_in_the_sandbox_an_honest_artifact_is_timed(example: Examples) -> None:
    done = example("speed").run_isolated("python score.py")
    assert done.exit_code == 0, done
    assert b"METRIC relative_time=" in done.stdout


def test_answers_can_be_printed_about(example: Examples) -> None:
    """What the artifact prints goes elsewhere, and is neither an answer nor a metric."""
    speed = example("speed")
    (speed.folder / "primes.py").write_text('print("METRIC relative_time=0.000001")\n' + HONEST)
    assert speed.score() > 0.01


@pytest.mark.slow
def test_waiting_for_a_busy_machine_is_neither_slow_nor_late(example: Examples) -> None:
    speed = example("speed")
    (speed.folder / "primes.py").write_text(f"import time\ntime.sleep(1.8)\n{HONEST}")
    assert speed.score() < 10


def test_ranges_differ_from_seed_to_seed(example: Examples, tmp_path: Path) -> None:
    speed = example("speed")
    draw = 'python -c "import score, random, sys; print(score.draw(random.Random(score.SALT + sys.argv[1])))" '
    first, again, other = (speed.run(draw + seed).stdout for seed in ("1", "1", "2"))
    assert first == again != other
    assert first.startswith("[(")
