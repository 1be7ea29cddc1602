"""The inner loop, on real git, SQLite, sandboxes and authors: what becomes of each kind of change."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from overnight.core.errors import ArenaError, OvernightError, UsageError

Arena = Callable[..., Path]
Authored = Callable[[str], dict[str, Any]]

APPEND = "open('art.py', 'a').write({text!r})"
BY_NUMBER = """
import json, os
n = json.load(open(os.environ['OVERNIGHT_CONTEXT']))['experiment']
"""


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_search_improves_and_the_branch_holds_only_keeps(arena: Arena, spend: Any) -> None:
    folder = arena()
    result = spend(folder, 16)
    report = result.report
    assert report["state"] == "finished" and report["experiments"] == 16
    assert report["kept"] >= 1 and report["gain_low"] > 0 and report["best"] > report["baseline"]
    kept = [item for item in result.experiments if item.status in ("keep", "baseline")]
    subjects = git(folder, "log", "--format=%s", "overnight/night").splitlines()
    assert len(subjects) == len(kept)
    assert all(subject.startswith(("keep ", "baseline ")) for subject in subjects)
    refs = git(folder, "for-each-ref", "--format=%(refname)", "refs/overnight/night").split()
    assert {f"refs/overnight/night/{n}" for n in range(17)} <= set(refs)


def test_the_persons_files_index_and_branch_are_not_touched(arena: Arena, spend: Any) -> None:
    folder = arena()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "evaluate.py", "art.py")
    git(folder, "-c", "user.name=P", "-c", "user.email=p@example.invalid", "commit", "-qm", "mine")
    (folder / "art.py").write_text("X = 5.0\nY = 1.0\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    index, head = (folder / ".git/index").read_bytes(), (folder / ".git/HEAD").read_bytes()
    status = git(folder, "status", "--porcelain")
    result = spend(folder, 6)
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name != "MEMORY.md"}
    assert after == before
    assert (folder / ".git/HEAD").read_bytes() == head
    assert git(folder, "status", "--porcelain") == status
    assert index == (folder / ".git/index").read_bytes() or git(folder, "diff", "--cached", "--stat") == ""
    # Uncommitted changes are what the run started from.
    assert result.report["baseline"] == -(2.0**2) - 3.0**2
    assert git(folder, "show", "refs/overnight/night/0:art.py") == "X = 5.0\nY = 1.0\n"


@pytest.mark.parametrize(
    ("script", "status", "why"),
    [
        ("open('evaluate.py', 'w').write('print(1)')", "rejected", "not editable"),
        ("open('new.py', 'w').write('1')", "rejected", "not editable"),
        ("import os; os.remove('evaluate.py')", "rejected", "not editable"),
        ("import os; os.symlink('/etc/hostname', 'art2.py')", "rejected", "symbolic link"),
        ("import os; os.chmod('art.py', 0o755)", "rejected", "mode"),
        ("import os; os.mkfifo('pipe')", "rejected", "not a regular file"),
        ("pass", "discard", "the same as the champion"),
        ("import sys; sys.exit('no idea')", "crash", "no idea"),
        (APPEND.format(text="\nraise ValueError('broken')\n"), "crash", "broken"),
        (APPEND.format(text="\nX = float('nan')\n"), "crash", "not finite"),
        (APPEND.format(text="\nX = 1e999\n"), "crash", "not finite"),
        (APPEND.format(text="\nprint('score: 5')\n"), "crash", "contradictory"),
        (APPEND.format(text="\nimport os; os._exit(0)\n"), "crash", "reported no score"),
        (APPEND.format(text="\nopen('evaluate.py', 'a').write('#')\n"), "rejected", "read-only"),
        (APPEND.format(text="\nimport os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n"), "crash", ""),
        (APPEND.format(text="\nX = 7.0\nY = 4.0\n"), "keep", "better by 20"),
        (APPEND.format(text="\nX = 3.0\n"), "discard", ""),
    ],
)
def test_every_kind_of_change_is_recorded_truthfully(
    arena: Arena, spend: Any, authored: Authored, script: str, status: str, why: str
) -> None:
    result = spend(arena(), 1, **authored(script))
    item = result.experiments[1]
    assert (item.status, why in item.reason) == (status, True), item.reason
    assert item.commit and result.report["experiments"] == 1


def test_an_evaluation_that_hangs_is_killed_and_the_run_goes_on(arena: Arena, spend: Any, authored: Authored) -> None:
    script = BY_NUMBER + (
        "text = '\\nimport signal\\nfor s in (2, 15): signal.signal(s, signal.SIG_IGN)\\nwhile True: pass\\n' if n == 1"
        " else '\\nX = 7.0\\n'\nopen('art.py', 'a').write(text)"
    )
    for timeout_s in (1, 5, 25):  # the longer ones where an evaluation that ends does not within the shorter ones
        program = arena(name=f"arena{timeout_s}").joinpath("program.md")
        program.write_text(
            program.read_text().replace("budget: 2s\ntimeout: 60s", f"budget: 500ms\ntimeout: {timeout_s}s")
        )
        try:
            result = spend(program.parent, 2, **authored(script))
        except OvernightError:  # the baseline took too long
            continue
        if result.statuses()[1:] != ["timeout"]:
            break
    assert result.statuses() == ["timeout", "keep"]
    assert timeout_s <= result.experiments[1].seconds < timeout_s + 60


def test_what_tools_leave_behind_is_ignored_and_said(arena: Arena, spend: Any, authored: Authored) -> None:
    script = (
        "import os; os.mkdir('__pycache__'); open('__pycache__/a.pyc', 'w'); open('art.py', 'a').write('\\nX = 6.0\\n')"
    )
    result = spend(arena(), 1, **authored(script))
    assert result.statuses() == ["keep"]
    assert "__pycache__" in " ".join(result.experiments[1].detail["notes"])


def test_shell_text_in_a_hypothesis_stays_text(arena: Arena, spend: Any, authored: Authored, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    script = (
        f"import os; open(os.environ['OVERNIGHT_HYPOTHESIS'], 'w').write('$(touch {mark}) `touch {mark}`; \\x1b[31m"
        "\\nOvernight-Record: {}')\nopen('art.py', 'a').write('\\nX = 6.0\\n')"
    )
    result = spend(arena(), 1, **authored(script))
    assert not mark.exists()
    assert "$(touch" in result.experiments[1].hypothesis and "\x1b" not in result.experiments[1].hypothesis
    assert "\\x1b" in (result.workspace.folder / "MEMORY.md").read_text()


def test_a_tree_that_was_measured_is_not_measured_again(arena: Arena, spend: Any, authored: Authored) -> None:
    result = spend(arena(), 3, **authored(APPEND.format(text="\nX = 0.0\n")))
    assert result.statuses() == ["discard", "discard", "discard"]
    assert "the same as experiment 1" in result.experiments[2].reason
    assert len(result.workspace.record.measurements("night", 2)) == 0


def test_the_author_sees_neither_git_nor_hidden_files_nor_the_scorers_words(
    arena: Arena, spend: Any, authored: Authored
) -> None:
    program = """---
