"""An arena: `program.md`'s front matter and instructions, and the rules they set."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import yaml

from overnight.core import schema
from overnight.core.clock import parse_duration_s
from overnight.core.errors import ArenaError, UsageError
from overnight.loop.record.experiment import Direction

PROGRAM = "program.md"
Integrity = Literal["separate", "shared"]
_PYTHON_FUNCTION = re.compile(r"(?P<file>[^\s:]+\.py):(?P<function>[A-Za-z_]\w*)")
_FENCE = re.compile(r"\A\ufeff?---[ \t]*\r?\n(?P<front>.*?)^---[ \t]*\r?$\n?(?P<prose>.*)\Z", re.DOTALL | re.MULTILINE)


def _number(raw: Any) -> float:
    # YAML 1.1 reads 1e-3 as text; people write it as a number.
    try:
        if isinstance(raw, bool):
            raise ValueError
        value = float(raw)
    except (TypeError, ValueError):
        raise UsageError(f"expected a number, got {raw!r}") from None
    if not float("-inf") < value < float("inf"):
        raise UsageError(f"expected a finite number, got {raw!r}")
    return value


def _margin(raw: Any) -> float:
    value = _number(raw)
    if value < 0:
        raise UsageError(f"expected 0 or more, got {raw!r}")
    return value


def _paths(raw: Any) -> tuple[str, ...]:
    if isinstance(raw, str):
        raw = [raw]
    if not isinstance(raw, list) or not all(isinstance(item, str) and item.strip() for item in raw):
        raise UsageError(f"expected a list of paths, got {raw!r}", hint="write it as [a.py, folder/]")
    for item in raw:
        if item.startswith(("/", "~")) or ".." in PurePosixPath(item).parts or "\0" in item:
            raise UsageError(f"{item!r} leads outside the arena", hint="name files inside the arena's own folder")
    return tuple(item[2:] if item.startswith("./") else item for item in raw)


def _commands(raw: Any) -> tuple[str, ...]:
    if isinstance(raw, str):
        raw = [raw]
    if not isinstance(raw, list) or not all(isinstance(item, str) and item.strip() for item in raw):
        raise UsageError(f"expected a list of commands, got {raw!r}", hint='write it as ["python -m pytest -q"]')
    return tuple(raw)


def _optional_number(raw: Any) -> float | None:
    return None if raw is None else _number(raw)


def _optional_duration(raw: Any) -> float | None:
    return None if raw is None else parse_duration_s(raw)


@dataclass(frozen=True)
class FrontMatter:
    """The keys of `program.md`, as documented in docs/arenas.md; times in seconds, margins in metric units."""

    direction: Direction
    budget: float = field(metadata=schema.parsed_by(parse_duration_s))
    editable: tuple[str, ...] = field(metadata=schema.parsed_by(_paths))
    metric: str = ""
    produce: str | None = None
    outputs: tuple[str, ...] = field(default=(), metadata=schema.parsed_by(_paths))
    score: str | None = None
    evaluate: str | None = None
    hidden: tuple[str, ...] = field(default=(), metadata=schema.parsed_by(_paths))
    timeout: float | None = field(default=None, metadata=schema.parsed_by(_optional_duration))
    setup: str | None = None
    data: tuple[str, ...] = field(default=(), metadata=schema.parsed_by(_paths))
    min_effect: float = field(default=0.0, metadata=schema.parsed_by(_margin))
    simpler_within: float = field(default=0.0, metadata=schema.parsed_by(_margin))
    checks: tuple[str, ...] = field(default=(), metadata=schema.parsed_by(_commands))
    holdout: str | None = None
    target: float | None = field(default=None, metadata=schema.parsed_by(_optional_number))
    network: bool = False
    exclusive: bool = False


class Paths:
    """A set of path patterns as front matter writes them: a file, a `folder/` with all below it, or a glob."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        self._expressions = [_expression(pattern) for pattern in self.patterns]

    def __contains__(self, path: str) -> bool:
        return any(expression.fullmatch(path) for expression in self._expressions)

    def __bool__(self) -> bool:
        return bool(self.patterns)


