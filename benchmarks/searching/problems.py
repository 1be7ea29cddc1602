"""What search is measured on: four functions of knobs, with and without noise, and the examples that ship."""

import math
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from overnight.loop.knobs import find_all_knobs
from overnight.loop.record.experiment import Direction
from searching import warm

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
FRESH_SEEDS = 6


class Problem(Protocol):
    """Something with knobs and a number."""

    @property
    def path(self) -> str: ...
    @property
    def start(self) -> bytes: ...
    @property
    def direction(self) -> Direction: ...
    @property
    def evaluations(self) -> int: ...

    def measure(self, data: bytes, seed: int) -> float:
        """One evaluation of the file under that seed; NaN where it crashes."""
        ...

    def true(self, data: bytes) -> float:
        """What the file is worth, as exactly as can be said."""
        ...


@dataclass(frozen=True)
class Synthetic:
    """A function of knobs with a known optimum of 0; `noise` as a share of what the start has to lose."""

    name: str
    start: bytes
    loss: Callable[[Mapping[str, float | str]], float]
    noise: float = 0.0
    evaluations: int = 60
    direction: Direction = "minimize"
    path: str = "knobs.py"

    def measure(self, data: bytes, seed: int) -> float:
        rng = np.random.default_rng([seed, zlib.crc32(data)])  # two programs share no noise on a seed
        return self.true(data) + self.noise * self.true(self.start) * float(rng.standard_normal())

    def true(self, data: bytes) -> float:
        return self.loss({knob.name: knob.value for knob in find_all_knobs({self.path: data})})


@dataclass(frozen=True)
class Example:
    """An arena of `examples/`, by its own programs, with a small budget of time.

    What produces runs in a fork that has imported numpy already, so `budget_s` is that much less than the arena's. The
    scorer of speed, which starts processes itself, runs by itself, in two rounds instead of seven.
    """

    name: str
    path: str
    direction: Direction
    metric: str
    budget_s: float
    evaluations: int = 60

    @property
    def start(self) -> bytes:
        return (EXAMPLES / self.name / self.path).read_bytes()

    def measure(self, data: bytes, seed: int) -> float:
        if self.name == "digits":
            warm.load("sklearn.linear_model", "sklearn.neighbors", "sklearn.svm")
        with tempfile.TemporaryDirectory() as folder:
            arena = Path(folder) / self.name
            shutil.copytree(EXAMPLES / self.name, arena)
            (arena / self.path).write_bytes(data)
            environment = {"OVERNIGHT_BUDGET_S": str(self.budget_s), "OVERNIGHT_SEED": str(seed)}
            if self.name == "speed":
                score = arena / "score.py"
                text = score.read_text()
                assert "ROUNDS = 7" in text
                score.write_text(text.replace("ROUNDS = 7", "ROUNDS = 2"))
                output = _alone(arena, environment)
            elif warm.run(arena, self.path, environment) is None:
                return math.nan
            else:
                output = (
                    warm.run(arena, "score.py", environment) if self.name != "packing" else _alone(arena, environment)
                )
        values = [
            line.split("=")[1] for line in (output or "").splitlines() if line.startswith(f"METRIC {self.metric}=")
        ]
        return float(values[0]) if values else math.nan

    def true(self, data: bytes) -> float:
        return float(np.mean([self.measure(data, 10**6 + seed) for seed in range(FRESH_SEEDS)]))


def _alone(arena: Path, environment: Mapping[str, str]) -> str | None:
    try:
        done = subprocess.run(
            [sys.executable, "score.py"],
            cwd=arena,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=warm.TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return None
    return None if done.returncode else done.stdout


def bowl(at: Mapping[str, float | str]) -> float:
    """Separable, in magnitudes and shares; two knobs matter most."""
    rate, decay, width, mix = (float(at[name]) for name in ("RATE", "DECAY", "WIDTH", "MIX"))
    return (
        (math.log10(rate) + 1.6) ** 2
        + 0.3 * (math.log10(decay) + 3.2) ** 2
        + 0.2 * (math.log2(width) - 6.5) ** 2
        + 4 * (mix - 0.35) ** 2
    )


def valley(at: Mapping[str, float | str]) -> float:
    """Rosenbrock's function in three knobs: they only help together."""
    x = [float(at[name]) for name in ("A", "B", "C")]
    return math.log1p(sum(100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2 for i in range(2)))


def rugged(at: Mapping[str, float | str]) -> float:
    """A bowl with some forty local optima."""
    x = [float(at[name]) - aim for name, aim in (("A", 0.62), ("B", 0.31), ("C", 0.55))]
    return sum(4 * d * d + 0.15 * (1 - math.cos(12 * d)) for d in x)


def mixed(at: Mapping[str, float | str]) -> float:
    """Rates, whole numbers, a switch and a choice, and a part of the space that crashes."""
    rate, depth, units = float(at["RATE"]), int(at["DEPTH"]), int(at["UNITS"])
    if rate * depth > 0.5:
        return math.nan
    kind = {"relu": 0.0, "tanh": 0.25, "gelu": 0.1, "step": 1.0}[str(at["KIND"])]
    return (
        0.5 * (math.log10(rate) + 1.5) ** 2
        + 0.05 * (depth - 7) ** 2
        + 0.1 * (math.log2(units) - 7.3) ** 2
        + kind
        + (0.0 if at["NORM"] else 0.3)
        + 0.02
    ) - 0.02


BOWL = b"RATE = 1e-3  # knob: 1e-4..1 log\nDECAY = 0.1  # knob: 1e-5..1 log\nWIDTH = 16  # knob: 4..512 log\n"
BOWL += b"MIX = 0.9  # knob: 0..1\n"
CUBE = b"A = -1.2  # knob: -2..2\nB = 1.0  # knob: -2..2\nC = -0.5  # knob: -2..2\n"
RUGGED = b"A = 0.05  # knob: 0..1\nB = 0.9  # knob: 0..1\nC = 0.1  # knob: 0..1\n"
MIXED = (
    b"RATE = 1e-3  # knob: 1e-4..1 log\nDEPTH = 2  # knob: 1..12\nUNITS = 16  # knob: [8, 16, 32, 64, 128, 256, 512]\n"
)
MIXED += b"KIND = 'tanh'  # knob: [relu, tanh, gelu, step]\nNORM = False\n"
PROBLEMS: tuple[Synthetic | Example, ...] = (
    Synthetic("bowl", BOWL, bowl),
    Synthetic("valley", CUBE, valley),
    Synthetic("rugged", RUGGED, rugged),
    Synthetic("mixed", MIXED, mixed),
    Synthetic("bowl, noise 5 %", BOWL, bowl, noise=0.05),
    Synthetic("mixed, noise 5 %", MIXED, mixed, noise=0.05),
    Synthetic("bowl, noise 5 %, 300 evaluations", BOWL, bowl, noise=0.05, evaluations=300),
    Synthetic("mixed, noise 5 %, 300 evaluations", MIXED, mixed, noise=0.05, evaluations=300),
    Example("charlm", "train.py", "minimize", "val_bpb", 0.2),
    Example("digits", "train.py", "maximize", "accuracy", 2.0),
    Example("packing", "pack.py", "maximize", "sum_radii", 0.1),
    Example("speed", "primes.py", "minimize", "relative_time", 2.0),
)
