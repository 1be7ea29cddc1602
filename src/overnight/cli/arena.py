"""`overnight arena new`, `check` and `fit`."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import click

from overnight.cli.options import as_json, in_workspace, print_json
from overnight.core.clock import format_duration
from overnight.core.errors import UsageError
from overnight.core.escape import visible
from overnight.loop.arena import arena as arenas
from overnight.loop.record.findings import number
from overnight.workspace.workspace import Workspace


@click.group()
def arena() -> None:
    """Make an arena, check it, ask whether a loop fits."""


@arena.command()
@click.argument("place", type=click.Path(path_type=Path, file_okay=False), metavar="ARENA")
@click.option(
    "--sandbox", type=click.Choice(["bwrap", "landlock", "none"]), help="Isolation; the best there is by default."
)
@in_workspace
@as_json
def check(place: Path, sandbox: Any, as_json: bool, folder: Path | None) -> None:
    """Measure the baseline of ARENA several times, and say what would spoil a run.

    Exit code 1 if it cannot be left alone as it is.
    """
    from overnight.loop.arena.check import check as examine

    loaded = arenas.load(place)
    workspace = Workspace.at(folder) if folder else Workspace.of_arena(loaded.folder)
    isolation = sandbox or workspace.resolved.settings.sandbox.isolation

    def say(text: str) -> None:
        if not as_json and sys.stderr.isatty():
            click.echo(text, err=True)

    found = examine(loaded, workspace.state / "environments", isolation, say)
    if as_json:
        print_json({**dataclasses.asdict(found), "arena": loaded.name})
    else:
        _print(found)
    if not found.ok:
        sys.exit(1)


def _print(found: Any) -> None:
    click.echo(f"metric        {found.metric}, {found.direction}: {', '.join(number(value) for value in found.values)}")
    if found.noise is not None:
        noise = "none: the same for every seed" if found.deterministic else f"{found.noise:.3g} (sd of one measurement)"
        rate = f"about {found.experiments_per_hour:,.0f} experiments an hour per worker"
        click.echo(f"noise         {noise}; the same seed {'repeats' if found.repeats else 'does not repeat'}")
        click.echo(f"evaluation    {format_duration(found.seconds)}, {rate}")
        click.echo(f"detectable    {found.detectable_effect:.3g} (kept four times out of five)")
    click.echo(f"integrity     {found.integrity}, sandbox {found.sandbox}")
    knobs = [visible(knob) for knob in found.knobs]
    click.echo(
        f"knobs         {len(knobs)}{': ' if knobs else ''}{', '.join(knobs[:8])}{', …' if len(knobs) > 8 else ''}"
    )
    for problem in found.problems:
        click.echo(f"PROBLEM       {visible(problem, lines=True)}")
    for line in found.advice:
        click.echo(f"advice        {visible(line)}")
    click.echo("fit to be left alone" if found.ok else "not fit to be left alone")


@arena.command()
@click.argument("name", metavar="NAME")
@click.option("--template", metavar="NAME", help="code-speed, model-training, prompt, simulator or rubric.")
@click.option("--goal", metavar="WORDS", help="What should get better, in words, instead of a template.")
@click.option(
    "--set", "given", multiple=True, metavar="KEY=ANSWER", help="An answer; `--set help` lists the questions."
)
@in_workspace
@as_json
def new(
    name: str, template: str | None, goal: str | None, given: tuple[str, ...], folder: Path | None, as_json: bool
) -> None:
    """Make an arena called NAME, from a template or from a goal.

    In a workspace it lands in arenas/NAME, elsewhere in the folder NAME. From a goal, what a good evaluator needs is
    asked for on a terminal; without one, give every answer with --set.
    """
    from overnight.loop.arena.scaffold import GOAL, TEMPLATES, questions, scaffold

    if "help" in given:
        _list_questions(questions(), as_json)
        return
    if template and goal:
        raise UsageError("--template and --goal together", hint="a template is an arena already; a goal asks for one")
    answers = _answers(given)
    kind = template or (GOAL if goal or answers or sys.stdin.isatty() else "")
    if not kind:
        listed = "\n  ".join(f"{key}: {text}" for key, text in TEMPLATES.items())
        raise UsageError("name a --template, or say your --goal in words", hint=listed)
    if goal:
        answers["goal"] = goal
    if kind == GOAL:
        answers = _ask(questions(), answers)
    workspace = Workspace.at(folder) if folder else Workspace.enclosing(Path.cwd())
    inside = workspace.folder / "arenas" if workspace and (workspace.folder / "arenas").is_dir() else Path.cwd()
    place = inside / name
    made = scaffold(place, kind, answers)
    if as_json:
        print_json({"arena": str(place), "files": [str(path.relative_to(place)) for path in made]})
        return
    click.echo(f"made {place}: {', '.join(str(path.relative_to(place)) for path in made)}")
    click.echo(f"next: overnight arena check {_shown(place)}")


@arena.command()
@click.argument("place", required=False, type=click.Path(path_type=Path, file_okay=False), metavar="[ARENA]")
@click.option(
    "--set", "given", multiple=True, metavar="KEY=ANSWER", help="An answer; `--set help` lists the questions."
)
@in_workspace
@as_json
def fit(place: Path | None, given: tuple[str, ...], folder: Path | None, as_json: bool) -> None:
    """Is a loop the right tool for ARENA, or for a task that is none yet? Exit code 1 if it is not.

    The task must recur, be verified automatically, leave time and money for some thirty experiments, and have the
    tools it needs. On a terminal you are asked; elsewhere give answers with --set.
    """
    from overnight.loop.arena.fit import fit as judge
    from overnight.loop.arena.fit import fit_questions

    if "help" in given:
        _list_questions(fit_questions(), as_json)
        return
    loaded = arenas.load(place) if place else None
    known = [question for question in fit_questions() if not (loaded and question.key in ("measure", "seconds"))]
    result = judge(loaded, _ask(known, _answers(given)))
    if as_json:
        print_json(dataclasses.asdict(result))
    else:
        for reason in result.reasons:
            click.echo(f"{'ok' if reason.ok else 'NO'}  {reason.condition:<10} {visible(reason.evidence)}")
        click.echo(visible(result.advice))
    if not result.ok:
        sys.exit(1)


def _answers(given: tuple[str, ...]) -> dict[str, str]:
    answers = {}
    for item in given:
        key, found, answer = item.partition("=")
        if not found:
            raise UsageError(f"--set {item!r} has no '='", hint="write it as --set key=answer")
        answers[key.strip()] = answer
    return answers


def _ask(questions: Any, answers: dict[str, str]) -> dict[str, str]:
    """Ask at a terminal for what was not given; elsewhere only make sure that nothing needed is missing."""
    answers = dict(answers)
    for question in questions:
        if question.key in answers:
            continue
        if sys.stdin.isatty():
            click.echo(f"\n{question.text}" + (f"\n  {question.help}" if question.help else ""), err=True)
            chosen: Any = click.Choice(question.choices) if question.choices else str
            needed = question.default is None
            answers[question.key] = click.prompt(
                "", prompt_suffix="> ", default=None if needed else question.default, type=chosen, err=True
            )
        elif question.default is None:
            raise UsageError(f"nobody said: {question.text}", hint=f"add --set {question.key}=…")
    return answers


def _list_questions(questions: Any, as_json: bool) -> None:
    if as_json:
        print_json([dataclasses.asdict(question) for question in questions])
        return
    for question in questions:
        default = "needed" if question.default is None else question.default or "may be empty"
        click.echo(f"{question.key:<22} {question.text} ({default})")


def _shown(place: Path) -> str:
    try:
        return str(place.relative_to(Path.cwd()))
    except ValueError:
        return str(place)
