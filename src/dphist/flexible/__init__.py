"""Flexible accuracy: distances, distortions, and statistics whose error is measured after a few records were dropped."""

from dphist.flexible.accuracy import Accuracy, compose, error_sensitivity
from dphist.flexible.distortions import drop_and_move_distance, drop_distance, move_distance
from dphist.flexible.errors_of_answers import flexible_error_max_k, flexible_error_mode
from dphist.flexible.flow import lossy_infinity_distance
from dphist.flexible.infinity import lossy_infinity_on_line
from dphist.flexible.transport import lossy_average_distance

__all__ = [
    "Accuracy",
    "compose",
    "drop_and_move_distance",
    "drop_distance",
    "error_sensitivity",
    "flexible_error_max_k",
    "flexible_error_mode",
    "lossy_average_distance",
    "lossy_infinity_distance",
    "lossy_infinity_on_line",
    "move_distance",
]
