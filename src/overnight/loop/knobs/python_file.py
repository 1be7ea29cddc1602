"""Constants in Python source: where they stand, by the standard parser; nothing is imported or run."""

import ast
import io
import re
import tokenize
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from threading import Lock

from overnight.loop.knobs.annotation import annotation, is_off, named_options
from overnight.loop.knobs.knob import Leaf, Scan, Text, Value, decode, same
from overnight.loop.knobs.numbers import write_number

_BREAK = re.compile(r"\r\n|\r|\n")
_TELLING_COMMENT = re.compile(r"#.*(?:knob|EVOLVE-BLOCK|[\[({|])", re.IGNORECASE)
_PLAIN_STRING = re.compile(r"""([uU]?)(?:'([^'\\\r\n]|\\.)*'|"([^"\\\r\n]|\\.)*")""")
_warnings_lock = Lock()


def decode_python(data: bytes) -> Text | None:
    """Source text under its encoding cookie, or None if that cannot be done without loss."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except (SyntaxError, UnicodeDecodeError):
        return None
    return decode(data, "utf-8" if encoding == "utf-8-sig" else encoding)


def scan_python(text: str) -> Scan | None:
    """All literals of a module that a rule may make into knobs, or None if it does not parse.

    Eligible are constants of the module and of its classes, also inside dict literals, `dict(…)`, `field(default=…)`.
    Other named literals (in functions, keywords, defaults) need an annotation or a list of options; numbers inside
    code are `bare`. Where EVOLVE-BLOCK markers stand, only what lies between them counts without an annotation.
    """
    source = Lines(text)
    tree = parse(text)
    if tree is None:
        return None
    comments: dict[int, str] = {}
    if _TELLING_COMMENT.search(text):
        try:
            for token in tokenize.generate_tokens(iter(source.lines).__next__):
                if token.type == tokenize.COMMENT:
                    comments[token.start[0]] = token.string[1:]
        except (tokenize.TokenError, IndentationError, SyntaxError):
            return None
    walk = _Walk(tree, source, comments)
    walk.body(tree.body, (), eligible=True)
    return Scan(tuple(sorted(walk.leaves, key=lambda leaf: leaf.start)), comments)


def parse(text: str) -> ast.Module | None:
    """The syntax tree, or None. Warnings about the artifact's own style are not ours to show."""
    try:
        with _warnings_lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse("".join(Lines(text).lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def write_python(value: Value, before: str) -> str:
    """`value` as source, in the manner of the literal `before` it replaces: quotes, hex, underscores, 1e-4 style."""
    if isinstance(value, str):
        quote = before.lstrip("uU")[0]
        body = "".join(
            char if char.isascii() and char.isprintable() and char not in "\\'\"" else _escaped(char, quote)
            for char in value
        )
        return f"{quote}{body}{quote}"
    return write_number(value, before)


def literal(node: ast.expr) -> Value | None:
    """The value of a number, truth value or text, with its sign; None for everything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
        return node.value
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and isinstance(node.operand, ast.Constant)
        and type(node.operand.value) in (int, float)
    ):
        number = node.operand.value
        assert isinstance(number, int | float)
        return -number
    return None


def _escaped(char: str, quote: str) -> str:
    if char in "'\"":
        return char if char != quote else f"\\{char}"
    return char.encode("unicode_escape").decode("ascii")


class Lines:
    """Positions: the parser counts lines and UTF-8 bytes, an edit needs characters of the text as it stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        breaks = list(_BREAK.finditer(text))
        self.starts = [0, *(found.end() for found in breaks)]
        ends = [*(found.start() for found in breaks), len(text)]
        self.lines = [text[start:end] + "\n" for start, end in zip(self.starts, ends, strict=True)]

    def offset(self, line: int, column: int) -> int:
        """Of a position as the parser gives it: line from 1, column in UTF-8 bytes."""
        content = self.lines[line - 1]
        if not content.isascii():
            column = len(content.encode()[:column].decode(errors="replace"))
        return self.starts[line - 1] + column

    def span(self, node: ast.expr) -> tuple[int, int]:
        """Start and end in characters."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def line(self, offset: int) -> int:
        """From 1."""
        return bisect_right(self.starts, offset)


class _Walk:
    """One pass over a module that names every literal by where it stands."""

    def __init__(self, tree: ast.Module, source: Lines, comments: dict[int, str]) -> None:
        self.leaves: list[Leaf] = []
        self._source = source
        self._comments = comments
        self._options: list[tuple[int, str, tuple[Value, ...]]] = [
            (line, *found) for line, comment in comments.items() if (found := named_options(comment)) is not None
        ]
        self._blocks = _evolve_blocks(comments, len(source.lines))
        self._numbered: dict[tuple[str, ...], int] = {}
        self._scopes: list[tuple[int, int]] = [(1, len(source.lines))]
        self._functions = [
            self._scopes[0],
            *(
                (node.lineno, node.end_lineno or node.lineno)
                for node in (ast.walk(tree) if self._options else ())
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            ),
        ]

    def body(self, statements: list[ast.stmt], parts: tuple[str, ...], *, eligible: bool) -> None:
        """Statements of a module, class, function or block."""
        for statement in statements:
            self._statement(statement, parts, eligible)

    def _statement(self, node: ast.stmt, parts: tuple[str, ...], eligible: bool) -> None:
        if self._off(node.lineno) and isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            return
        if isinstance(node, ast.ClassDef):
            self.body(node.body, (*parts, node.name), eligible=eligible)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._function(node, (*parts, node.name))
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name = target.id if isinstance(target, ast.Name) else getattr(target, "attr", "")
            plain = isinstance(target, ast.Name) and not isinstance(node, ast.AugAssign)
            if node.value is not None:
                self._value(node.value, (*parts, name) if name else parts, bool(name), eligible and plain)
        elif isinstance(node, ast.If) and _is_main_guard(node.test):
            return
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        else:
            for child in ast.iter_child_nodes(node):
                self._inner(child, parts)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, parts: tuple[str, ...]) -> None:
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        defaults: list[tuple[ast.arg, ast.expr | None]] = [
            *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        self._scopes.append((node.lineno, node.end_lineno or node.lineno))
        for argument, default in defaults:
            if default is not None:
                self._value(default, (*parts, argument.arg), True, False)
        self.body(node.body, parts, eligible=False)
        self._scopes.pop()

    def _value(self, node: ast.expr, parts: tuple[str, ...], named: bool, eligible: bool) -> None:
        value = literal(node)
        if value is not None:
            self._leaf(node, value, parts, named, eligible)
        elif isinstance(node, ast.Dict):
            if not self._off(node.lineno) or node.lineno == node.end_lineno:
                for key, item in zip(node.keys, node.values, strict=True):
                    known = isinstance(key, ast.Constant) and isinstance(key.value, str | int)
                    label = (str(key.value),) if known and isinstance(key, ast.Constant) else ()
                    self._value(item, (*parts, *label), known, eligible and known)
        elif isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            within = parts if called in ("dict", "field") else (*parts, called)
            self._inner(node.func, parts)
            for argument in node.args:
                self._value(argument, within, False, False)
            for keyword in node.keywords:
                is_default = called == "field" and keyword.arg == "default"
                label = () if is_default or keyword.arg is None else (keyword.arg,)
                self._value(
                    keyword.value,
                    (*within, *label),
                    keyword.arg is not None,
                    eligible and (called == "dict" or is_default),
                )
        else:
            self._inner(node, parts)

    def _inner(self, node: ast.AST, parts: tuple[str, ...]) -> None:
        """Code: its numbers are bare, its keywords and dict entries named."""
        if isinstance(node, ast.stmt):
            self._statement(node, parts, False)
        elif isinstance(node, ast.JoinedStr):
            return  # positions inside f-strings are not reliable before Python 3.12
        elif isinstance(node, ast.Subscript):
            self._inner(node.value, parts)  # an index is structure
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and literal(node.right) is not None:
            self._inner(node.left, parts)  # so is a power
        elif isinstance(node, ast.Dict | ast.Call):
            self._value(node, parts, False, False)
        elif isinstance(node, ast.expr) and (value := literal(node)) is not None:
            self._leaf(node, value, parts, False, False)
        else:
            for child in ast.iter_child_nodes(node):
                self._inner(child, parts)

    def _leaf(self, node: ast.expr, value: Value, parts: tuple[str, ...], named: bool, eligible: bool) -> None:
        start, end = self._source.span(node)
        line = self._source.line(end)
        if isinstance(value, str) and _PLAIN_STRING.fullmatch(self._source.text[start:end]) is None:
            return  # raw, triple-quoted or joined from several: not ours to rewrite
        inside = any(first < line < last for first, last in self._blocks)
        bare = inside and not eligible and _is_tunable(value, named, parts)
        if not named:
            ordinal = self._numbered[parts] = self._numbered.get(parts, 0) + 1
            parts = (*parts, f"[{ordinal}]") if parts else (f"[{ordinal}]",)
        options = self._listed(parts[-1], value, line) if named and inside else ()
        self.leaves.append(Leaf(parts, value, start, end, line, eligible and inside, bare, options))

    def _listed(self, name: str, value: Value, line: int) -> tuple[Value, ...]:
        for scope in reversed(self._scopes):
            for at, label, values in self._options:
                beside = at == line or (at == line - 1 and self._source.lines[at - 1].lstrip().startswith("#"))
                here = beside if label == "" else label == name and self._scope_of(at) == scope
                if here and len(values) > 1 and any(same(value, one) for one in values):
                    return values
        return ()

    def _scope_of(self, line: int) -> tuple[int, int]:
        """The innermost function around a line, or the module."""
        return min((each for each in self._functions if each[0] <= line <= each[1]), key=lambda each: each[1] - each[0])

    def _off(self, line: int) -> bool:
        said = annotation(self._comments.get(line, ""))
        return said is not None and is_off(said)


def _is_tunable(value: Value, named: bool, parts: tuple[str, ...]) -> bool:
    """Whether a number inside code is worth trying: whole numbers are mostly structure, and so are 0, 1 and tolerances.

    A whole number counts only where it has a name of more than one letter; `n = 26` is what the problem is.
    """
    if isinstance(value, bool | str):
        return False
    if isinstance(value, int):
        return named and value >= 2 and len(parts[-1]) > 1
    return 1e-6 < abs(value) < 1e6 and abs(value) != 1.0


def _is_main_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _evolve_blocks(comments: dict[int, str], lines: int) -> list[tuple[int, int]]:
    return list(_paired(comments)) or [(0, lines + 1)]


def _paired(comments: dict[int, str]) -> Iterator[tuple[int, int]]:
    start: int | None = None
    for line, comment in sorted(comments.items()):
        if "EVOLVE-BLOCK-START" in comment:
            start = line
        elif "EVOLVE-BLOCK-END" in comment and start is not None:
            yield start, line
            start = None
