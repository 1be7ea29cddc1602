"""A small Gaussian process over the knobs: which untried point promises the largest improvement."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.floating[Any]]

# Length scales of the unit cube (per square root of a dimension) and noise-to-signal ratios that are tried.
_LENGTHS = (0.15, 0.35, 0.8, 2.0)
_RATIOS = (1e-4, 1e-2, 0.1, 0.5)


@dataclass(frozen=True)
class Surrogate:
    """A fitted process: Matérn 5/2 kernel, one length scale per coordinate, zero mean over standardised values.

    Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), algorithm 2.1, with the signal variance
    integrated out against a weak inverse-gamma prior.
    """

    points: "Array"
    weights: "Array"
    root: "Array"
    dual: "Array"
    variance: float

    def mean(self, points: "Array") -> "Array":
        """Mean at each point, in standardised units."""
        import numpy as np

        found: Array = self._across(points) @ np.linalg.solve(self.root.T, self.dual)
        return found

    def predict(self, points: "Array") -> "tuple[Array, Array]":
        """Mean and standard deviation at each point, in standardised units."""
        import numpy as np

        # The root is small and well conditioned by the noise on its diagonal: its inverse, made once, is quicker.
        solved = np.linalg.inv(self.root) @ self._across(points).T
        spread = np.maximum(1e-10, 1.0 - (solved * solved).sum(axis=0)) * self.variance
        return self.dual @ solved, np.sqrt(spread)

    def _across(self, points: "Array") -> "Array":
        return _kernel(_distances(points * self.weights, self.points * self.weights))


@dataclass(frozen=True)
class Shape:
    """What is learnt about the function as a whole: how quickly it changes along each coordinate, and how noisy it is.

    Attributes:
        inverse: squared inverse length scales.
        ratio: noise to signal.
    """

    inverse: "Array"
    ratio: float


def noise_floor(noise: float) -> float:
    """The least ratio of noise to signal if one measurement has this standard deviation, standardised units.

    Rounded to a power of two, so that it stays the same while the estimate of the noise still moves a little.
    """
    floor = min(max(noise * noise, _RATIOS[0]), _RATIOS[-1])
    return 2.0 ** round(math.log2(floor))


def learn(points: "Array", values: "Array", floor: float, runs: "Array") -> Shape:
    """The shape of highest marginal likelihood: one length, then the noise, then each coordinate's own length.

    Args:
        points: one row of coordinates for each observation.
        values: standardised, lower is better.
        floor: the ratio of noise to signal is not taken below it.
        runs: how many measurements each value is the mean of.
    """
    import numpy as np

    count, width = points.shape
    squares = (points[:, None, :] - points[None, :, :]) ** 2

    def likelihood(inverse: "Array", ratio: float) -> float:
        root, dual = _factorised(squares @ inverse, values, ratio, runs)
        volume = float(np.log(root.diagonal()).sum())
        return float(-0.5 * count * math.log(_variance(dual)) - volume)

    ratios = [floor, *(ratio for ratio in _RATIOS if ratio > floor)]
    ratio = ratios[min(1, len(ratios) - 1)]
    inverses = [np.full(width, 1.0 / (length * length * width)) for length in _LENGTHS]
    best, inverse = max(((likelihood(each, ratio), each) for each in inverses), key=lambda pair: pair[0])
    for each in ratios:
        if each != ratio and (other := likelihood(inverse, each)) > best:
            best, ratio = other, each
    if count >= 2 * width > 2:
        for column in range(width):
            for factor in (1 / 9, 4.0):
                changed = inverse.copy()
                changed[column] *= factor
                if (other := likelihood(changed, ratio)) > best:
                    best, inverse = other, changed
                    break
    return Shape(inverse, ratio)


def fit(points: "Array", values: "Array", shape: Shape, runs: "Array") -> Surrogate:
    """The process of this shape that has seen these observations; arguments as for `learn`."""
    import numpy as np

    squared = _distances(points * np.sqrt(shape.inverse), points * np.sqrt(shape.inverse))
    root, dual = _factorised(squared, values, shape.ratio, runs)
    return Surrogate(points, np.sqrt(shape.inverse), root, dual, _variance(dual))


def _factorised(squared: "Array", values: "Array", ratio: float, runs: "Array") -> "tuple[Array, Array]":
    """Cholesky root of the covariance, and the values solved by it."""
    import numpy as np

    count = len(values)
    # A last row makes one Cholesky factorisation solve for the values too; its own pivot only has to be large enough.
    bordered = np.empty((count + 1, count + 1))
    bordered[:-1, :-1] = _kernel(squared)
    bordered[np.diag_indices(count)] += ratio / runs
    bordered[-1, :-1] = bordered[:-1, -1] = values
    bordered[-1, -1] = 1e9 * (1.0 + float(values @ values))
    root: Array = np.linalg.cholesky(bordered)
    return root[:-1, :-1], root[-1, :-1]


def _variance(dual: "Array") -> float:
    return float(dual @ dual + 0.5) / (len(dual) + 0.5)


def standardised(values: "Array") -> "tuple[Array, float]":
    """Values with mean 0 and deviation 1 after cutting what is far worse than the median, and the unit of that scale.

    How bad a bad value is says nothing about where the best one lies, but would flatten everything else.
    """
    import numpy as np

    low = float(values.min())
    unit = float(np.sort(values)[len(values) // 2]) - low or float(values.std()) or 1.0
    cut = np.minimum((values - low) / unit, 2.0)
    spread = float(cut.std()) or 1.0
    return (cut - cut.mean()) / spread, unit * spread


def expected_improvement(mean: "Array", spread: "Array", target: float) -> "Array":
    """Over `target`, for minimisation (Jones, Schonlau & Welch 1998)."""
    import numpy as np

    gap = (target - mean) / spread
    density = np.exp(-0.5 * gap * gap) / math.sqrt(2 * math.pi)
    below: Array = 0.5 * (1.0 + _erf(gap / math.sqrt(2)))
    return spread * (gap * below + density)


def _kernel(squared: "Array") -> "Array":
    import numpy as np

    scaled = np.sqrt(5.0 * squared)
    covariance: Array = (1.0 + scaled + scaled * scaled / 3.0) * np.exp(-scaled)
    return covariance


def _distances(one: "Array", other: "Array") -> "Array":
    import numpy as np

    squared: Array = (one * one).sum(1)[:, None] + (other * other).sum(1)[None] - 2.0 * one @ other.T
    return np.maximum(0.0, squared)


def _erf(x: "Array") -> "Array":
    """Abramowitz & Stegun 7.1.26, error below 1.5e-7; numpy has none and scipy is not a dependency."""
    import numpy as np

    t = 1.0 / (1.0 + 0.3275911 * np.abs(x))
    tail = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    signed: Array = np.sign(x) * (1.0 - tail * np.exp(-x * x))
    return signed