metric: score
direction: maximize
produce: python art.py
outputs: [out.txt]
score: python score.py
hidden: [score.py, secret/]
editable: [art.py]
budget: 2s
timeout: 60s
---
"""
    files = {
        "art.py": "open('out.txt', 'w').write('1')\n",
        "score.py": "import sys\nprint('the answer is 42', file=sys.stderr)\nprint('score:', float(open('out.txt').read()))\n",
        "secret/answer.txt": "42",
    }
    script = """
import json, os
seen = sorted(os.path.join(folder, name) for folder, _, names in os.walk('.') for name in names)
context = open(os.environ['OVERNIGHT_CONTEXT']).read()
problems = []
if any('score.py' in path or 'secret' in path or '.git' in path for path in seen): problems.append(str(seen))
if 'the answer is 42' in context: problems.append('scorer heard')
if 'OVERNIGHT_SEED' in os.environ: problems.append('seed seen')
n = json.loads(context)['experiment']
open('art.py', 'w').write("open('out.txt', 'w').write('%d')" % (n + 1) if not problems else "raise Exception(%r)" % problems)
"""
    result = spend(arena(files, program=program), 2, **authored(script))
    assert result.statuses() == ["keep", "keep"], [item.reason for item in result.experiments]
    assert result.report["integrity"] == "separate"


def test_produce_sees_no_hidden_file_and_its_prints_are_no_metric(arena: Arena, spend: Any, authored: Authored) -> None:
    program = """---
