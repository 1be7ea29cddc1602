"""The exact rank test: how likely runs this good are if challenger and champion are the same program.

It needs no shape of the noise: with skewed, heavy-tailed or discrete noise a mean of eight runs strays further than
any t test allows for, its rank among the champion's runs does not.
"""

import math
from collections.abc import Sequence

import numpy as np


def rank_p(challenger: Sequence[float], pool: Sequence[float], scale: float) -> float:
    """One-sided p value that the challenger's runs are not larger than the pool's.

    Wilcoxon's rank sum with its exact permutation distribution, ties sharing their middle rank (the shift algorithm
    of Streitberg & Röhmel 1986). Where every challenger run beats every pool run, ranks say no more; then a gap of g
    noise units multiplies p by exp(-g · runs), which is exact for exponential tails and generous to lighter ones.

    Args:
        challenger: its runs, oriented so that larger is better.
        pool: the champion's runs, likewise.
        scale: standard deviation of one run; 0 leaves the gap out.
    """
    runs, others = len(challenger), len(pool)
    if not runs or not others:
        return 1.0
    gap = min(challenger) - max(pool)
    if gap > 0:
        bonus = math.exp(-runs * min(gap / scale, 50.0)) if scale > 0 else 1.0
        return bonus / math.comb(runs + others, runs)
    scores = _doubled_ranks(np.asarray([*challenger, *pool]))
    observed = int(scores[:runs].sum())
    # ways[j, s]: subsets of j values whose doubled ranks sum to s.
    ways = np.zeros((runs + 1, int(np.sort(scores)[-runs:].sum()) + 1))
    ways[0, 0] = 1.0
    for score in scores:
        ways[1:, score:] += ways[:-1, : ways.shape[1] - score].copy()
    return float(ways[runs, observed:].sum() / math.comb(runs + others, runs))


def _doubled_ranks(values: np.ndarray) -> np.ndarray:
    """Twice the middle rank of each value: whole numbers from 2 to 2 · len."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    upper = np.cumsum(counts)
    doubled: np.ndarray = (2 * upper - counts + 1)[inverse]
    return doubled
