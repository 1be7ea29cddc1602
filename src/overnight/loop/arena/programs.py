"""Which programs experiments find, and what to do where an arena names one that they don't."""

import shutil
from pathlib import Path

from overnight.core.errors import ArenaError
from overnight.loop.arena.arena import Arena
from overnight.loop.evaluation.commands import arguments
from overnight.loop.evaluation.measured import Environment


def search_path(bin_folder: Path) -> str:
    """Where experiments look for programs: their Python's folder first, then the system's."""
    return f"{bin_folder}:/usr/local/bin:/usr/bin:/bin"


def lacking(arena: Arena) -> str:
    """What to do about a program that the arena names and experiments don't find; "" if there is none.

    An arena with a `setup` brings its own, which cannot be told before it is built.
    """
    front = arena.front
    if front.setup:
        return ""
    path = search_path(Environment.own().bin)
    evaluate = None if arena.evaluate_function() else front.evaluate
    for command in (front.produce, front.score, evaluate, front.holdout, *front.checks):
        try:
            program = arguments(command, {})[0] if command else ""
        except (ArenaError, IndexError):
            continue
        if program and "/" not in program and shutil.which(program, path=path) is None:
            return advice(program, path)
    return ""


def advice(program: str, path: str) -> str:
    """What to do where `program` is not on `path`."""
    if program == "python" and shutil.which("python3", path=path):
        return (
            "experiments find no `python`, only `python3`: write python3 in program.md, or install Overnight into a"
            " virtual environment, which has both: python3 -m venv .venv"
        )
    return f"experiments find no `{program}` in {path}: install it there, or write it with its path"
