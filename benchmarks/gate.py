"""What a decision costs: 100 rules, provenance, grants; and what a whole call costs, journal included.

    python benchmarks/gate.py

CPU time of the process. The calls differ in tool, path, recipient and text, so that of most the gate remembers
nothing but what is compiled once; three in five name one of fifty paths, as agents do, and what was ruled on a path is
remembered. `yardstick_us` is what adding 100 integers in a loop costs on this machine at this moment (2–3 on a quiet
one): it says how busy the machine was, and `*_per_yardstick` can be compared between machines and moments.
"""

import gc
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from overnight.kernel.canonical import Json
from overnight.kernel.decide import Decider, History, Policy
from overnight.kernel.flow.provenance import Provenance
from overnight.kernel.gate import Gate
from overnight.kernel.grants.grant import Terms
from overnight.kernel.parts import Parts, open_parts
from overnight.kernel.paths import PathRoot
from overnight.kernel.rules.constraint import Constraint
from overnight.kernel.rules.matrix import Layer, Matrix
from overnight.kernel.rules.rule import Rule
from overnight.kernel.session import Principal
from overnight.kernel.tool.catalogue import Catalogue
from overnight.kernel.tool.code import ToolCode
from overnight.kernel.tool.spec import Argument, ResultField, ToolSpec
from overnight.store.database import Database

CALLS = 20_000
AGENT = Principal("worker")


def specs() -> list[ToolSpec]:
    """Twenty tools of five servers: half write, half send."""
    arguments = (
        Argument("path", kind="path"),
        Argument("to", kind="recipient"),
        Argument("body", kind="message", required=False),
    )
    fields = (ResultField("*.id", "system", "id"), ResultField("*.from", "system", "recipient"))
    return [
        ToolSpec(f"s{server}.t{number}", "write" if number % 2 else "egress", arguments, fields=fields)
        for server in range(5)
        for number in range(4)
    ]


def rules() -> list[Rule]:
    """A hundred rules: sixty allow folders per tool, forty deny folders per server."""
    allows = [
        Rule(
            "allow",
            ("worker", "worker/*"),
            tools=(f"s{n % 5}.t{(n // 5) % 4}",),
            arguments={"path": Constraint(under=(f"docs{n}/", "docs/"), not_under=(".env", "secrets/"))},
        )
        for n in range(60)
    ]
    denies = [
        Rule("deny", tools=(f"s{n % 5}.*",), arguments={"path": Constraint(under=(f"private{n}/",))}) for n in range(40)
    ]
    return allows + denies


def workload(seed: int) -> list[tuple[str, Mapping[str, str]]]:
    """Calls that are allowed, asked and denied, for various reasons."""
    chosen = random.Random(seed)
    people = [f"person{number}@example.org" for number in range(40)]
    calls: list[tuple[str, Mapping[str, str]]] = []
    for _ in range(CALLS):
        folder = chosen.choice(
            ["docs", "docs", "docs", f"docs{chosen.randrange(60)}", f"private{chosen.randrange(40)}"]
        )
        words = " ".join(chosen.choice(["the", "report", "of", "June", "is", "ready", "soon"]) for _ in range(25))
        arguments = {"path": f"{folder}/file{chosen.randrange(50)}.md", "to": chosen.choice(people), "body": words}
        calls.append((f"s{chosen.randrange(5)}.t{chosen.randrange(4)}", arguments))
    return calls


