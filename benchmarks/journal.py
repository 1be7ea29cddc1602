"""What the journal costs: durable appends by group commit, and verification.

    python benchmarks/journal.py [--entries N]

Prints one JSON line. Each figure is the median of the repetitions, with the lowest and highest beside it; the CPU time
an entry costs is given too, as it says on a busy machine what the rate would be on a free one. An entry is what the
gate writes for a call: about 400 bytes with labels, reasons and policy hash.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from overnight.core.ids import new_id
from overnight.kernel.journal.journal import Draft, Journal
from overnight.store.database import Database

REPETITIONS = 5


def draft(action: str, number: int) -> Draft:
    return Draft(
        "decided",
        {
            "decision": "allow",
            "rule": "AGENTS.md:12",
            "reasons": [["allowed", "the rule allows it"]],
            "origins": {"path": ["user", "public", "your request"], "limit": ["system", "public", f"entry {number}"]},
            "policy": "a" * 64,
            "version": "b" * 64,
        },
        action,
        "ses_018bcfe5680000000000000a",
        "default",
        "researcher/scout",
        "files.read",
    )


def spread(values: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(values)), "low": round(min(values)), "high": round(max(values))}


def threads(count: int, work: Callable[[int], None]) -> float:
    running = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    began = time.perf_counter()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return time.perf_counter() - began


def acknowledged(journal: Journal, callers: int, entries: int, at_once: int) -> float:
    """Entries a second when every caller waits for the disk before its next append."""
    rounds = max(1, entries // (callers * at_once))

    def work(_: int) -> None:
        for number in range(rounds):
            action = new_id("act")
            journal.append(*(draft(action, number) for _ in range(at_once)))

    return callers * rounds * at_once / threads(callers, work)


def streamed(journal: Journal, entries: int) -> float:
    """Entries a second of one caller that hands in all and then waits for the disk once."""
    began = time.perf_counter()
    for number in range(entries):
        journal.append(draft(new_id("act"), number), durable=False)
    journal.sync()
    return entries / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=6000, help="entries a repetition (default 6000)")
    entries = parser.parse_args().entries
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_DIR")) as name:
        folder = Path(name)
        database = Database(folder / "workspace" / ".overnight" / "overnight.db")
        journal = Journal.open(database, folder / "config")
        flushes = []
        for _ in range(50):
            began = time.perf_counter()
            journal.append(draft(new_id("act"), 0))
            flushes.append((time.perf_counter() - began) * 1e6)
        rates: dict[str, list[float]] = {}
        cpu_us: dict[str, list[float]] = {}
        for repetition in range(REPETITIONS):
            print(f"repetition {repetition + 1} of {REPETITIONS}", file=sys.stderr)
            for label, callers, at_once in [
                ("1 caller, 1 entry", 1, 1),
                ("32 callers, 3 entries (what a call writes ahead)", 32, 3),
                ("64 callers, 1 entry", 64, 1),
                ("128 callers, 3 entries", 128, 3),
            ]:
                few = min(entries, 300) if callers == 1 else entries
                before = time.process_time()
                rates.setdefault(label, []).append(acknowledged(journal, callers, few, at_once))
                cpu_us.setdefault(label, []).append((time.process_time() - before) / few * 1e6)
            before = time.process_time()
            rates.setdefault("1 caller, streamed", []).append(streamed(journal, entries))
            cpu_us.setdefault("1 caller, streamed", []).append((time.process_time() - before) / entries * 1e6)
        verified = []
        for _ in range(REPETITIONS):
            began, before = time.perf_counter(), time.process_time()
            result = journal.verify()
            verified.append(result.entries / (time.perf_counter() - began))
            cpu_us.setdefault("verify", []).append((time.process_time() - before) / result.entries * 1e6)
            assert result.ok, result.problem
        print(
            json.dumps(
                {
                    "benchmark": "journal",
                    "one_durable_append_us": spread(flushes),
                    "durable_entries_per_s": {label: spread(values) for label, values in rates.items()},
                    "verified_per_s": spread(verified),
                    "cpu_us_per_entry": {label: spread(values) for label, values in cpu_us.items()},
                    "entries": result.entries,
                    "load_average": round(os.getloadavg()[0], 1),
                    "cpus": os.cpu_count(),
                }
            )
        )
        journal.close()


if __name__ == "__main__":
    main()
