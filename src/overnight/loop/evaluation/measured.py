"""What one evaluation gives back, and the Python that it runs under."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from overnight.loop.record.experiment import Outcome
from overnight.sandbox import Mount

INSIDE = "/arena"
"""Where a sandbox that can remap shows a checkout."""


@dataclass(frozen=True)
class Measured:
    """What became of one evaluation.

    Attributes:
        value: the metric, finite; None unless `outcome` is ok.
        error: tail of the artifact's own output where it failed; shown to authors.
        scorer_error: what the scorer said where it failed; for the person only.
        mendable: the artifact failed in a way that an author may repair (syntax, import).
        seconds: wall clock of all steps.
        memory_bytes: peak of the hungriest step, page cache included; 0 if the kernel does not say.
    """

    outcome: Outcome
    value: float | None = None
    secondary: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    scorer_error: str = ""
    mendable: bool = False
    seconds: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True)
class Environment:
    """The Python (and whatever else) that commands find first.

    Attributes:
        bin: folder put at the front of PATH.
        mounts: what has to be visible, read-only, for it to work.
    """

    bin: Path
    mounts: tuple[Mount, ...] = ()

    @classmethod
    def own(cls) -> "Environment":
        """The environment Overnight itself runs in; every sandbox shows it already."""
        return cls(Path(sys.executable).parent)
