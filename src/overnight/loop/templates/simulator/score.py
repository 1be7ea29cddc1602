"""Simulates the shop with the parameters in params.toml. Replace `simulate` by your own simulator.

Demand comes from $OVERNIGHT_SEED, which champion and challenger share: paired like this, their difference is far less
noisy than either number.
"""

import math
import os
import random
import sys
import tomllib

RANGES = {"reorder_at": (0, 200), "order_up_to": (10, 400), "forecast_days": (1, 60), "safety": (0, 3)}
DAYS = 4000
LEAD_DAYS = 4


def load(path):
    """The parameters, each a finite number in its range, and no others."""
    with open(path, "rb") as file:
        params = tomllib.load(file)
    if params.keys() != RANGES.keys():
        sys.exit(f"refused: the parameters are {sorted(params)}, not {sorted(RANGES)}")
    for name, (low, high) in RANGES.items():
        value = params[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            sys.exit(f"refused: {name} = {value!r} is not a number from {low} to {high}")
    return params


def simulate(params, rng):
    """Mean cost of a day."""
    stock, coming, cost, recent = 100.0, [], 0.0, []
    for day in range(DAYS):
        stock += sum(amount for due, amount in coming if due == day)
        coming = [(due, amount) for due, amount in coming if due > day]
        demand = max(0.0, rng.gauss(12 + 6 * math.sin(day / 40), 4))
        sold = min(stock, demand)
        stock -= sold
        recent = [*recent, demand][-round(params["forecast_days"]) :]
        cost += 0.05 * stock + 4 * (demand - sold)
        buffer = params["safety"] * math.sqrt(LEAD_DAYS) * sum(recent) / len(recent)
        position = stock + sum(amount for _, amount in coming)
        if position < params["reorder_at"] + buffer and position < params["order_up_to"] + buffer:
            coming.append((day + LEAD_DAYS, params["order_up_to"] + buffer - position))
            cost += 15
    return cost / DAYS


if __name__ == "__main__":
    value = simulate(load("params.toml"), random.Random(int(os.environ.get("OVERNIGHT_SEED", "0"))))
    if not math.isfinite(value):
        sys.exit("refused: the simulation diverged")
    print(f"METRIC cost_per_day={value:.6f}")
