"""What grants and the ledger cost each call.

    python benchmarks/records.py [--calls N]

Prints one JSON line: microseconds of wall clock (p50, p99) and of CPU time (mean) for a call.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from overnight.kernel.canonical import Json
from overnight.kernel.grants.grant import Bound, Grants, Terms, attenuate
from overnight.kernel.keys import SigningKey
from overnight.kernel.ledger.ledger import Ledger, Reservation
from overnight.kernel.ledger.limits import Limit, Subject
from overnight.kernel.session import Principal
from overnight.store.database import Database

POLICY = "a" * 64


def cost_us(calls: int, one: Callable[[int], object]) -> dict[str, float]:
    taken = []
    before = time.process_time()
    for number in range(calls):
        began = time.perf_counter()
        one(number)
        taken.append((time.perf_counter() - began) * 1e6)
    cpu = (time.process_time() - before) / calls * 1e6
    ranks = statistics.quantiles(taken, n=100)
    return {"p50": round(ranks[49], 1), "p99": round(ranks[98], 1), "cpu_mean": round(cpu, 1)}


def grants(database: Database, key: SigningKey, calls: int) -> dict[str, object]:
    issuer = Grants(database, key)
    token = issuer.mint(
        Principal("researcher"), Terms(("files.*", "web.get"), policy=POLICY, expires_at=time.time() + 3600)
    )
    child = attenuate(token, issuer.public, Terms(("files.read",)), child="scout")
    bounded = attenuate(token, issuer.public, Terms(("files.*",), (Bound("path", "under", ("src",)),)), child="scout")
    arguments: dict[str, Json] = {"path": "src/a.py", "limit": 10}

    def authorise(which: str) -> Callable[[int], object]:
        return lambda _: issuer.authorise(which, "files.read", arguments, POLICY)

    def another(number: int) -> object:
        return issuer.authorise(bounded, "files.read", {"path": f"src/{number}.py"}, POLICY)

    def anew(_: int) -> object:
        return Grants(database, key).authorise(child, "files.read", arguments, POLICY)

    for which in (child, bounded):
        issuer.authorise(which, "files.read", arguments, POLICY)
    return {
        "cached": cost_us(calls, authorise(child)),
        "cached, with a bound on an argument": cost_us(calls, authorise(bounded)),
        "token cached, arguments never seen": cost_us(calls, another),
        "full verification": cost_us(calls, anew),
    }


def ledger(database: Database, calls: int) -> dict[str, object]:
    subject = Subject("researcher/scout", "red", tool="mail.send", family="mail")
    results: dict[str, object] = {}
    for label, limits in {
        "no limit": [],
        "calls a minute per tenant": [Limit("calls", 1e9, "minute", ("tenant",))],
        "money in total, calls a minute per agent and its parent": [
            Limit("usd", 1e6),
            Limit("calls", 1e9, "minute", ("agent",)),
        ],
        "the same and concurrency": [
            Limit("usd", 1e6),
            Limit("calls", 1e9, "minute", ("agent",)),
            Limit("concurrent", 100),
        ],
    }.items():
        counted = Ledger(database, limits)

        def call(_: int, counted: Ledger = counted) -> None:
            reserved = counted.reserve(subject, {"usd": 0.01, "calls": 1})
            assert isinstance(reserved, Reservation)
            counted.settle(reserved, {"usd": 0.005})

        results[label] = cost_us(calls, call)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000, help="calls of each kind (default 2000)")
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        database = Database(folder / "data" / "workspace.db")
        key = SigningKey.open(folder / "config", "grants")
        print("grants", file=sys.stderr)
        granted = grants(database, key, calls)
        print("ledger", file=sys.stderr)
        counted = ledger(database, calls)
        database.close()
    print(
        json.dumps(
            {
                "benchmark": "records",
                "grant_us": granted,
                "reserve_and_settle_us": counted,
                "load_average": round(os.getloadavg()[0], 1),
                "cpus": os.cpu_count(),
            }
        )
    )


if __name__ == "__main__":
    main()
