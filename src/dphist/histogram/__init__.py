"""Bounded histograms: what an engine hands over, and what may be done to one before noise."""

from __future__ import annotations

from dphist.histogram.bounds import ContributionBounds
from dphist.histogram.histogram import LARGEST_SUM, Histogram, check_key_names
from dphist.histogram.largest import largest_groups
from dphist.histogram.measure import Measure
from dphist.histogram.sketch import MisraGries, largest_undercount

__all__ = [
    "LARGEST_SUM",
    "ContributionBounds",
    "Histogram",
    "Measure",
    "MisraGries",
    "check_key_names",
    "largest_groups",
    "largest_undercount",
]
