"""How error is spent: over the experiments of a run, over the looks at one challenger; and t against z."""

import math
from statistics import NormalDist

NORMAL = NormalDist()

# Share of a challenger's error that each look may spend, at these fractions of `confirm` runs. An early keep only
# saves a few runs of a rare event, so nearly all is left for the last look, as O'Brien and Fleming (1979) do.
_LOOKS = ((1 / 2, 0.10), (3 / 4, 0.15), (1.0, 0.74))
# A gain of many sigma needs no more than a second run on a fresh seed.
QUICK, _QUICK_SHARE = 2, 0.01


def alpha_at(n: int, error_per_night: float, night: int) -> float:
    """Error that experiment `n` ≥ 1 may spend: its chance to be kept if it is no better.

    α(n) = 3e / 2N / (1 + n / 2N)², for e = `error_per_night` and N = `night`. It sums to e over the first N
    experiments and to 3e over an endless run, whatever else is kept: online Bonferroni, also called alpha-spending
    (Foster & Stine 2008; Tian & Ramdas 2021), here of the expected number of false keeps. It is nearly flat over a
    night (factor 2.25), so the last challengers of a night meet almost the same bar as the first. LORD and ADDIS
    spend less on long droughts: their bar at n = 300 without a keep lies beyond z = 4, and 8 runs do not reach it.
    """
    scale = 2 * night
    return 1.5 * error_per_night / night / (1 + n / scale) ** 2


def looks(confirm: int) -> dict[int, float]:
    """Share of the error by number of challenger runs at which a keep is possible.

    The shares sum to one, so the union bound holds the error however looks correlate and wherever the screen stops.
    """
    shares: dict[int, float] = {min(QUICK, confirm): _QUICK_SHARE}
    for fraction, share in _LOOKS:
        runs = math.ceil(fraction * confirm)
        if runs < 3 and fraction < 1:
            runs = confirm
        shares[runs] = shares.get(runs, 0.0) + share
    return shares


def z_of(alpha: float) -> float:
    """Upper `alpha` point of the normal distribution."""
    return -NORMAL.inv_cdf(alpha)


def t_to_z(t: float, df: float) -> float:
    """The normal deviate with nearly the same tail as Student's `t` on `df` > 0 degrees (Wallace 1959, eq. 3.2)."""
    c = (8 * df + 1) / (8 * df + 3)
    return math.copysign(c * math.sqrt(df * math.log1p(t * t / df)), t)


def z_to_t(z: float, df: float) -> float:
    """Inverse of `t_to_z`."""
    c = (8 * df + 1) / (8 * df + 3)
    return math.copysign(math.sqrt(df * math.expm1((z / c) ** 2 / df)), z)
