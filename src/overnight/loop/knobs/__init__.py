"""Knobs: the constants of an artifact that can be turned, found in its files and set without touching anything else."""

from overnight.loop.knobs.knob import Kind, Knob, Scale, Source, Value, fits
from overnight.loop.knobs.ranges import infer_range
from overnight.loop.knobs.rules import find_all_knobs, find_knobs, set_knobs

__all__ = [
    "Kind",
    "Knob",
    "Scale",
    "Source",
    "Value",
    "find_all_knobs",
    "find_knobs",
    "fits",
    "infer_range",
    "set_knobs",
]
