"""The process table, where no control group says who belongs to whom."""

import os


def parents() -> dict[int, int]:
    """Parent of every process that we can see."""
    table = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 (one short list of names; Path objects would triple the cost)
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    table[int(name)] = int(stat.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
    return table


def descendants(pid: int) -> list[int]:
    """Children of `pid`, their children and so on, nearest first; without those whose parent has died."""
    children: dict[int, list[int]] = {}
    for child, parent in parents().items():
        children.setdefault(parent, []).append(child)
    found = list(children.get(pid, ()))
    for child in found:
        found.extend(children.get(child, ()))
    return found
