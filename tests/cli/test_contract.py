"""The commands' contract for scripts: names, keys, exit codes, one JSON document on standard output."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FILES = {
    "program.md": "---\nmetric: score\ndirection: maximize\nevaluate: python evaluate.py\neditable: [art.py]\nbudget: 2s\n---\nGo.\n",
    "art.py": "X = 3.0  # knob: 0..10\n",
    "evaluate.py": "import art\nprint('score:', -abs(art.X - 7))\n",
}
REPORT = {"baseline", "best", "gain", "gain_low", "gain_high", "experiments", "kept", "crashed", "path"}


def overnight(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "overnight", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )


def document(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    return json.loads(line)


def test_a_run_from_start_to_report(write: Callable[..., Path]) -> None:
    arena = write(FILES)
    ended = document(overnight("run", arena, "--experiments", "5", "--run", "one", "--seed", "3", "--json"))
    assert set(ended) >= REPORT and ended["experiments"] == 5
    status = document(overnight("status", "--json", cwd=arena))
    assert [run["run"] for run in status["runs"]] == ["one"]
    log = [json.loads(line) for line in overnight("log", "one", "--json", cwd=arena).stdout.splitlines()]
    assert [item["n"] for item in log] == list(range(6))
    assert {"n", "commit", "parent", "status", "metric", "delta", "hypothesis", "seconds", "evidence"} <= set(log[0])
    report = document(overnight("report", "--json", "--workspace", arena))
    assert {key: report[key] for key in REPORT} == {key: ended[key] for key in REPORT}
    assert Path(report["path"]).is_file()
    shown = document(overnight("show", "one", "1", "--json", cwd=arena))
    assert shown["measurements"] and "art.py" in shown["diff"]
    # Right after a run, the workspace used last is found from anywhere.
    elsewhere = overnight("report", "--json", cwd=arena.parent)
    assert document(elsewhere)["run"] == "one" and "using the last one" in elsewhere.stderr
    for command in (["log"], ["show", "one", "1"], ["status"], ["report"], ["repair"], ["gc"], ["config"]):
        done = overnight(*command, cwd=arena)
        assert done.returncode == 0 and done.stdout.strip(), (command, done.stderr)


def test_check(write: Callable[..., Path]) -> None:
    found = document(overnight("arena", "check", write(FILES), "--json"))
    assert {"metric", "direction", "noise", "deterministic", "seconds", "detectable_effect", "integrity"} <= set(found)
    assert (found["deterministic"], found["integrity"], found["noise"]) == (True, "shared", 0.0)


def test_doctor() -> None:
    found = document(overnight("doctor", "--json"))
    assert found["grade"] in "ABCD" and found["sandbox"] and found["checks"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "nowhere"], 2, "not an arena"),
        (["run", ".", "--experiments", "0"], 2, "experiments"),
        (["run", ".", "--for", "soon"], 2, "write it like"),
        (["run", ".", "--author", "nobody"], 2, "there is no author 'nobody'"),
        (["run", ".", "--author", "command"], 2, "--author-command"),
        (["run", ".", "--run", "Not A Name"], 2, "cannot be called"),
        (["log", "missing"], 2, "there is no run 'missing'"),
        (["show", "missing", "1"], 2, "there is no run"),
        (["statsu"], 2, "did you mean 'status'?"),
        (["status", "--workspace", "/nonexistent-folder"], 2, ""),
    ],
)
def test_wrong_usage_is_exit_2_and_says_what_to_do(
    write: Callable[..., Path], arguments: list[str], code: int, said: str
) -> None:
    arena = write(FILES)
    (arena / "overnight.toml").write_text("")
    done = overnight(*arguments, cwd=arena)
    assert (done.returncode, done.stdout) == (code, ""), done
    assert said in done.stderr and "Traceback" not in done.stderr


def test_a_budget_that_fits_only_the_baseline_is_exit_1(write: Callable[..., Path]) -> None:
    done = overnight("run", write(FILES), "--for", "10ms", "--json")
    assert done.returncode == 1 and json.loads(done.stdout)["experiments"] == 0
    assert "only the baseline" in done.stderr


def test_no_isolation_is_exit_4_and_none_has_to_be_said(write: Callable[..., Path], tmp_path: Path) -> None:
    arena = write(FILES)
    done = overnight("run", arena, "--experiments", "2", "--sandbox", "none", "--json")
    assert document(done)["sandbox"] == "none"
    log = overnight("log", "--json", cwd=arena).stdout.splitlines()
    assert len(log) == 3


def test_settings_from_file_environment_and_flag(write: Callable[..., Path]) -> None:
    arena = write({**FILES, "overnight.toml": "[run]\nworkers = 2\nfor = '1h'\n"})
    found = document(overnight("config", "--json", cwd=arena))
    assert found["run.workers"]["value"] == 2 and found["run.workers"]["origin"].endswith("overnight.toml")
    assert found["run.for"]["value"] == 3600.0 and found["run.experiments"]["origin"] == "default"
    found = document(overnight("config", "--json", cwd=arena, OVERNIGHT_RUN_WORKERS="3"))
    assert found["run.workers"] == {"value": 3, "origin": "$OVERNIGHT_RUN_WORKERS"}
    (arena / "overnight.toml").write_text("[run]\nworker = 2\n")
    done = overnight("config", cwd=arena)
    assert done.returncode == 2 and "did you mean 'workers'?" in done.stderr


def test_ctrl_c_ends_cleanly_and_says_how_to_go_on(write: Callable[..., Path]) -> None:
    arena = write({**FILES, "evaluate.py": "import art, time\ntime.sleep(0.2)\nprint('score:', -abs(art.X - 7))\n"})
    command = [sys.executable, "-m", "overnight", "run", str(arena), "--experiments", "500", "--run", "one"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None and "run one" in process.stderr.readline()
        process.send_signal(2)
        _, stderr = process.communicate(timeout=300)
    finally:
        process.kill()
    assert "overnight resume one" in stderr and "Traceback" not in stderr
    assert document(overnight("status", "--json", cwd=arena))["runs"][0]["state"] == "interrupted"


def test_help_needs_nothing_heavy() -> None:
    script = "import sys; sys.argv = ['overnight', '--help']\nfrom overnight.cli.main import main\ntry: main()\nexcept SystemExit: pass\n"
    script += "print([name for name in ('rich', 'optuna', 'numpy', 'yaml', 'sqlite3', 'cryptography') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done
