"""Private running counts per group over a stream of batches."""

from dphist.continual.counter import Continual, RunningCounts

__all__ = ["Continual", "RunningCounts"]
