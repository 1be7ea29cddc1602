"""The judge: says what to measure, and whether a challenger is better than the champion."""

from overnight.loop.judge.claim import Claim, claim, detectable_effect, final_plan
from overnight.loop.judge.examination import Examination
from overnight.loop.judge.judge import Judge, NoiseReport
from overnight.loop.judge.terms import Ask, JudgeSettings, Verdict, seed_index

__all__ = [
    "Ask",
    "Claim",
    "Examination",
    "Judge",
    "JudgeSettings",
    "NoiseReport",
    "Verdict",
    "claim",
    "detectable_effect",
    "final_plan",
    "seed_index",
]