def _expression(pattern: str) -> re.Pattern[str]:
    parts, at = [], 0
    body = pattern.rstrip("/")
    for found in re.finditer(r"\*\*/|\*\*|\*|\?", body):
        parts.append(re.escape(body[at : found.start()]))
        parts.append({"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}[found.group()])
        at = found.end()
    parts.append(re.escape(body[at:]))
    # A name also stands for everything below it, should it be a folder.
    return re.compile("".join(parts) + r"(?:/.*)?", re.DOTALL)


@dataclass(frozen=True)
class Arena:
    """A folder that can be improved.

    Attributes:
        folder: where it lies, resolved.
        front: the validated keys.
        instructions: the prose below them.
    """

    folder: Path
    front: FrontMatter
    instructions: str

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.folder.name

    @property
    def metric(self) -> str:
        """The one number's name."""
        return self.front.metric

    @property
    def timeout_s(self) -> float:
        """Wall clock after which an evaluation is killed, seconds."""
        return self.front.timeout if self.front.timeout is not None else 2 * self.front.budget

    @property
    def integrity(self) -> Integrity:
        """`separate`: the score is measured where the artifact never runs; `shared`: they share a process."""
        return "separate" if self.front.score else "shared"

    @cached_property
    def editable(self) -> Paths:
        """What authors may change."""
        return Paths(self.front.editable)

    @cached_property
    def hidden(self) -> Paths:
        """What only the scorer sees. program.md is not hidden, but it is handed to authors as text."""
        return Paths(self.front.hidden)

    @cached_property
    def data(self) -> Paths:
        """Read-only inputs, mounted instead of copied."""
        return Paths(self.front.data)

    @property
    def outputs(self) -> tuple[str, ...]:
        """What the artifact hands over; without `produce`, the artifact itself, as data."""
        return self.front.outputs if self.front.produce else (self.front.outputs or self.front.editable)

    def named_files(self) -> tuple[str, ...]:
        """Editable and hidden paths without wildcards: part of the arena even where git ignores them."""
        return tuple(name for name in (*self.front.editable, *self.front.hidden) if not set(name) & set("*?"))

    def evaluate_function(self) -> tuple[str, str] | None:
        """File and function where `evaluate` has the form `evaluator.py:evaluate`."""
        found = _PYTHON_FUNCTION.fullmatch(self.front.evaluate or "")
        return (found["file"], found["function"]) if found else None

    def settings(self) -> Mapping[str, Any]:
        """What a record keeps of the front matter, as JSON."""
        known = {name: getattr(self.front, name) for name in self.front.__dataclass_fields__}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in known.items()}


def load(folder: Path, program: bytes | None = None) -> Arena:
    """The arena in `folder`, from the text in `program` if that is what is in force, else from its program.md.

    Raises:
        ArenaError: there is none, or a key is unknown, missing, of the wrong type or contradicts another.
    """
    folder = folder.resolve()
    path = folder / PROGRAM
    if program is None:
        try:
            program = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise ArenaError(
                f"{folder} is not an arena: it has no {PROGRAM}",
                hint="make one with `overnight arena new`, or name the folder that has it",
            ) from None
        except OSError as problem:
            raise ArenaError(f"cannot read {path}: {problem.strerror}") from problem
    return parse(folder, program.decode("utf-8", "replace"))


def parse(folder: Path, text: str) -> Arena:
    """The arena that `text`, the content of a program.md, describes.

    Raises:
        ArenaError: as for `load`.
    """
    found = _FENCE.match(text)
    if found is None:
        raise ArenaError(
            f"{folder / PROGRAM} has no front matter",
            hint="start it with a line of ---, the keys (metric, direction, …), and another line of ---",
        )
    try:
        raw = yaml.load(found["front"], Loader=_UniqueKeys)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        line = f":{mark.line + 2}" if mark else ""
        raise ArenaError(f"{folder / PROGRAM}{line}: {getattr(problem, 'problem', problem)}") from problem
    if not isinstance(raw, dict):
        raise ArenaError(f"{folder / PROGRAM}: the front matter has no keys", hint="write `metric: name` and so on")
    front = schema.build(FrontMatter, raw, str(folder / PROGRAM), ArenaError)
    return _checked(Arena(folder, front, found["prose"].strip()))


class _UniqueKeys(yaml.SafeLoader):
    """A key written twice is an error, not silently the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping whose keys are all different."""
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in seen:
                raise yaml.MarkedYAMLError(problem=f"key {key!r} stands twice", problem_mark=key_node.start_mark)
            seen.add(key if isinstance(key, str) else repr(key))
        return super().construct_mapping(node, deep=deep)


def _checked(arena: Arena) -> Arena:
    front, where = arena.front, str(arena.folder / PROGRAM)

    def wrong(message: str, hint: str) -> ArenaError:
        return ArenaError(f"{where}: {message}", hint=hint)

    if front.evaluate and (front.score or front.produce):
        raise wrong("both the two-step form (produce, score) and the one-step form (evaluate) are given", "keep one")
    if not front.evaluate and not front.score:
        raise wrong("nothing says how to measure", "add `produce:` and `score:` (recommended), or `evaluate:`")
    if front.produce and not front.outputs:
        raise wrong("`produce` hands nothing over", "list the files that the score needs under `outputs`")
    if front.outputs and front.evaluate:
        raise wrong("`outputs` belong to the two-step form", "remove them, or use `produce:` and `score:`")
    if not front.metric:
        if not arena.evaluate_function():
            raise wrong("'metric' is missing", "name the number that the evaluator reports")
        arena = Arena(arena.folder, _with_metric(front, "combined_score"), arena.instructions)
    if not re.fullmatch(r"[A-Za-z_][\w./-]*", arena.metric):
        raise wrong(f"{arena.metric!r} cannot name a metric", "use letters, digits, '_', '.', '/' and '-'")
    if not front.editable:
        raise wrong("`editable` is empty", "list what authors may change")
    if arena.timeout_s < front.budget:
        raise wrong(f"timeout {arena.timeout_s} s is below the budget {front.budget} s", "raise the timeout")
    for secret in front.hidden:
        if secret.rstrip("/") in arena.editable:
            raise wrong(f"{secret!r} is both hidden and editable", "authors cannot edit what they must not see")
        if front.score and secret.rstrip("/") in Paths(arena.outputs):
            raise wrong(
                f"{secret!r} is hidden, and `outputs` would let the artifact hand over one of its own",
                "name the files it hands over, or a folder for them: outputs: [out/]",
            )
    if PROGRAM in arena.editable:
        raise wrong("program.md is editable", "the person's instructions are not for authors to change")
    evaluator = arena.evaluate_function()
    if evaluator and evaluator[0] in arena.editable:
        raise wrong(f"the evaluator {evaluator[0]!r} is editable", "take it out of `editable`")
    return arena


def _with_metric(front: FrontMatter, metric: str) -> FrontMatter:
    values = {name: getattr(front, name) for name in front.__dataclass_fields__}
    return FrontMatter(**{**values, "metric": metric})
