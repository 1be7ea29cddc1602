"""Whether an edit of Python source changed the literals it was to change, and nothing else."""

import ast
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from overnight.loop.knobs.knob import Value, same
from overnight.loop.knobs.python_file import Lines, literal, parse


class Edit(NamedTuple):
    """A literal replaced: its span in the text before, the value it is to have, and the text written for it."""

    start: int
    end: int
    value: Value
    text: str


def unchanged_but(before: str, edits: Sequence[Edit]) -> bool:
    """Whether `before` with these edits made parses to the same tree with exactly those literals replaced.

    Only the statements of the module that hold an edit are parsed, by themselves (neighbours together), before and
    after: where both are whole statements on lines of their own, nothing changes for the others.
    """
    starts = _starts(before)
    if not starts:
        return False
    ends = [*starts[1:], len(before)]
    pieces: list[tuple[int, list[Edit]]] = []
    last = -2
    for edit in sorted(edits):
        piece = bisect_right(starts, edit.start) - 1
        if piece < 0:
            return False
        if piece > last + 1:
            pieces.append((starts[piece], []))
        last = piece
        pieces[-1][1].append(edit)
        if edit.end > ends[piece]:
            return False
    for start, inside in pieces:
        end = ends[bisect_right(starts, inside[-1].start) - 1]
        moved = [Edit(edit.start - start, edit.end - start, edit.value, edit.text) for edit in inside]
        if not _same_tree(before[start:end], moved):
            return False
    return True


@lru_cache(maxsize=16)
def _starts(text: str) -> tuple[int, ...]:
    """Where the lines begin that begin a statement of the module, and none that a statement before still needs."""
    tree = parse(text)
    if tree is None:
        return ()
    lines = Lines(text)
    starts: list[int] = []
    taken = 0
    for node in tree.body:
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(each.lineno for each in decorators)])
        if first > taken:
            starts.append(lines.starts[first - 1])
        taken = max(taken, node.end_lineno or first)
    return tuple(starts)


# The constants of a few artifacts: they stay the same from one proposal to the next.
@lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[ast.Module | None, Lines]:
    return parse(text), Lines(text)


def _same_tree(before: str, edits: Sequence[Edit]) -> bool:
    after = before
    for edit in reversed(edits):
        after = after[: edit.start] + edit.text + after[edit.end :]
    (old, source), new = _parsed(before), parse(after)
    if old is None or new is None:
        return False
    wanted = {(edit.start, edit.end): edit.value for edit in edits}
    done = 0
    stack: list[tuple[object, object]] = [(old, new)]
    while stack:
        one, other = stack.pop()
        if isinstance(one, ast.expr) and literal(one) is not None and (span := source.span(one)) in wanted:
            if not isinstance(other, ast.expr) or not same(literal(other), wanted[span]):
                return False
            done += 1
        elif type(one) is not type(other):
            return False
        elif isinstance(one, ast.AST):
            stack.extend((getattr(one, name, None), getattr(other, name, None)) for name in one._fields)
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            stack.extend(zip(one, other, strict=True))
        elif one != other and not (one != one and other != other):
            return False
    return done == len(wanted)
