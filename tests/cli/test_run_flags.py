"""What `overnight run` says where something is asked of it that it cannot do, or that goes wrong."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from overnight.sandbox.processes import descendants
from overnight.workspace.workspace import Workspace

FILES = {
    "program.md": "---\nmetric: score\ndirection: maximize\nevaluate: python evaluate.py\neditable: [art.py]\nbudget: 2s\n---\n",
    "art.py": "X = 3.0  # knob: 0..10\n",
    "evaluate.py": "import art\nprint('score:', -abs(art.X - 7))\n",
}


def overnight(*arguments: str | Path, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "overnight", *map(str, arguments)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        timeout=300,
    )


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--budget", "1"], "--budget would hold nothing"),
        (["--budget", "0", "--author", "search"], "--budget would hold nothing"),
        (["--budget", "1", "--author-command", "python a.py"], "gateway key new"),
        (["--author", "search", "--model", "gpt"], "--author search,model"),
    ],
)
def test_a_flag_that_nobody_would_heed_is_an_error(write: Callable[..., Path], flags: list[str], says: str) -> None:
    arena = write(FILES)
    done = overnight("run", arena, "--experiments", "1", *flags)
    assert done.returncode == 2 and says in done.stderr
    assert not done.stdout and not (arena / ".overnight").exists(), "nothing was begun"


@pytest.mark.parametrize(
    ("author", "reason"),
    [
        ("class Odd(Exception): pass\nraise Odd('no idea left')\n", "exit code 1): Odd: no idea left"),
        ("import sys\nprint('usage: author FILE', file=sys.stderr)\nsys.exit(2)\n", "exit code 2): usage: author FILE"),
        ("import sys\nsys.exit(3)\n", "exit code 3): it said nothing"),
    ],
)
def test_an_author_that_fails_is_quoted_to_the_point(write: Callable[..., Path], author: str, reason: str) -> None:
    arena = write({**FILES, "author.py": author})
    overnight("run", arena, "--experiments", "1", "--author-command", "python author.py")
    item = json.loads(overnight("log", "--json", cwd=arena).stdout.splitlines()[-1])
    assert item["status"] == "crash" and item["reason"].endswith(reason)
    if "Odd" in author:
        assert "Traceback" in overnight("show", "1", cwd=arena).stdout, "the way there is kept beside it"


def test_an_author_that_is_not_there_says_what_to_do(write: Callable[..., Path]) -> None:
    arena = write(FILES)
    overnight("run", arena, "--experiments", "1", "--author-command", "no-such-agent --fast")
    item = json.loads(overnight("log", "--json", cwd=arena).stdout.splitlines()[-1])
    assert "find no `no-such-agent`" in item["reason"] and "install it" in item["reason"]


def evaluating(pid: int) -> bool:
    """Whether an evaluation runs somewhere below the process."""
    with contextlib.suppress(OSError):  # one of them has just ended
        return any(b"evaluate.py" in Path(f"/proc/{each}/cmdline").read_bytes() for each in descendants(pid))
    return False


def test_the_first_ctrl_c_says_what_it_waits_for_and_the_second_how_to_go_on(write: Callable[..., Path]) -> None:
    slow = "import art, time\ntime.sleep(300 if art.X != 3.0 else 0)\nprint('score:', -abs(art.X - 7))\n"
    arena = write({**FILES, "evaluate.py": slow, "program.md": FILES["program.md"].replace("2s", "600s")})
    command = [sys.executable, "-m", "overnight", "run", str(arena), "--experiments", "500", "--run", "one"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None and "run one" in process.stderr.readline()
        record, end = Workspace.of_arena(arena).record, time.monotonic() + 300
        while not record.experiments("one") or not evaluating(process.pid):  # the first experiment, after the baseline
            assert time.monotonic() < end
            time.sleep(0.05)
        process.send_signal(2)
        while "Ctrl-C again" not in (line := process.stderr.readline()):
            assert line
        process.send_signal(2)
        _, stderr = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130 and "Traceback" not in stderr
    assert "ended at once" in stderr and "overnight resume" in stderr
    assert overnight("resume", "one", "--help", cwd=arena).returncode == 0
    assert json.loads(overnight("status", "--json", cwd=arena).stdout)["runs"][0]["state"] == "interrupted"


def test_a_name_that_leads_up_is_refused_with_the_one_that_is_meant(tmp_path: Path) -> None:
    done = overnight("arena", "new", "x/../y", "--template", "rubric", cwd=tmp_path)
    assert done.returncode == 2 and "leads back up" in done.stderr and str(tmp_path / "y") in done.stderr
    assert not list(tmp_path.iterdir())