def quantiles_us(
    measure: Callable[[str, Mapping[str, str]], object], calls: Sequence[tuple[str, Mapping[str, str]]]
) -> dict[str, float]:
    """Median and 99th percentile of the CPU time of each call, in microseconds."""
    spent = []
    for tool, arguments in calls:
        begin = time.process_time_ns()
        measure(tool, arguments)
        spent.append((time.process_time_ns() - begin) / 1000)
    cut = sorted(spent[len(spent) // 10 :])
    return {"p50_us": round(cut[len(cut) // 2], 1), "p99_us": round(cut[int(len(cut) * 0.99)], 1)}


def rounds(decider: Decider, history: History, calls: Sequence[tuple[str, Mapping[str, str]]]) -> dict[str, Any]:
    """The decision, in twenty rounds with a yardstick before each: over all, and of the round with the lowest median."""
    found = []
    size = len(calls) // 20
    for start in range(0, size * 20, size):
        yardstick = yardstick_us(200)
        measured = quantiles_us(
            lambda tool, arguments: decider.decide(AGENT, history, tool, arguments), calls[start : start + size]
        )
        found.append((measured["p50_us"], measured["p99_us"], round(yardstick, 2)))
    best = min(found)
    return {
        "p50_us": round(statistics.median(item[0] for item in found), 1),
        "p99_us": round(statistics.median(item[1] for item in found), 1),
        "yardstick_us": round(statistics.median(item[2] for item in found), 2),
        "p50_per_yardstick": round(statistics.median(item[0] / item[2] for item in found), 1),
        "p99_per_yardstick": round(statistics.median(item[1] / item[2] for item in found), 1),
        "quietest_round": {"p50_us": best[0], "p99_us": best[1], "yardstick_us": best[2]},
    }


def yardstick_us(times: int = 2000) -> float:
    """CPU microseconds of adding 100 integers in a loop, the median of many."""
    spent = []
    for _ in range(times):
        begin = time.process_time_ns()
        total = 0
        for number in range(100):
            total += number
        spent.append((time.process_time_ns() - begin) / 1000)
    return statistics.median(spent)


def known() -> Provenance:
    """A request that names twenty people and files, and results that name twenty more."""
    names = " ".join(f"person{n}@example.org docs/file{n}.md" for n in range(20))
    provenance = Provenance(f"Write to {names} what happens on June 13")
    result: Json = [{"id": n, "from": f"person{n}@example.org"} for n in range(20, 40)]
    provenance.seen(specs()[0], result, "set-up")
    return provenance


def grants(parts: Parts, policy: str) -> dict[str, dict[str, float]]:
    """Verifying and authorising a token that was seen before, and one that never was."""
    token = parts.grants.mint(AGENT, Terms(("*",), expires_at=time.time() + 3600, policy=policy))
    fresh = [parts.grants.mint(AGENT, Terms(("*",), expires_at=time.time() + 3600)) for _ in range(1000)]
    calls: list[tuple[str, Mapping[str, str]]] = [("s0.t0", {"path": "docs/a", "to": "x@example.org"})] * 5000
    cached = quantiles_us(lambda tool, arguments: parts.grants.authorise(token, tool, arguments, policy), calls)
    waiting = iter(fresh)
    full = quantiles_us(
        lambda tool, arguments: parts.grants.authorise(next(waiting), tool, arguments, policy), calls[:1000]
    )
    return {"grant_cached": cached, "grant_full": full}


def whole_call(root: Path, parts: Parts, policy: Policy, durable: bool, count: int) -> dict[str, float]:
    """Wall clock of `gate.call` from proposal to labelled result, of a tool that does nothing."""
    gate = Gate(root, parts, policy)
    for spec in specs():
        gate.register(ToolCode(spec, lambda arguments: None, durable=durable))
    session = gate.open(AGENT, "write docs/file1.md and tell person1@example.org", on_denied="continue")
    arguments = {"path": "docs/file1.md", "to": "person1@example.org", "body": "done"}
    spent = []
    for number in range(count):
        begin = time.perf_counter()
        outcome = gate.call(session, f"s{number % 5}.t1", arguments)
        spent.append((time.perf_counter() - begin) * 1e6)
        assert outcome.status == "done", outcome
    cut = sorted(spent[count // 10 :])
    return {"p50_us": round(cut[len(cut) // 2], 1), "p99_us": round(cut[int(len(cut) * 0.99)], 1)}


def main() -> None:
    """Measure and print one line."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "workspace"
        (root / "docs").mkdir(parents=True)
        for number in range(0, 50, 2):
            (root / "docs" / f"file{number}.md").write_text("x")
        catalogue = Catalogue()
        for spec in specs():
            catalogue.add(spec)
        policy = Policy(Matrix([Layer(tuple(rules()))]))
        decider = Decider(catalogue, PathRoot(root), policy)
        history = History("root", known())
        calls = workload(1)
        # The workload's own 100,000 objects are no part of what is measured; the collector must not walk through them.
        gc.collect()
        gc.freeze()
        decision = rounds(decider, history, calls)
        verdicts: dict[str, int] = {}
        for tool, arguments in calls:
            found = decider.decide(AGENT, history, tool, arguments)
            verdicts[found.verdict] = verdicts.get(found.verdict, 0) + 1
        parts = open_parts(
            root, Database(root / ".overnight" / "overnight.db"), config=Path(folder) / "config", burst=None
        )
        result = {
            "benchmark": "gate",
            "rules": len(rules()),
            "calls": CALLS,
            "verdicts": verdicts,
            "decision": decision,
            **grants(parts, policy.hash),
            "call_not_durable": whole_call(root, parts, policy, False, 3000),
            "call_durable": whole_call(root, parts, policy, True, 300),
            "yardstick_us": round(yardstick_us(), 2),
        }
        parts.journal.close()
        parts.database.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
