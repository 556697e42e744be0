"""Flexible accuracy: distances, distortions, and statistics whose error is measured after a few records were dropped."""

from dphist.flexible.accuracy import (
    Accuracy,
    after_preprocessing,
    compose,
    distortion_sensitivity,
    drop_and_move_distance,
    drop_distance,
    error_sensitivity,
    flexible_error_max_k,
    flexible_error_mode,
    metric_sensitivity,
    move_distance,
    own_function,
)
from dphist.flexible.bucketing import Buckets, Grid, count_rows
from dphist.flexible.distances import lossy_average_distance, lossy_infinity_distance
from dphist.flexible.distances_on_line import lossy_infinity_on_line
from dphist.flexible.plan import StatisticPlan, TradeOff, plan_statistic, trade_offs
from dphist.flexible.statistics import PrivateHistogram, sanitise, statistic

__all__ = [
    "Accuracy",
    "Buckets",
    "Grid",
    "PrivateHistogram",
    "StatisticPlan",
    "TradeOff",
    "after_preprocessing",
    "compose",
    "count_rows",
    "distortion_sensitivity",
    "drop_and_move_distance",
    "drop_distance",
    "error_sensitivity",
    "flexible_error_max_k",
    "flexible_error_mode",
    "lossy_average_distance",
    "lossy_infinity_distance",
    "lossy_infinity_on_line",
    "metric_sensitivity",
    "move_distance",
    "own_function",
    "plan_statistic",
    "sanitise",
    "statistic",
    "trade_offs",
]
