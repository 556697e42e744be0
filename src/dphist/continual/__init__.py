"""Private running counts per group over a stream of batches."""

from dphist.continual.counter import Continual
from dphist.continual.running import RunningCounts

__all__ = ["Continual", "RunningCounts"]
