"""`overnight arena new`: a working arena from a template, or the frame of one from a goal in words.

The questions are those a good evaluator has answered: what is the number, who measures it, what would cheat it, how
noisy is it, what must not get worse. The answers become front matter where a key exists for them, and rules that
authors read everywhere else. Where nobody measures yet, the scorer that is written fails loudly until it is filled in.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template

import yaml

from overnight.core.clock import parse_duration_s
from overnight.core.errors import UsageError
from overnight.core.escape import visible
from overnight.core.schema import suggest
from overnight.loop.arena.arena import PROGRAM, parse

GOAL = "goal"
NOT_FILLED_IN = "OVERNIGHT: NOT FILLED IN"
"""Stands in a scorer that was written from a goal until a person has completed it."""

TEMPLATES: Mapping[str, str] = {
    "code-speed": "a function, timed from outside, with answers that must stay right",
    "model-training": "a training script that hands predictions over, with a validation half and a holdout half",
    "prompt": "a prompt, put to a model and compared with golden answers",
    "simulator": "parameters of a simulator with random demand",
    "rubric": "a text against a rubric of readable rules",
}


@dataclass(frozen=True)
class Question:
    """Something that a good evaluator has an answer to.

    Attributes:
        key: of the answer, for `scaffold`.
        text: the question itself.
        help: why it is asked, and how to answer.
        default: taken when nothing is answered; None if an answer is needed.
        choices: the only answers; empty if any will do.
    """

    key: str
    text: str
    help: str
    default: str | None = ""
    choices: tuple[str, ...] = ()


def questions() -> list[Question]:
    """What to ask before an arena is made from a goal, in order."""
    return [
        Question("goal", "What should get better?", "One sentence, as you would say it to a colleague.", None),
        Question("files", "Which files may be changed?", "Paths inside the arena, separated by commas.", None),
        Question("metric", "What is the number called?", "One word, such as val_loss or seconds_per_page.", None),
        Question("direction", "Is less of it better, or more?", "", "minimize", ("minimize", "maximize")),
        Question(
            "measure",
            "Which command measures it?",
            "It prints `METRIC name=value`. Leave it empty if there is none yet: you get a score.py to fill in.",
        ),
        Question("budget", "How long may one measurement take?", "Like 4s or 2m; a night holds 28,800 s.", "10s"),
        Question(
            "noise",
            "How much does the number vary when nothing changes?",
            "Its standard deviation if you know it; `overnight arena check` measures it.",
            "unknown",
        ),
        Question(
            "min_effect",
            "Which improvement is too small to be worth having?",
            "In units of the number; 0 keeps whatever is real.",
            "0",
        ),
        Question(
            "cheats",
            "What would raise the number without being better?",
            "Each becomes a rule that authors read; separate them by semicolons. Test what can be tested.",
        ),
        Question(
            "keep",
            "What must not get worse?",
            "Each becomes a rule; separate them by semicolons.",
        ),
        Question(
            "checks",
            "Which commands tell that it did not?",
            "Tests, linters: they must pass before a keep; separate them by semicolons.",
        ),
    ]


def scaffold(folder: Path, template: str, answers: Mapping[str, str]) -> list[Path]:
    """Write an arena into `folder`, which is made if need be.

    Args:
        folder: where to; files that are there already stay as they are.
        template: a name in `TEMPLATES`, or `goal`.
        answers: by `Question.key`. A template takes `goal`, `cheats`, `keep` and `checks`; from a goal, all count.

    Returns:
        The files written, program.md first.

    Raises:
        UsageError: no such template or question, an answer that cannot be used, or a file that is in the way. Nothing
            is written then.
    """
    known = {question.key: question for question in questions()}
    taken = known if template == GOAL else {key: known[key] for key in ("goal", "cheats", "keep", "checks")}
    for key in answers:
        if key not in taken:
            raise UsageError(f"{key!r} is not asked for {_name(template)}", hint=suggest(key, taken))
    # What an answer hides would act in the files it is woven into, or keep them from being read.
    given = {key: visible(answers.get(key, "").strip(), lines=True) or (taken[key].default or "") for key in taken}
    files = _from_goal(folder, given) if template == GOAL else _from_template(folder, template, given)
    if ".." in folder.parts:
        raise UsageError(
            f"{folder} leads back up by `..`, so it is not clear where the arena would be",
            hint=f"name the folder itself: {Path(os.path.normpath(folder))}",
        )
    parse(folder, files[PROGRAM].decode())
    for name in files:
        if (folder / name).exists() or (folder / name).is_symlink():
            raise UsageError(f"{folder / name} exists already", hint="choose another folder, or move it away")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
    except OSError as problem:
        raise UsageError(f"cannot write {problem.filename or folder}: {problem.strerror}") from problem
    return [folder / name for name in files]


def _from_template(folder: Path, template: str, given: Mapping[str, str]) -> dict[str, bytes]:
    if template not in TEMPLATES:
        raise UsageError(f"there is no template {template!r}", hint=suggest(template, TEMPLATES))
    source = resources.files("overnight.loop") / "templates" / template
    items = {item.name: item.read_bytes() for item in source.iterdir() if item.is_file()}
    program = items.pop(PROGRAM).decode("utf-8")
    if checks := _list(given["checks"]):
        opening, front, prose = program.split("---\n", 2)
        program = f"{opening}---\n{front}checks: {_yaml(checks)}\n---\n{prose}"
    if given["goal"]:
        program = re.sub(r"^(# .*)$", lambda found: f"{found[1]}\n\n{given['goal']}", program, count=1, flags=re.M)
    return {PROGRAM: (program + _rules(given)).encode(), **items}


def _from_goal(folder: Path, given: Mapping[str, str]) -> dict[str, bytes]:
    for question in questions():
        if question.default is None and not given[question.key]:
            raise UsageError(f"{question.text[:-1]} is not answered", hint=f"give {question.key!r}. {question.help}")
        if question.choices and given[question.key] not in question.choices:
            raise UsageError(
                f"{question.key}: {given[question.key]!r} is not an answer",
                hint=suggest(given[question.key], question.choices),
            )
    parse_duration_s(given["budget"])
    try:
        min_effect = float(given["min_effect"])
    except ValueError:
        raise UsageError(f"min_effect: {given['min_effect']!r} is not a number") from None
    files = [name.strip() for name in given["files"].split(",") if name.strip()]
    front: dict[str, object] = {"metric": given["metric"], "direction": given["direction"]}
    if given["measure"]:
        front["evaluate"] = given["measure"]
    else:
        front.update(score="python score.py", hidden=["score.py"])
    front.update(editable=files, budget=given["budget"])
    if min_effect:
        front["min_effect"] = min_effect
    if checks := _list(given["checks"]):
        front["checks"] = checks
    better = "Lower" if given["direction"] == "minimize" else "Higher"
    values = {
        "goal": " ".join(given["goal"].split()),
        "files": ", ".join(f"`{name}`" for name in files),
        "metric": given["metric"],
        "better": better,
        "noise": _noise(given["noise"]),
    }
    shown = "".join(f"{key}: {_yaml(value)}\n" for key, value in front.items())
    program = f"---\n{shown}---\n\n{_frame('program.md.tmpl', values)}{_rules(given)}"
    if given["measure"]:
        return {PROGRAM: program.encode()}
    fill = {
        "metric": given["metric"],
        "files": " ".join(", ".join(files).split()),
        "marker": NOT_FILLED_IN,
        "cheats": _comment(given),
    }
    return {PROGRAM: program.encode(), "score.py": _frame("score.py.tmpl", fill).encode()}


def _rules(given: Mapping[str, str]) -> str:
    sections = [("What does not count", "cheats"), ("What must not get worse", "keep")]
    parts = [(title, _list(given[key])) for title, key in sections if given[key]]
    return "".join(f"\n## {title}\n\n" + "".join(f"- {rule}\n" for rule in rules) for title, rules in parts)


def _comment(given: Mapping[str, str]) -> str:
    # One line each: an answer must not be able to leave its comment.
    lines = [" ".join(cheat.split()) for cheat in _list(given["cheats"])]
    return "".join(f"# - {line}\n" for line in lines) or "# - (nobody has said yet: think of three)\n"


def _noise(answer: str) -> str:
    try:
        return f"One measurement varies by about {float(answer):g} when nothing changes; smaller gains look like luck."
    except ValueError:
        return "How much one measurement varies is not known yet."


def _list(answer: str) -> list[str]:
    return [part.strip() for part in answer.split(";") if part.strip()]


def _yaml(value: object) -> str:
    dumped = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return dumped.removesuffix("...\n").strip()


def _frame(name: str, values: Mapping[str, str]) -> str:
    source = resources.files("overnight.loop") / "templates" / GOAL / name
    return Template(source.read_text("utf-8")).substitute(values)


def _name(template: str) -> str:
    return "a goal" if template == GOAL else f"the template {template!r}"
