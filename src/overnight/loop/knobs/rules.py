"""Which scalars are knobs, and the two doors: find them in a file, set them in a file."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from overnight.core.errors import UsageError
from overnight.loop.knobs.annotation import Range, annotation, is_off, named_options, parse_annotation
from overnight.loop.knobs.json_file import scan_json, write_json
from overnight.loop.knobs.knob import Knob, Leaf, Scan, Source, Text, Value, decode, fits, same, unusable
from overnight.loop.knobs.python_check import Edit, unchanged_but
from overnight.loop.knobs.python_file import decode_python, scan_python, write_python
from overnight.loop.knobs.ranges import infer_range
from overnight.loop.knobs.toml_file import scan_toml, write_toml
from overnight.loop.knobs.yaml_file import scan_yaml, write_yaml


@dataclass(frozen=True)
class _Format:
    decode: Callable[[bytes], Text | None]
    scan: Callable[[str], Scan | None]
    write: Callable[[Value, str], str]


_FORMATS = {
    ".py": _Format(decode_python, scan_python, write_python),
    ".toml": _Format(decode, scan_toml, write_toml),
    ".json": _Format(decode, scan_json, write_json),
    ".yaml": _Format(decode, scan_yaml, write_yaml),
    ".yml": _Format(decode, scan_yaml, write_yaml),
}


def find_knobs(path: str, data: bytes) -> list[Knob]:
    """The knobs of one file, in the order in which they stand; none in an unknown or unreadable format.

    Raises:
        UsageError: a `# knob:` comment is malformed or ambiguous, or contradicts its value.
    """
    return [knob for knob in _all_knobs(path, data) if knob.source != "literal"]


def find_all_knobs(files: Mapping[str, bytes]) -> list[Knob]:
    """The knobs of a set of files; if there is none at all, the numbers inside their code (source `literal`).

    Raises:
        UsageError: as `find_knobs`.
    """
    found = [knob for path in sorted(files) for knob in _all_knobs(path, files[path])]
    return [knob for knob in found if knob.source != "literal"] or found


def set_knobs(path: str, data: bytes, values: Mapping[str, Value]) -> bytes:
    """`data` with the knobs of these ids set; every other byte stays. The result is parsed again to make sure.

    Values need not lie in the knob's range, but must be of the type of the constant.

    Raises:
        UsageError: an id is not a knob of this file, a value has the wrong type, or it cannot be written safely.
    """
    wanted = {knob.id: knob for knob in _all_knobs(path, data) if knob.id in values}
    for knob_id in values:
        if knob_id not in wanted:
            raise UsageError(f"{path} has no knob {knob_id!r}", hint="`overnight arena check` lists the knobs it finds")
    form = _FORMATS[PurePosixPath(path).suffix.lower()]
    decoded = form.decode(data)
    assert decoded is not None, "it was read when its knobs were found"
    after = before = decoded.text
    edits = []
    for knob in sorted(wanted.values(), key=lambda knob: knob.span, reverse=True):
        value = _typed(knob, values[knob.id])
        if not same(knob.value, value):
            start, end = knob.span
            edits.append(Edit(start, end, value, form.write(value, before[start:end])))
            after = after[:start] + edits[-1].text + after[end:]
    if not edits:
        return data
    if not _verified(path, before, after, edits):
        raise UsageError(
            f"{path}: setting {', '.join(values)} would change more than that", hint="simplify these lines"
        )
    return decoded.encode(after)


def _typed(knob: Knob, value: Value) -> Value:
    if knob.kind == "float" and type(value) in (int, float):
        value = float(value)
    if type(value) is not type(knob.value):
        raise unusable(knob.id, value, f"it is {knob.value!r} now")
    if isinstance(value, float) and not math.isfinite(value):
        raise unusable(knob.id, value, "it is not finite")
    return value


def _verified(path: str, before: str, after: str, edits: list[Edit]) -> bool:
    suffix = PurePosixPath(path).suffix.lower()
    if suffix == ".py":
        return unchanged_but(before, edits)
    old, new = _FORMATS[suffix].scan(before), _FORMATS[suffix].scan(after)
    if old is None or new is None or len(old.leaves) != len(new.leaves):
        return False
    wanted = {edit.start: edit.value for edit in edits}
    return all(
        one.parts == other.parts
        and (same(other.value, wanted[one.start]) if one.start in wanted else same(one.value, other.value))
        for one, other in zip(old.leaves, new.leaves, strict=True)
    )


# One entry serves every proposal until the next keep; 64 is several artifacts' worth of files.
@lru_cache(maxsize=64)
def _all_knobs(path: str, data: bytes) -> tuple[Knob, ...]:
    form = _FORMATS.get(PurePosixPath(path).suffix.lower())
    decoded = form.decode(data) if form else None
    scan = form.scan(decoded.text) if form and decoded else None
    if scan is None:
        return ()
    by_line: dict[int, list[Leaf]] = {}
    for leaf in scan.leaves:
        by_line.setdefault(leaf.line, []).append(leaf)
    said = {line: text for line, comment in scan.comments.items() if (text := annotation(comment)) is not None}
    for line, text in said.items():
        named = _targets(by_line.get(line, []))
        if len(named) != 1 and not is_off(text):
            problem = "stands behind no constant" if not named else f"could mean any of {len(named)} constants"
            raise UsageError(f"{path}:{line}: 'knob: {text}' {problem}", hint="put it on the line of one constant")
    knobs: list[Knob] = []
    seen: dict[str, int] = {}
    for leaf in scan.leaves:
        name = _dotted(leaf.parts)
        seen[name] = seen.get(name, 0) + 1
        knob_id = f"{path}:{name}" if seen[name] == 1 else f"{path}:{name}#{seen[name]}"
        text = said.get(leaf.line)
        if leaf.value is None or (text is not None and is_off(text)):
            continue
        annotated = text is not None and leaf in _targets(by_line[leaf.line])
        chosen = _range(leaf, text if annotated else None, scan.comments, f"{path}:{leaf.line}")
        if chosen is not None:
            source: Source = "annotated" if annotated else "literal" if leaf.bare and not leaf.options else "inferred"
            knobs.append(_knob(knob_id, path, leaf, chosen, source))
    return tuple(knobs)


def _targets(leaves: list[Leaf]) -> list[Leaf]:
    """What a comment on this line can mean: its named constants, or, if it has none, a number that stands alone."""
    return [leaf for leaf in leaves if leaf.value is not None and not leaf.parts[-1].startswith("[")] or leaves


def _range(leaf: Leaf, text: str | None, comments: Mapping[int, str], where: str) -> Range | None:
    assert leaf.value is not None
    if text is not None:
        return parse_annotation(text, leaf.value, where)
    options = leaf.options or _trailing_options(leaf, comments)
    if options:
        return Range("bool" if all(isinstance(one, bool) for one in options) else "choice", choices=options)
    return infer_range(leaf.parts[-1], leaf.value) if leaf.eligible or leaf.bare else None


def _trailing_options(leaf: Leaf, comments: Mapping[int, str]) -> tuple[Value, ...]:
    found = named_options(comments.get(leaf.line, "")) if leaf.eligible else None
    if found is None or found[0] not in ("", leaf.parts[-1]) or not any(same(leaf.value, one) for one in found[1]):
        return ()
    return found[1]


def _knob(knob_id: str, path: str, leaf: Leaf, chosen: Range, source: Source) -> Knob:
    assert leaf.value is not None
    value = float(leaf.value) if chosen.kind == "float" else leaf.value
    knob = Knob(
        knob_id,
        path,
        value,
        chosen.kind,
        chosen.low,
        chosen.high,
        chosen.scale,
        chosen.choices,
        source,
        (leaf.start, leaf.end),
        leaf.line,
    )
    assert fits(knob, value), f"{knob_id} = {value!r} outside its own range"
    return knob


def _dotted(parts: tuple[str, ...]) -> str:
    text = ""
    for part in parts:
        shown = part if part.replace("-", "_").isidentifier() or part.startswith("[") or part.isdigit() else repr(part)
        text += shown if not text or shown.startswith("[") else f".{shown}"
    return text
