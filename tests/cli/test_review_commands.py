"""What a person tries first: leaving RUN out, checks that fail from the start, logs that are none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = "---\nmetric: score\ndirection: maximize\n{how}\neditable: [art.py]\nbudget: 2s\n{more}---\nGo.\n"
ONE_STEP = "evaluate: python evaluate.py"
TWO_STEPS = "score: python evaluate.py\nhidden: [evaluate.py]"


def overnight(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "overnight", *map(str, arguments)],
        cwd=cwd,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )


def _arena(folder: Path, more: str = "", how: str = ONE_STEP) -> Path:
    (folder / "program.md").write_text(PROGRAM.format(how=how, more=more))
    (folder / "art.py").write_text("X = 3.0  # knob: 0..10\n")
    (folder / "evaluate.py").write_text("exec(open('art.py').read())\nprint('score:', -abs(X - 7))\n")
    return folder


def test_show_takes_the_newest_run_where_none_is_named(tmp_path: Path) -> None:
    arena = _arena(tmp_path)
    for name in ("one", "two"):
        assert overnight("run", arena, "--experiments", "1", "--run", name, cwd=arena).returncode == 0
    newest = json.loads(overnight("show", "1", "--json", cwd=arena).stdout)
    assert (newest["run"], newest["n"]) == ("two", 1)
    named = json.loads(overnight("show", "one", "0", "--json", cwd=arena).stdout)
    assert (named["run"], named["n"]) == ("one", 0)
    unclear = overnight("show", "one", cwd=arena)
    assert unclear.returncode == 2 and "overnight show one N" in unclear.stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("checks: ['python -c \"raise SystemExit(3)\"']\n", "fails a check"),
        ("holdout: python nothing.py\n", "holdout gives no score"),
        ("checks: ['python -c \"import art\"']\nholdout: python evaluate.py\n", None),
    ],
)
def test_arena_check_tries_what_else_a_run_will_need(tmp_path: Path, more: str, said: str | None) -> None:
    arena = _arena(tmp_path, more, TWO_STEPS)
    done = overnight("arena", "check", arena, "--json", cwd=arena)
    found = json.loads(done.stdout)
    assert found["ok"] is (said is None) and done.returncode == (0 if said is None else 1)
    assert (said or "") in " ".join(found["problems"])


def test_what_was_never_measured_is_exported_as_a_crash(tmp_path: Path) -> None:
    arena = _arena(tmp_path)
    script = 'python -c \'open("new.py", "w")\''
    overnight("run", arena, "--experiments", "1", "--run", "one", "--author-command", script, cwd=arena)
    last = overnight("export", "one", "--format", "karpathy", cwd=arena).stdout.splitlines()[-1]
    assert last.split("\t")[1:4] == ["0.000000", "0.0", "crash"]


def test_a_log_without_experiments_is_not_imported(tmp_path: Path) -> None:
    arena = _arena(tmp_path)
    assert overnight("init", ".", cwd=arena).returncode == 0
    (arena / "other.jsonl").write_text('{"n": 1, "metric": 2.0}\n')
    done = overnight("import", "other.jsonl", cwd=arena)
    assert done.returncode == 2 and "no experiment" in done.stderr


def test_a_run_without_experiments_says_why(tmp_path: Path) -> None:
    arena = _arena(tmp_path)
    (arena / "art.py").write_text("X = 3.0  # knob: 5..0 logg\n")
    done = overnight("run", arena, "--experiments", "1", cwd=arena)
    assert done.returncode == 1 and "only the baseline was measured" in done.stderr and "logg" in done.stderr


@pytest.mark.parametrize(
    ("editable", "how", "found"),
    [
        ("[art.py]", ONE_STEP, []),
        ("['*.py']", ONE_STEP, ["evaluate.py"]),
        ("[art.py, evaluate.py]", "evaluate: python ./evaluate.py art.py", ["evaluate.py"]),
        ("[art.py]", "evaluate: python evaluate.py art.py", []),
    ],
)
def test_arena_check_tells_where_authors_may_change_what_measures(
    tmp_path: Path, editable: str, how: str, found: list[str]
) -> None:
    arena = _arena(tmp_path, how=how)
    program = arena / "program.md"
    program.write_text(program.read_text().replace("[art.py]", editable))
    told = json.loads(overnight("arena", "check", arena, "--json", cwd=arena).stdout)
    assert told["editable_evaluator"] == found
    assert any("may change evaluate.py" in line for line in told["advice"]) is bool(found)


def test_a_file_in_the_place_of_an_arena_is_told_apart(tmp_path: Path) -> None:
    done = overnight("run", _arena(tmp_path) / "program.md", cwd=tmp_path)
    assert done.returncode == 2 and "program.md' is a file" in done.stderr