metric: score
direction: maximize
produce: python art.py
outputs: [out.txt]
score: python score.py
hidden: [score.py]
editable: [art.py]
budget: 2s
timeout: 60s
---
"""
    files = {
        "art.py": "open('out.txt', 'w').write('1')\n",
        "score.py": "import os\nassert not os.path.exists('art.py')\nprint('score:', float(open('out.txt').read()))\n",
    }
    cheat = """
text = '''
import os
print("METRIC score=1e9"); print("score: 1e9")
open("out.txt", "w").write("9" if os.path.exists("score.py") else "2")
for path in ("score.py", "/arena/score.py"):
    try: open(path, "w").write("print('score: 1e9')")
    except OSError: pass
'''
open('art.py', 'w').write(text)
"""
    result = spend(arena(files, program=program), 1, **authored(cheat))
    assert result.statuses() == ["keep"] and result.report["best"] == 2.0


def test_a_seed_only_change_is_never_claimed_as_a_gain(arena: Arena, spend: Any, authored: Authored) -> None:
    evaluate = "import os, random, art\nr = random.Random(f\"{os.environ['OVERNIGHT_SEED']}:{art.SEED}\")\nprint('score:', r.gauss(0, 1))\n"
    script = BY_NUMBER + "open('art.py', 'w').write(f'SEED = {n}\\n')"
    result = spend(arena({"art.py": "SEED = 0\n", "evaluate.py": evaluate}), 12, **authored(script))
    assert result.report["mode"] == "noise"
    # Seeds nobody can foresee: by the error that may be spent, one night in fifty keeps one of these twelve, and says at
    # its end, on fresh seeds, that nothing was gained.
    assert result.report["kept"] <= 1, [item.reason for item in result.experiments if item.status == "keep"]
    assert result.report["kept"] == 0 or result.report["gain_low"] <= 0


def test_a_real_gain_in_noise_is_kept_and_claimed_on_fresh_seeds(arena: Arena, spend: Any, authored: Authored) -> None:
    evaluate = (
        "import os, random, art\nprint('score:', art.X + random.Random(os.environ['OVERNIGHT_SEED']).gauss(0, 0.5))\n"
    )
    result = spend(
        arena({"evaluate.py": evaluate}),
        2,
        **authored(BY_NUMBER + "open('art.py', 'w').write(f'X = {3 + 4 * n}\\nY = 0\\n')"),
    )
    report = result.report
    assert result.statuses() == ["keep", "keep"] and report["gain_low"] <= 8 <= report["gain_high"]
    finals = [item for item in result.workspace.record.measurements("night") if item.role == "final"]
    used = {item.seed for item in result.workspace.record.measurements("night") if item.role != "final"}
    assert finals and not used & {item.seed for item in finals}


def test_an_author_may_mend_a_crash_twice(arena: Arena, spend: Any, authored: Authored) -> None:
    script = """
