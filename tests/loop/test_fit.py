import os
import stat
from pathlib import Path

import pytest

from overnight.core.errors import UsageError
from overnight.loop.arena.arena import Arena, load
from overnight.loop.arena.fit import Fit, fit, fit_questions
from overnight.loop.arena.scaffold import GOAL, scaffold

EXAMPLES = Path(__file__).parents[2] / "examples"
WEEKLY = {"every_days": "7"}


def failing(found: Fit) -> list[str]:
    return [reason.condition for reason in found.reasons if not reason.ok]


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    scaffold(tmp_path / "arena", "simulator", {})
    return load(tmp_path / "arena")


def test_an_arena_that_recurs_weekly_fits(arena: Arena) -> None:
    found = fit(arena, WEEKLY)
    assert found.ok
    assert [reason.condition for reason in found.reasons] == ["recurs", "automatic", "budget", "tools"]
    assert found.experiments == 8 * 3600 // (2 * 6)
    assert "arena check" in found.advice


@pytest.mark.parametrize("name", ["charlm", "digits", "packing", "speed"])
def test_the_shipped_arenas_fit(name: str) -> None:
    assert fit(load(EXAMPLES / name), WEEKLY).ok


@pytest.mark.parametrize("answers", [{}, {"every_days": ""}, {"every_days": "30"}, {"every_days": "7.1"}])
def test_what_comes_back_seldom_or_nobody_knows_when_does_not_fit(arena: Arena, answers: dict[str, str]) -> None:
    found = fit(arena, answers)
    assert failing(found) == ["recurs"]
    assert not found.ok
    assert "plain prompt" in found.advice


@pytest.mark.parametrize(
    ("answers", "experiments"),
    [
        ({"hours": "0.1"}, 30),
        ({"hours": "0.0999"}, 29),
        ({"hours": "0.05", "workers": "2"}, 30),
        ({"usd": "6", "usd_per_experiment": "0.2"}, 30),
        ({"usd": "5.9", "usd_per_experiment": "0.2"}, 29),
        ({"tokens": "600,000", "tokens_per_experiment": "20_000"}, 30),
        ({"tokens": "599,000", "tokens_per_experiment": "20000"}, 29),
        ({"usd": "0", "usd_per_experiment": "0.2"}, 0),
        ({"usd": "6", "usd_per_experiment": "0", "hours": "0.1"}, 30),
    ],
)
def test_thirty_experiments_are_enough(arena: Arena, answers: dict[str, str], experiments: int) -> None:
    found = fit(arena, {**WEEKLY, **answers})
    assert found.experiments == experiments
    assert failing(found) == ([] if experiments >= 30 else ["budget"])


def test_half_an_answer_on_money_is_no_answer(arena: Arena) -> None:
    assert failing(fit(arena, {**WEEKLY, "usd": "50"})) == ["budget"]
    assert failing(fit(arena, {**WEEKLY, "tokens_per_experiment": "20000"})) == ["budget"]


def test_workers_do_not_speed_up_an_exclusive_arena() -> None:
    speed = load(EXAMPLES / "speed")
    alone, crowd = (fit(speed, {**WEEKLY, "workers": workers}).experiments for workers in ("1", "8"))
    assert alone == crowd


def test_tools_must_be_there(arena: Arena, tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "house-tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    answers = {**WEEKLY, "tools": "house-tool, sh"}
    path = os.pathsep.join([str(tool.parent), "/usr/bin", "/bin"])
    assert failing(fit(arena, answers, path)) == ["tools"]
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    assert fit(arena, answers, path).ok
    found = fit(arena, {**WEEKLY, "tools": "no-such-tool"}, path)
    assert "`no-such-tool` is not on PATH" in found.reasons[3].evidence


def test_files_that_are_named_must_be_there(arena: Arena) -> None:
    (arena.folder / "params.toml").unlink()
    assert failing(fit(arena, WEEKLY)) == ["tools"]
    (arena.folder / "score.py").unlink()
    assert failing(fit(arena, WEEKLY)) == ["automatic", "tools"]


def test_a_scorer_that_nobody_has_filled_in_is_not_automatic(tmp_path: Path) -> None:
    answers = {"goal": "Better", "files": "a.py", "metric": "x"}
    scaffold(tmp_path, GOAL, answers)
    (tmp_path / "a.py").touch()
    assert failing(fit(load(tmp_path), WEEKLY)) == ["automatic"]


def test_without_an_arena_everything_has_to_be_said() -> None:
    assert failing(fit(None, {})) == ["recurs", "automatic", "budget", "tools"]
    assert fit(None, {}).experiments is None
    assert fit(None, {**WEEKLY, "measure": "sh bench.sh", "seconds": "10"}).ok
    assert failing(fit(None, {**WEEKLY, "measure": "no-such-command", "seconds": "10"})) == ["automatic", "tools"]


@pytest.mark.parametrize("answer", ["often", "-1", "nan", "inf"])
def test_an_answer_that_is_no_number_is_an_error(arena: Arena, answer: str) -> None:
    with pytest.raises(UsageError, match="every_days"):
        fit(arena, {"every_days": answer})


def test_an_unknown_answer_is_an_error(arena: Arena) -> None:
    with pytest.raises(UsageError, match="'every_day' is not asked"):
        fit(arena, {"every_day": "1"})
    assert all(question.default is not None for question in fit_questions())
