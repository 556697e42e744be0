"""Flexible accuracy: distances, distortions, and statistics whose error is measured after a few records were dropped."""

from dphist.flexible.accuracy import Accuracy, after_preprocessing, compose, error_sensitivity, own_function
from dphist.flexible.bucketing import Buckets, Grid, count_rows
from dphist.flexible.distortions import drop_and_move_distance, drop_distance, move_distance
from dphist.flexible.errors_of_answers import flexible_error_max_k, flexible_error_mode
from dphist.flexible.flow import lossy_infinity_distance
from dphist.flexible.infinity import lossy_infinity_on_line
from dphist.flexible.plan import StatisticPlan, plan_statistic
from dphist.flexible.sensitivity import distortion_sensitivity, metric_sensitivity
from dphist.flexible.statistics import PrivateHistogram, sanitise, statistic
from dphist.flexible.trade_offs import TradeOff, trade_offs
from dphist.flexible.transport import lossy_average_distance

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
