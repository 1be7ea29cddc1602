"""Print what each direct dependency costs: its own installed size, that with what it alone brings in, and its import.

Usage: python tools/dependencies.py
"""

import re
import subprocess
import sys
from importlib import metadata

MODULES = {
    "pyyaml": "yaml",
    "biscuit-python": "biscuit_auth",
    "cryptography": "cryptography.hazmat.primitives.asymmetric.ed25519",
}
TIMES = 5


def name_of(requirement: str) -> str:
    """The distribution a requirement names."""
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return found[0].lower().replace("_", "-")


def required(distribution: str) -> list[str]:
    """What a distribution needs without extras."""
    try:
        needs = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return []
    return [name_of(need) for need in needs if "extra ==" not in need]


def closure(distribution: str) -> set[str]:
    """It and all below it that is installed."""
    found: set[str] = set()
    waiting = [distribution]
    while waiting:
        item = waiting.pop()
        if item in found:
            continue
        try:
            metadata.distribution(item)
        except metadata.PackageNotFoundError:
            continue
        found.add(item)
        waiting += required(item)
    return found


def size_mb(distribution: str) -> float:
    """Installed size of its own files."""
    files = metadata.files(distribution) or []
    return sum(path.stat().st_size for file in files if (path := file.locate()).is_file()) / 1e6  # type: ignore[attr-defined]


def import_ms(module: str) -> float:
    """The fastest of a few fresh imports, less starting Python."""

    def once(code: str) -> float:
        script = f"import time; t = time.perf_counter(); {code}; print((time.perf_counter() - t) * 1000)"
        return float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)

    return min(once(f"import {module}") for _ in range(TIMES))


def main() -> None:
    """Print one line for each, and the whole."""
    direct = sorted(required("overnight"))
    print(f"{'package':<16} {'own MB':>8} {'with its own MB':>16} {'import ms':>10}")
    everything: set[str] = set()
    for item in direct:
        others = set().union(*(closure(other) for other in direct if other != item))
        below = closure(item)
        everything |= below
        together = sum(size_mb(one) for one in {item, *(below - others)})
        module = MODULES.get(item, item.replace("-", "_"))
        print(f"{item:<16} {size_mb(item):>8.1f} {together:>16.1f} {import_ms(module):>10.0f}")
    print(f"all {len(everything)} packages: {sum(map(size_mb, everything)):.0f} MB")


if __name__ == "__main__":
    main()
