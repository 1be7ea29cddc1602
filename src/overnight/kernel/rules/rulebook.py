"""From the fenced `permissions` blocks of AGENTS.md files to layers of rules, with the line of every mistake.

    ```permissions
    [[rule]]
    agents = ["researcher", "researcher/*"]
    tools = ["files.read"]
    arguments.path = { under = ["docs/"], not_under = [".env"] }
    decision = "allow"
    ```

`[[role]]`, `[[combination]]`, `[[tool]]`, `[plan]` and the tables of `rules.settings` stand in the same blocks.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal, TypeVar, get_args

from overnight.core.errors import SettingsError, UsageError
from overnight.core.schema import build, parsed_by, suggest
from overnight.kernel.canonical import Json
from overnight.kernel.ledger.burst import Bursts
from overnight.kernel.ledger.limits import Limit
from overnight.kernel.masking.hiding import HidingRule
from overnight.kernel.rollback.compensation import UndoRule
from overnight.kernel.rules.checks import check_names, check_patterns, check_reachable
from overnight.kernel.rules.combination import DAY_S, Combination, Count, Scope, Step
from overnight.kernel.rules.constraint import Constraint, check_domain
from overnight.kernel.rules.matrix import Layer, Role, Rule, RuleVerdict
from overnight.kernel.rules.settings import (
    ApprovalsText,
    BreakerText,
    LimitText,
    MaskingText,
    RuleSettings,
    UndoText,
    bursts,
    hiding_rule,
    limit,
    two_approvers,
    window_s,
)
from overnight.kernel.rules.toml_lines import TableLines, table_lines
from overnight.kernel.tool.spec import Effect, ToolSpec
from overnight.kernel.tool.text import ToolText, declared_tool

_T = TypeVar("_T")
_TABLES = ("rule", "role", "combination", "tool", "plan", "masking", "limit", "undo", "breaker", "approvals")
_ROOT_ONLY = ("role", "plan", "masking", "limit", "undo", "breaker", "approvals")
# Every fence that somebody may have meant as one: ```toml permissions, ```Permission, ```{permissions}.
_MEANT = re.compile(r"\bpermissions?\b", re.IGNORECASE)
_OPENING = re.compile(r"^(?P<fence>`{3,}|~{3,})\s*permissions\s*$")


def _constraints(raw: Any) -> dict[str, Constraint]:
    if not isinstance(raw, Mapping):
        raise UsageError(f"expected a table of arguments, got {raw!r}", hint="arguments.path = { under = [...] }")
    return {str(name): _constraint(str(name), value) for name, value in raw.items()}


def _constraint(name: str, raw: Any) -> Constraint:
    if not isinstance(raw, Mapping) or not raw:
        raise UsageError(f"{name}: expected conditions, got {raw!r}", hint=f"arguments.{name} = {{ one_of = [...] }}")
    made = build(Constraint, raw, f"arguments.{name}", SettingsError)
    for domain in (*made.domain, *made.not_domain):
        check_domain(domain)
    for path in (*made.under, *made.not_under):
        if not path or ".." in path.split("/") or path.startswith("~") or "*" in path:
            raise UsageError(f"{path!r} is not a folder or file", hint="write paths from the workspace's root, no '..'")
    return made


def _narrowing(raw: Any) -> dict[str, Json]:
    if not isinstance(raw, Mapping) or set(raw) != {"arguments"} or not isinstance(raw["arguments"], Mapping):
        raise UsageError(f"expected arguments, got {raw!r}", hint="narrow = { arguments.limit = 100 }")
    return dict(raw["arguments"])


def _step(raw: Any) -> Step:
    if not isinstance(raw, Mapping) or not raw:
        raise UsageError(f"expected which calls are meant, got {raw!r}", hint='then = { effects = ["egress"] }')
    text = build(_StepText, raw, "step", SettingsError)
    return Step(text.tools, text.families, text.effects, text.content, text.arguments)


def _steps(raw: Any) -> tuple[Step, ...]:
    if not isinstance(raw, list) or not raw:
        raise UsageError(f"expected a list of steps, got {raw!r}", hint='after = [{ content = ["web"] }]')
    return tuple(_step(item) for item in raw)


def _rights(raw: Any) -> dict[str, tuple[Effect, ...]]:
    if not isinstance(raw, Mapping) or not raw:
        raise UsageError(f"expected rights per tool family, got {raw!r}", hint='rights.files = ["read"]')
    rights = {}
    for family, effects in raw.items():
        bad = [e for e in effects if e not in get_args(Effect)] if isinstance(effects, list) else [effects]
        if bad:
            raise UsageError(f"{bad[0]!r} is not an effect", hint=f"known: {', '.join(get_args(Effect))}")
        rights[str(family)] = tuple(effects)
    return rights


@dataclass(frozen=True)
class _StepText:
    tools: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    content: tuple[str, ...] = ()
    arguments: Mapping[str, Constraint] = field(default_factory=dict, metadata=parsed_by(_constraints))


@dataclass(frozen=True)
class _RuleText:
    decision: RuleVerdict
    agents: tuple[str, ...] | None = None
    tenants: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    arguments: Mapping[str, Constraint] = field(default_factory=dict, metadata=parsed_by(_constraints))
    narrow: Mapping[str, Json] = field(default_factory=dict, metadata=parsed_by(_narrowing))
    why: str = ""


@dataclass(frozen=True)
class _RoleText:
    name: str
    agents: tuple[str, ...]
    rights: Mapping[str, tuple[Effect, ...]] = field(metadata=parsed_by(_rights))
    tenants: tuple[str, ...] = ()


@dataclass(frozen=True)
class _CountText:
    of: Step = field(metadata=parsed_by(_step))
    more_than: int
    servers: int = 1


@dataclass(frozen=True)
class _CombinationText:
    name: str
    then: Step | None = field(default=None, metadata=parsed_by(_step))
    after: tuple[Step, ...] = field(default=(), metadata=parsed_by(_steps))
    count: _CountText | None = None
    decision: Literal["deny", "ask"] = "deny"
    scope: Scope = "agent"
    within: float = field(default=DAY_S, metadata=parsed_by(window_s))
    fragments: float | None = field(default=None, metadata=parsed_by(window_s))


@dataclass(frozen=True)
class Rulebook:
    """What one AGENTS.md file says.

    Attributes:
        layer: its rules and roles.
        combinations: its rules over history; they hold everywhere.
        tools: its declarations of tools.
        plan_words: `[plan]`: words of a request that plan a tool; empty means no planner.
        settings: `[[masking]]`, `[[limit]]`, `[breaker]`, `[approvals]`; only the root file has them.
    """

    layer: Layer
    combinations: tuple[Combination, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    plan_words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    settings: RuleSettings = field(default_factory=RuleSettings)


def parse(text: str, source: str, *, agent: str = "", folder: str = "") -> Rulebook:
    """The rules in the permissions blocks of a Markdown file.

    Args:
        text: the file.
        source: its name in messages, reasons and the journal.
        agent: set for an agent's own file: it narrows this agent only, and may not declare roles.
        folder: set for a nested file: it narrows calls on paths below, and may not declare roles.

    Raises:
        SettingsError: with `source:line`: bad TOML, unknown keys, misspelt decisions, rules that can never match.
    """
    rules: list[Rule] = []
    roles: list[Role] = []
    combinations: list[Combination] = []
    tools: list[ToolSpec] = []
    words: dict[str, tuple[str, ...]] = {}
    hidden: list[HidingRule] = []
    limits: list[Limit] = []
    undo: dict[str, UndoRule] = {}
    breaker: list[tuple[BreakerText, str]] = []
    approvals: list[tuple[ApprovalsText, str]] = []
    for block, first_line in blocks(text, source):
        data = _toml(block, source, first_line)
        tables = table_lines(block)
        for key in data:
            line = first_line + tables[""][0].keys.get(key, tables.get(key, [TableLines(1)])[0].line) - 1
            if key not in _TABLES:
                raise SettingsError(f"{source}:{line}: unknown table {key!r}", hint=suggest(key, _TABLES))
            if key in _ROOT_ONLY and (agent or folder):
                raise SettingsError(
                    f"{source}:{line}: a nested file cannot set {key!r}", hint="move it to the root AGENTS.md"
                )
        for text_, at in _tables(_RuleText, "rule", data, tables, source, first_line):
            rules.append(_rule(text_, at))
        for role_text, at in _tables(_RoleText, "role", data, tables, source, first_line):
            roles.append(Role(role_text.name, role_text.agents, role_text.tenants, role_text.rights, at))
        for combo, at in _tables(_CombinationText, "combination", data, tables, source, first_line):
            combinations.append(_combination(combo, at))
        for tool, at in _tables(ToolText, "tool", data, tables, source, first_line):
            tools.append(declared_tool(tool, at))
        for masking, at in _tables(MaskingText, "masking", data, tables, source, first_line):
            hidden.append(hiding_rule(masking, at))
        for amount, at in _tables(LimitText, "limit", data, tables, source, first_line):
            limits.append(limit(amount, at))
        for undo_text, at in _tables(UndoText, "undo", data, tables, source, first_line):
            if undo_text.tool in undo:
                first = undo[undo_text.tool].where
                raise SettingsError(f"{at}: {undo_text.tool} is undone at {first} already", hint="write it once")
            undo[undo_text.tool] = UndoRule(undo_text.tool, undo_text.with_, undo_text.arguments, at)
        breaker += _table(BreakerText, "breaker", data, tables, source, first_line)
        approvals += _table(ApprovalsText, "approvals", data, tables, source, first_line)
        words.update(_plan(data.get("plan", {}), source, first_line))
    for rule in rules:
        check_patterns(rule)
    for role in roles:
        check_patterns(role)
    check_names(combinations)
    check_reachable(rules, {role.name for role in roles} if not (agent or folder) else None)
    layer = Layer(tuple(rules), tuple(roles), agent, str(PurePosixPath(folder)) if folder else "", source)
    for name, found in (("breaker", breaker), ("approvals", approvals)):
        if len(found) > 1:
            raise SettingsError(f"{found[1][1]}: [{name}] stands at {found[0][1]} already", hint="write it once")
    settings = RuleSettings(
        tuple(hidden),
        tuple(limits),
        bursts(*breaker[0]) if breaker else Bursts(),
        breaker[0][0].fragments if breaker else None,
        two_approvers(*approvals[0]) if approvals else False,
        undo,
        approvals[0][0].ask_irreversible if approvals else "destructive",
    )
    return Rulebook(layer, tuple(combinations), tuple(tools), words, settings)


def blocks(text: str, source: str) -> list[tuple[str, int]]:
    """The permissions blocks of a Markdown file and the line on which each one's content starts.

    Raises:
        SettingsError: a block is not closed: what follows would be dropped or swallowed.
    """
    found: list[tuple[str, int]] = []
    fence, start, inside = "", 0, False
    kept: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if fence:
            if stripped.startswith(fence) and not stripped.strip(fence[0]):
                if inside:
                    found.append(("\n".join(kept) + "\n", start))
                fence, inside = "", False
            elif inside:
                kept.append(line)
            continue
        opening = re.match(r"(`{3,}|~{3,})", stripped)
        if opening is not None:
            fence, start, kept = opening.group(), number + 1, []
            inside = _OPENING.match(stripped) is not None
            if not inside and _MEANT.search(stripped) is not None:
                raise SettingsError(
                    f"{source}:{number}: {stripped!r} is not a permissions block", hint="write ```permissions"
                )
    if inside:
        raise SettingsError(f"{source}:{start - 1}: the permissions block is not closed", hint=f"add a line {fence}")
    return found


def _toml(block: str, source: str, first_line: int) -> dict[str, Any]:
    try:
        return tomllib.loads(block)
    except RecursionError:
        raise SettingsError(f"{source}:{first_line}: nested too deeply", hint="write it flat") from None
    except tomllib.TOMLDecodeError as problem:
        at = re.search(r"\(at line (\d+), column (\d+)\)", str(problem))
        line = first_line + int(at.group(1)) - 1 if at else first_line + block.count("\n") - 1
        message = re.sub(r" \(at .*\)$", "", str(problem))
        raise SettingsError(f"{source}:{line}: not valid TOML: {message}", hint="see https://toml.io") from None


def _tables(
    cls: type[_T], name: str, data: Mapping[str, Any], tables: Mapping[str, list[TableLines]], source: str, first: int
) -> list[tuple[_T, str]]:
    raw = data.get(name, [])
    lines = tables.get(name, [])
    if not isinstance(raw, list) or len(raw) != len(lines):
        raise SettingsError(f"{source}:{first}: write each {name} as its own [[{name}]] table", hint=f"[[{name}]]")
    built = []
    for table, at in zip(raw, lines, strict=True):
        where = f"{source}:{first + at.line - 1}"
        try:
            built.append((build(cls, table, where), where))
        except UsageError as problem:
            line = first + _guilty(problem.message, table, at) - 1
            message = problem.message.replace(where, f"{source}:{line}", 1)
            raise SettingsError(message, hint=problem.hint) from None
    return built


def _table(
    cls: type[_T], name: str, data: Mapping[str, Any], tables: Mapping[str, list[TableLines]], source: str, first: int
) -> list[tuple[_T, str]]:
    """A table that stands once, as a list of none or one."""
    if name not in data:
        return []
    parts = [lines for key, found in tables.items() if key == name or key.startswith(f"{name}.") for lines in found]
    keys = {key: line for part in parts for key, line in part.keys.items()}
    place = TableLines(min((part.line for part in parts), default=tables[""][0].key(name)), keys or tables[""][0].keys)
    return _tables(cls, name, {name: [data[name]]}, {name: [place]}, source, first)


def _guilty(message: str, table: Mapping[str, Any], lines: TableLines) -> int:
    """The line of the key that a message of the schema speaks about: the most deeply nested one it names."""
    names = re.findall(r"unknown key '([^']+)'", message)
    rest = message.split(": ")
    names += [part for text in rest[1:] for part in text.split(".") if part in lines.keys]
    return next((lines.keys[name] for name in names if name in lines.keys), lines.line)


def _rule(text: _RuleText, at: str) -> Rule:
    if text.narrow and text.decision != "allow":
        raise SettingsError(f"{at}: only an allow rule can narrow", hint='set decision = "allow"')
    if not (text.tools or text.families or text.effects):
        raise SettingsError(f"{at}: the rule names no tools", hint='add tools = ["server.tool"], or tools = ["*"]')
    for name, constraint in text.arguments.items():
        problem = constraint.problem()
        if problem:
            raise SettingsError(f"{at}: arguments.{name} can never match: {problem}", hint="change one of them")
        if text.decision != "allow" and (constraint.max_length is not None or constraint.carries is not None):
            raise SettingsError(
                f"{at}: arguments.{name}: max_length and carries say what an allow rule lets through",
                hint="remove it from this rule",
            )
    # A rule for roles alone is about whoever holds them; one that names nobody is about everybody.
    agents = ("*",) if text.agents is None else text.agents
    return Rule(
        text.decision,
        agents,
        text.tenants,
        text.roles,
        text.tools,
        text.families,
        text.effects,
        text.arguments,
        text.narrow,
        text.why,
        at,
    )


def _combination(text: _CombinationText, at: str) -> Combination:
    if (text.count is None) == (not text.after):
        raise SettingsError(
            f"{at}: a combination has either 'after' and 'then', or 'count'", hint="give exactly one of the two"
        )
    if text.count is None and text.then is None:
        raise SettingsError(
            f"{at}: 'then' is missing: which calls are stopped?", hint='then = { effects = ["egress"] }'
        )
    if text.count is not None and text.then is not None:
        raise SettingsError(f"{at}: 'count' stops what it counts", hint="remove 'then'")
    count = Count(text.count.of, text.count.more_than, text.count.servers) if text.count else None
    then = text.then if text.then is not None else (count.of if count else Step())
    return Combination(text.name, then, text.after, count, text.decision, text.scope, text.within, text.fragments, at)


def _plan(raw: Any, source: str, first_line: int) -> dict[str, tuple[str, ...]]:
    if not isinstance(raw, Mapping):
        raise SettingsError(f"{source}:{first_line}: [plan] is a table", hint='"mail.send" = ["send", "mail"]')
    for tool, listed in raw.items():
        if not isinstance(listed, list) or not all(isinstance(word, str) and word for word in listed):
            raise SettingsError(
                f"{source}:{first_line}: [plan] {tool}: expected words", hint=f'"{tool}" = ["send", "write"]'
            )
    return {str(tool): tuple(listed) for tool, listed in raw.items()}


def narrowest(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Layers in the order in which they narrow: the root's, then folders from outside in, then agents."""
    return tuple(sorted(layers, key=lambda layer: (bool(layer.folder or layer.agent), layer.folder, layer.agent)))
