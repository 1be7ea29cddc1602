"""The live view of a run on a terminal."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from overnight.core.clock import format_duration
from overnight.core.escape import visible
from overnight.loop.progress import Progress, Watch
from overnight.loop.record.findings import number, signed

SHOWN = 12
_STYLES = {"keep": "bold green", "discard": "dim", "crash": "red", "timeout": "red", "rejected": "yellow"}
_PHASES = {
    "baseline": "measuring the baseline",
    "experiments": "experimenting",
    "final": "measuring the gain on fresh seeds",
}
# Redrawing costs about 3 ms; a fast arena would otherwise spend its night on the screen.
_EVERY_S = 0.25


@contextmanager
def live() -> Iterator[tuple[Watch, Callable[[str], None]]]:
    """Draw progress until the end; gives what to tell about progress, and what to say a line with."""
    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False, transient=False) as screen:
        drawn = 0.0

        def watch(progress: Progress) -> None:
            nonlocal drawn
            if time.monotonic() - drawn > _EVERY_S:
                screen.update(view(progress), refresh=True)
                drawn = time.monotonic()

        def say(text: str) -> None:
            screen.console.print(Text(text, style="dim"))

        yield watch, say


def view(progress: Progress) -> Group:
    """One frame."""
    table = Table(box=None, pad_edge=False, expand=True)
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column(progress.metric, justify="right", no_wrap=True)
    table.add_column("gain", justify="right", no_wrap=True)
    table.add_column("hypothesis", ratio=1, no_wrap=True, overflow="ellipsis")
    for item in [item for item in progress.recent if item.n][-SHOWN:]:
        table.add_row(
            str(item.n),
            Text(item.status, _STYLES.get(item.status, "")),
            number(item.metric),
            signed(item.delta),
            Text(
                visible(item.hypothesis if item.status not in ("crash", "rejected") else item.reason),
                overflow="ellipsis",
            ),
        )
    for line in progress.running:
        n, _, text = line.partition(": ")
        table.add_row(n, Text("measuring", "cyan"), "", "", Text(visible(text), "cyan", overflow="ellipsis"))
    return Group(_head(progress), Text(), table)


def _head(progress: Progress) -> Text:
    best = progress.champion.metric if progress.champion else None
    counts = progress.counts
    head = Text()
    head.append(f"{progress.run}  ", "bold")
    head.append(_PHASES.get(progress.phase, progress.phase) + "\n")
    head.append(f"{progress.metric} {number(progress.baseline)} → ")
    head.append(number(best), "bold green" if progress.champion and progress.champion.n else "bold")
    if progress.champion and progress.champion.n:
        head.append(f" (experiment {progress.champion.n})")
    head.append(f"   {counts.get('keep', 0)} kept of {progress.ended}")
    failed = sum(counts.get(status, 0) for status in ("crash", "timeout", "rejected"))
    if failed:
        head.append(f", {failed} failed", "yellow")
    limit = [f"{progress.limit} experiments"] if progress.limit is not None else []
    limit += [format_duration(progress.for_s)] if progress.for_s is not None else []
    rate = progress.evaluations / max(progress.elapsed_s, 1e-9)
    head.append(
        f"\n{format_duration(max(progress.elapsed_s, 0.001))} of {' or '.join(limit) or 'no limit'}"
        f"   {progress.evaluations} evaluations, {rate * 60:.0f}/min"
        + (f"   {progress.mode} metric" if progress.champion else ""),
        "dim",
    )
    return head
