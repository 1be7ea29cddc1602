"""One ask of Optuna's tree-structured Parzen estimator over a given window of results; nothing is kept between asks."""

import warnings
from collections.abc import Sequence
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

from overnight.loop.knobs.space import Space

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from optuna.distributions import BaseDistribution

    Array = NDArray[np.floating[Any]]

# Half of Optuna's own, which takes a sixth of the time off.
_CANDIDATES = 12
_lock = Lock()
_EPOCH = datetime.fromtimestamp(0)


def ask(
    space: Space,
    points: "Array",
    losses: "Array",
    pending: "Array",
    seed: int,
) -> list[float]:
    """The point that Optuna's sampler proposes after these results; the same arguments give the same answer.

    A fresh study and sampler each time costs less than one evaluation and makes a resumed run go on identically. The
    storage hands out the window as it is: Optuna's own would copy each trial, 10 ms for a hundred of them.

    Args:
        space: what the points mean.
        points: results so far, oldest first.
        losses: of each point, lower is better, all finite.
        pending: being evaluated now; the sampler avoids them (constant liar).
        seed: of this ask.
    """
    import optuna
    from optuna.distributions import CategoricalDistribution, FloatDistribution
    from optuna.trial import FrozenTrial, TrialState

    distributions: dict[str, BaseDistribution] = {
        f"{column:04d}": CategoricalDistribution(range(len(knob.choices))) if category else FloatDistribution(0, 1)
        for column, (knob, category) in enumerate(zip(space.knobs, space.categories, strict=True))
    }

    def trial(number: int, point: Sequence[float], loss: float | None) -> FrozenTrial:
        params: dict[str, Any] = {
            name: round(code) if category else code
            for name, category, code in zip(distributions, space.categories, point, strict=True)
        }
        done = loss is not None
        return FrozenTrial(
            number=number,
            state=TrialState.COMPLETE if done else TrialState.RUNNING,
            value=loss,
            datetime_start=_EPOCH,
            datetime_complete=_EPOCH if done else None,
            params=params,
            distributions=distributions,
            user_attrs={},
            system_attrs={},
            intermediate_values={},
            trial_id=number,
        )

    results = zip(points.tolist(), losses.tolist(), strict=True)
    # Number 0 is the trial that is being asked for.
    window = [trial(number, point, loss) for number, (point, loss) in enumerate(results, 1)]
    window += [trial(number, point, None) for number, point in enumerate(pending.tolist(), len(window) + 1)]

    class Window(optuna.storages.InMemoryStorage):
        def get_all_trials(self, *args: Any, **kwargs: Any) -> list[FrozenTrial]:
            states = kwargs.get("states")
            return [each for each in window if states is None or each.state in states]

    class Sampler(optuna.samplers.TPESampler):
        def infer_relative_search_space(self, study: Any, trial: Any) -> "dict[str, BaseDistribution]":
            # Every trial has all of them; to find that out took a quarter of the time.
            return {name: each for name, each in distributions.items() if not each.single()}

    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = Sampler(
            n_startup_trials=1, multivariate=True, constant_liar=True, n_ei_candidates=_CANDIDATES, seed=seed
        )
        study = optuna.create_study(storage=Window(), sampler=sampler)
        asked = study.ask(distributions).params
    return [float(asked[name]) for name in distributions]
