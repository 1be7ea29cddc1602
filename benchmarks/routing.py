"""Tier-1 routing on labelled prompts: how often it is right when it answers, how often it abstains, what it costs.

Who wrote them: benchmarks/routing/README.md. Intervals are Wilson's, 95 %. CPU is process time for one
prompt, the best and the worst of five passes over all prompts.
"""

import datetime
import json
import math
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from overnight.models.routing.classify import EmbeddedClassifier
from overnight.models.routing.tiers import LABELS
from overnight.models.rules.rules import NoFacts, Situation, answer

FOLDER = Path(__file__).with_name("routing")
SETS = {"newcomers": "somebody who has seen neither rules, code nor any other prompts"}
PASSES = 5


def main() -> None:
    started = time.process_time()
    classifier = EmbeddedClassifier()
    load_s = time.process_time() - started
    found = {name: {"written_by": author, **measure(name, classifier)} for name, author in SETS.items()}
    print(json.dumps({"benchmark": "routing", "load_cpu_ms": round(load_s * 1000, 1), **found}))


def measure(name: str, classifier: EmbeddedClassifier) -> dict[str, Any]:
    """How the router does on one set; its mistakes go to stderr."""
    lines = [line.split("\t") for line in (FOLDER / f"{name}.tsv").read_text("utf-8").splitlines() if line]
    found = [(label, classifier.classify(prompt)) for label, prompt in lines]
    right = sum(item.label == label for label, item in found)
    answered = sum(item.label is not None for _, item in found)
    each: dict[str, Any] = {}
    for kind in LABELS:
        mine = [item for label, item in found if label == kind]
        each[kind] = {
            "answered": sum(item.label is not None for item in mine),
            "right": sum(item.label == kind for item in mine),
            "of": len(mine),
        }
    mistakes = Counter((label, item.label) for label, item in found if item.label not in (None, label))
    for (wanted, said), count in mistakes.most_common(12):
        print(f"{name}: {count} x {wanted} taken for {said}", file=sys.stderr)
    situation = Situation(datetime.datetime(2026, 11, 30, 12, 0), NoFacts())
    passes, rule_passes = [], []
    for _ in range(PASSES):
        started = time.process_time()
        for _, prompt in lines:
            classifier.classify(prompt)
        passes.append((time.process_time() - started) / len(lines) * 1000)
        started = time.process_time()
        by_rules = sum(answer(prompt, situation) is not None for _, prompt in lines)
        rule_passes.append((time.process_time() - started) / len(lines) * 1000)
    return {
        "prompts": len(lines),
        "labels": len(LABELS),
        "right_when_answered": round(right / answered, 4),
        "right_when_answered_95": wilson(right, answered),
        "abstained": round(1 - answered / len(lines), 4),
        "right_without_abstaining": round(sum(item.scores[0][0] == label for label, item in found) / len(lines), 4),
        "cpu_ms": {"best": round(min(passes), 4), "worst": round(max(passes), 4)},
        "tier0_answered": round(by_rules / len(lines), 4),
        "tier0_cpu_ms": {"best": round(min(rule_passes), 4), "worst": round(max(rule_passes), 4)},
        "by_label": each,
    }


def wilson(right: int, of: int) -> list[float]:
    """The 95 % interval of a share (Wilson 1927)."""
    z, share = 1.96, right / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return [round(middle - half, 4), round(middle + half, 4)]


if __name__ == "__main__":
    main()
