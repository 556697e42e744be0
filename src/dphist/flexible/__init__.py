"""Flexible accuracy: statistics whose error is measured after a few records were dropped."""

from dphist.flexible.bucketing import Buckets, Grid, count_rows
from dphist.flexible.plan import StatisticPlan, TradeOff, plan_statistic, trade_offs
from dphist.flexible.statistics import Accuracy, PrivateHistogram, own_function, sanitise, statistic

__all__ = [
    "Accuracy",
    "Buckets",
    "Grid",
    "PrivateHistogram",
    "StatisticPlan",
    "TradeOff",
    "count_rows",
    "own_function",
    "plan_statistic",
    "sanitise",
    "statistic",
    "trade_offs",
]