import json, os
context = json.load(open(os.environ['OVERNIGHT_CONTEXT']))
repair = context.get('repair')
text = open('art.py').read()
if repair is None: text += '\\nimport nothing_of_that_name\\n'
elif 'nothing_of_that_name' in repair['error'] and 'two' not in text: text = 'X = 5.0\\nY = (  # two\\n'
else: text = 'X = 7.0\\nY = 4.0\\n'
open('art.py', 'w').write(text)
"""
    result = spend(arena(), 1, **authored(script))
    item = result.experiments[1]
    assert (item.status, item.detail["repairs"]) == ("keep", 2), item.reason


def test_a_crash_that_stays_is_recorded_after_two_repairs(arena: Arena, spend: Any, authored: Authored) -> None:
    script = (
        BY_NUMBER + "import random\nopen('art.py', 'a').write(f'\\nimport nothing_{random.random()}'.replace('.', '_'))"
    )
    result = spend(arena(), 1, **authored(script))
    assert result.statuses() == ["crash"] and result.experiments[1].detail["repairs"] == 2
    assert result.experiments[1].reason.startswith("ModuleNotFoundError")


def test_a_check_that_fails_keeps_a_better_change_out(arena: Arena, spend: Any, authored: Authored) -> None:
    more = 'checks: ["python -c \\"import art; assert art.Y == 2.0, art.Y\\""]\n'
    script = BY_NUMBER + "open('art.py', 'w').write('X = 5.0\\nY = 3.0\\n' if n == 1 else 'X = 5.0\\nY = 2.0\\n')"
    result = spend(arena(more=more), 2, **authored(script))
    assert result.statuses() == ["rejected", "keep"]
    assert "a check failed" in result.experiments[1].reason


def test_the_holdout_is_reported_and_reaches_no_author(arena: Arena, spend: Any, authored: Authored) -> None:
    files = {"holdout.py": "import art\nprint('score:', art.X * 1000.125)\n"}
    script = (
        "import os\nassert '.125' not in open(os.environ['OVERNIGHT_CONTEXT']).read()\n"
        + BY_NUMBER
        + "open('art.py', 'w').write(f'X = {3 + n}.0\\nY = 2.0\\n')"
    )
    result = spend(arena(files, more="holdout: python holdout.py\n"), 3, **authored(script))
    assert result.statuses() == ["keep"] * 3
    assert result.report["holdout"] == {"baseline": 3000.375, "champion": 6000.75}
    assert "6000.75" not in (result.workspace.folder / "MEMORY.md").read_text()


def test_the_target_ends_a_run(arena: Arena, spend: Any, authored: Authored) -> None:
    script = BY_NUMBER + "open('art.py', 'w').write(f'X = {3 + n}.0\\nY = 4.0\\n')"
    result = spend(arena(more="target: -4\n"), 9, **authored(script))
    assert result.report["experiments"] == 2 and "target" in result.report["stopped"]


def test_a_multi_file_artifact_in_another_language_is_measured_as_changed(
    arena: Arena, spend: Any, authored: Authored
) -> None:
    program = """---
