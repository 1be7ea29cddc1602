"""How many ways out of each sandbox exist, of those that work on this machine without one.

    python benchmarks/escape.py [--start-only]

Prints one JSON line; what happened to each attempt goes to stderr. Targets are inert: see escapes/stage.py.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from escapes.attempts import ATTEMPTS, PRELUDE, Attempt
from escapes.limits import LIMIT_ATTEMPTS
from escapes.stage import stage
from overnight.core.errors import IsolationMissing
from overnight.sandbox import Command, Limits, Mount, Sandbox, open_sandbox
from overnight.sandbox.syscalls import ARCHITECTURES

ENV = {"PATH": "/usr/bin:/bin"}


def attempt(sandbox: Sandbox, each: Attempt, ahead: bool = False) -> bool:
    """Try one attempt on a stage of its own, with `ahead` in an isolation set up before; true if it got out."""
    arch = ARCHITECTURES[platform.machine()]
    numbers = json.dumps({**arch.numbers, "_x32": arch.x32})
    with stage() as target:
        os.environ["OVERNIGHT_ESCAPE_TOKEN"] = target.token
        command = Command(
            (sys.executable, "-I", "-c", PRELUDE + each.code, json.dumps(target.facts()), numbers),
            cwd=str(target.work),
            env=ENV,
            mounts=(
                Mount(target.work, str(target.work), writable=True),
                Mount(target.given, str(target.given)),
            ),
            limits=Limits(wall_s=20, pids=64),
        )
        if ahead:
            sandbox.prepare(command)
        finished = sandbox.run(command)
        said = target.token.encode() in finished.stdout or b"ESCAPED" in finished.stdout
        return said or (each.changed is not None and each.changed(target))


def tries(sandbox: Sandbox) -> dict[str, bool]:
    """Every attempt by name, made in an isolation of the moment and in one set up ahead."""
    control = Attempt("control", "escaped()")
    for ahead in (False, True):
        assert attempt(sandbox, control, ahead), "an attempt would not be noticed"
    return {
        **{each.name: attempt(sandbox, each) or attempt(sandbox, each, ahead=True) for each in ATTEMPTS},
        **{each.name: each.holds(sandbox) is not None for each in LIMIT_ATTEMPTS},
    }


def milliseconds(run: Callable[[], object], times: int) -> list[float]:
    took = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        took.append((time.perf_counter() - started) * 1000)
    return sorted(took)


def spread(sample: list[float]) -> dict[str, float]:
    tenths = statistics.quantiles(sample, n=10)
    return {"min": round(sample[0], 2), "median": round(statistics.median(sample), 2), "p90": round(tenths[-1], 2)}


def start_cost(sandbox: Sandbox, times: int = 200) -> dict[str, object]:
    """What a run of `true` costs over a plain spawn, interleaved; wall clock and our own CPU time."""
    command = Command(("/usr/bin/true",), "/usr", ENV, (), Limits(wall_s=20))

    def plain() -> None:
        subprocess.run(["/usr/bin/true"], stdin=subprocess.DEVNULL, capture_output=True, check=True)

    walls: dict[str, list[float]] = {"plain": [], "sandbox": []}
    cpus: dict[str, list[float]] = {"plain": [], "sandbox": []}
    for _ in range(times):
        for name, run in (("plain", plain), ("sandbox", lambda: sandbox.run(command))):
            before = time.process_time()
            walls[name] += milliseconds(run, 1)
            cpus[name].append((time.process_time() - before) * 1000)
    own = statistics.median(cpus["sandbox"]) - statistics.median(cpus["plain"])
    return {
        "plain_ms": spread(sorted(walls["plain"])),
        "sandbox_ms": spread(sorted(walls["sandbox"])),
        "own_cpu_added_ms": round(own, 2),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start-only", action="store_true", help="measure only what starting costs")
    only_start = parser.parse_args().start_only
    result: dict[str, object] = {"benchmark": "escape"}
    sandboxes: dict[str, Sandbox] = {}
    for name in ("none", "bwrap", "landlock"):
        try:
            sandboxes[name] = open_sandbox(name)
        except IsolationMissing as problem:
            print(f"{name}: {problem}", file=sys.stderr)
    result["start"] = {name: start_cost(sandbox) for name, sandbox in sandboxes.items()}
    if not only_start:
        outcomes = {name: tries(sandbox) for name, sandbox in sandboxes.items()}
        counted = [name for name, out in outcomes["none"].items() if out]
        for name, out in outcomes["none"].items():
            inside = " ".join(f"{kind}={'ESCAPED' if outcomes[kind][name] else 'held'}" for kind in outcomes)
            print(f"{'counted' if out else 'not possible here'}: {name}: {inside}", file=sys.stderr)
        result |= {"attempts": len(outcomes["none"]), "counted": len(counted), "as_root": os.getuid() == 0}
        for name in ("bwrap", "landlock"):
            if name in outcomes:
                got_out = [each for each, out in outcomes[name].items() if out]
                result[f"succeeded_{name}"] = len(got_out)
                result[f"names_{name}"] = got_out
        result["names"] = counted
    print(json.dumps(result))


if __name__ == "__main__":
    main()
