"""What a person should read before merging: speeding up is not skipping thinking."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from overnight.loop.record.experiment import Experiment
from overnight.loop.record.findings import number, signed


def before_merging(
    result: Mapping[str, Any], experiments: Sequence[Experiment], stat: tuple[int, int, int]
) -> list[str]:
    """Sentences, the most pressing first, each from what is on record.

    Args:
        result: the report object.
        experiments: of the run.
        stat: files, lines added and lines removed, champion against baseline.
    """
    said: list[str] = []
    if result["state"] == "imported":
        return ["This is another tool's log: whether its gains are real, nobody measured here."]
    kept = [item for item in experiments if item.status == "keep"]
    if not kept:
        return ["Nothing was kept: there is nothing to merge."]
    if result["sandbox"] == "none":
        said.append(
            "It ran without isolation: any candidate could have changed the evaluator, the record or this page."
        )
    if result["integrity"] == "shared":
        said.append(
            "Artifact and evaluator shared a process, so a candidate could have reported a number of its own. "
            "Read the diff for anything that prints, exits early, imports or inspects the evaluator."
        )
    if result["branch_behind"]:
        said.append(f"The branch is not at the champion: {result['branch_behind']}.")
    said += _gain(result)
    said += _holdout(result)
    files, added, removed = stat
    said.append(
        f"Read the diff itself: {_many(files, 'file')}, {_many(added, 'line')} added, {removed} removed. "
        "Does it do what you meant?"
    )
    slim = [item for item in kept if _slim(item)]
    if slim:
        names = ", ".join(str(item.n) for item in slim[:8])
        said.append(f"These keeps were close calls, whose interval nearly reaches the smallest effect: {names}.")
    by_code = [item for item in kept if not item.detail.get("knobs")]
    if by_code:
        names = ", ".join(str(item.n) for item in by_code[:8])
        said.append(
            f"These keeps changed code, not only constants: {names}. Their hypotheses are the authors' own words."
        )
    if not result["checks"]:
        said.append("The arena has no `checks`: nothing but the metric was looked at. What must not get worse?")
    failed = result["crashed"] + result["timeouts"] + result["rejected"]
    if failed * 2 > result["experiments"]:
        said.append(
            f"{failed} of {result['experiments']} experiments could not be judged; see why before a next night."
        )
    return said


def how_to_take_over(source: str, changed: Sequence[str], gone: Sequence[str], committed: bool) -> tuple[str, str, str]:
    """How a person brings the champion into the folder: what to say before the command, the command, and after it.

    Args:
        source: branch, or commit where the branch is not at the champion.
        changed: files of the champion that the baseline has not, or not so.
        gone: files that the champion lacks.
        committed: the run began from what was committed; otherwise git would refuse to merge into the folder.
    """
    if committed:
        return "Merge it with", f"git merge {source}", "; every commit on that branch is a keep."
    steps = [f"git restore --source={source} -- {shlex.join(changed)}"] if changed else []
    steps += [f"rm -- {shlex.join(gone)}"] if gone else []
    return (
        "The run began from files that were not committed, into which git would not merge. In the arena's folder, take "
        "over what was kept with",
        " && ".join(steps),
        ", which replaces those files as they stand now.",
    )


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _gain(result: Mapping[str, Any]) -> list[str]:
    if result["gain"] is None:
        return ["The gain was not measured afresh, so the best value is one that was picked for being good."]
    if result["gain_low"] <= 0:
        return [
            f"The interval of the gain, {signed(result['gain_low'])} … {signed(result['gain_high'])}, does not exclude "
            "zero: it may be nothing."
        ]
    return []


def _holdout(result: Mapping[str, Any]) -> list[str]:
    held = result["holdout"]
    if not held:
        return ["There is no holdout: whether the gain carries over to what was not measured, nobody looked at."]
    before, after = held["baseline"], held["champion"]
    if before is None or after is None:
        return ["The holdout could not be measured; see the log."]
    sign = -1 if result["direction"] == "minimize" else 1
    change = sign * (after - before)
    told = f"{number(before)} → {number(after)}"
    if change <= 0:
        return [f"The holdout did not improve ({told}): the gain may be fitted to the evaluator."]
    if result["gain"] and change < 0.5 * result["gain"]:
        return [f"The holdout gained less than half of what was claimed ({told}, {signed(change)})."]
    return [f"The holdout improved as well: {told}."]


def _slim(item: Experiment) -> bool:
    evidence = item.detail.get("evidence", {})
    low, high = evidence.get("low"), evidence.get("high")
    if not isinstance(low, int | float) or not isinstance(high, int | float) or high <= low:
        return False
    return low < 0.25 * (high - low)