metric: score
direction: minimize
evaluate: sh measure.sh
editable: [src/, "*.conf"]
budget: 2s
timeout: 60s
---
"""
    files = {
        "src/a.sh": "echo 5",
        "src/deep/b.sh": "echo 4",
        "x.conf": "1",
        "measure.sh": 'echo "METRIC score=$(( $(sh src/a.sh) + $(sh src/deep/b.sh) + $(cat x.conf) + $(ls src | wc -l) ))"',
    }
    script = (
        BY_NUMBER + "open('src/deep/b.sh', 'w').write(f'echo {4 - n}')\nif n == 2: open('src/c.txt', 'w').write('new')"
    )
    result = spend(arena(files, program=program), 2, **authored(script))
    assert result.report["baseline"] == 12
    assert [item.metric for item in result.experiments[1:]] == [11, 11]
    assert result.statuses() == ["keep", "discard"]


def test_only_the_baseline_fitting_is_no_success(arena: Arena, spend: Any) -> None:
    result = spend(arena(), None, for_s=0.01)
    assert result.report["experiments"] == 0 and result.report["kept"] == 0
    assert result.report["stopped"] == "the time was used up"


def test_what_was_paid_for_when_the_time_is_up_is_on_record_and_claimed(arena: Arena, spend: Any) -> None:
    evaluate = (
        "import os, random, art\n"
        "noise = random.Random(os.environ['OVERNIGHT_SEED']).gauss(0, 1)\n"
        "print('score:', -abs(art.X - 7) - abs(art.Y - 4) + noise)\n"
    )
    result = spend(arena({"evaluate.py": evaluate}), None, for_s=6, workers=2)
    record = result.workspace.record
    assert record.run("night").state == "finished" and not record.inflight("night")
    assert result.report["stopped"] == "the time was used up" and result.report["gain"] is not None
    judged = {item.n for item in result.experiments}
    assert {item.n for item in record.measurements("night")} <= judged and judged == set(range(len(judged)))


def test_two_workers_shift_no_comparison(arena: Arena, spend: Any) -> None:
    evaluate = (
        "import os, random, art\n"
        "print('score:', -abs(art.X - 7) + random.Random(os.environ['OVERNIGHT_SEED']).gauss(0, 1))\n"
        "print('cores:', sum(1 << core for core in os.sched_getaffinity(0)))\n"
    )
    result = spend(arena({"evaluate.py": evaluate}), 12, workers=2)
    record = result.workspace.record
    cores: dict[int, set[int]] = {0: set(), 1: set()}
    compared = 0
    for n in range(1, 13):
        measured = record.measurements("night", n)
        for item in measured:
            cores[item.slot].add(int(item.secondary["cores"]))
            pair = [other for other in measured if other.seed == item.seed]
            # Whatever one slot has and the other lacks meets challenger and champion alike.
            assert len({other.slot for other in pair}) == 1
            compared += len(pair) == 2
    assert compared
    if len(os.sched_getaffinity(0)) >= 2:
        (one,), (other,) = cores.values()
        assert one & other == 0


def test_a_baseline_that_fails_is_an_error_that_shows_the_scorers_words(arena: Arena, spend: Any) -> None:
    with pytest.raises(ArenaError, match="no module of that name|boom"):
        spend(arena({"evaluate.py": "raise SystemExit('boom')\n"}), 1)


def test_an_author_that_has_nothing_to_turn_ends_the_run_and_says_why(arena: Arena, spend: Any) -> None:
    result = spend(arena({"art.py": "import math\n", "evaluate.py": "import art\nprint('score: 1')\n"}), 3)
    assert result.report["experiments"] == 0 and "search" in result.report["stopped"]


def test_an_author_that_always_fails_does_not_fill_the_night(arena: Arena, spend: Any, authored: Authored) -> None:
    result = spend(arena(), 500, **authored("raise SystemExit(3)"))
    assert result.report["experiments"] == 25 and "25" in result.report["stopped"]


def test_a_second_run_of_the_same_name_is_refused(arena: Arena, spend: Any) -> None:
    folder = arena()
    spend(folder, 1)
    with pytest.raises(UsageError, match="already"):
        spend(folder, 1)


def test_a_discarded_diff_can_be_had_back(arena: Arena, spend: Any, authored: Authored) -> None:
    folder = arena()
    result = spend(folder, 1, **authored(APPEND.format(text="\nX = 0.0  # an idea worth keeping\n")))
    assert result.statuses() == ["discard"]
    assert "an idea worth keeping" in git(folder, "show", "refs/overnight/night/1:art.py")


def test_two_workers_judge_against_the_champion_of_the_moment(arena: Arena, spend: Any, authored: Authored) -> None:
    script = BY_NUMBER + "open('art.py', 'w').write(f'X = {3 + 0.1 * n}\\nY = 2.0\\n')"
    result = spend(arena(), 12, workers=2, **authored(script))
    kept = [
        item for item in sorted(result.experiments, key=lambda item: item.closed) if item.status in ("baseline", "keep")
    ]
    for before, after in zip(kept, kept[1:], strict=False):
        assert after.parent == before.commit
        assert after.metric is not None and before.metric is not None and after.metric > before.metric
        assert after.delta == pytest.approx(after.metric - before.metric)
    assert len({item.n for item in result.experiments}) == 13


def test_the_commit_alone_says_what_happened(arena: Arena, spend: Any) -> None:
    folder = arena()
    result = spend(folder, 2)
    message = git(folder, "log", "-1", "--format=%B", "refs/overnight/night/2")
    line = next(line for line in message.splitlines() if line.startswith("Overnight-Record: "))
    told = json.loads(line.removeprefix("Overnight-Record: "))
    assert told["experiment"]["status"] == result.experiments[2].status
    assert [item["value"] for item in told["measurements"]] == [
        item.value for item in result.workspace.record.measurements("night", 2)
    ]
