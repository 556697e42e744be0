"""How much one unit may contribute."""

from __future__ import annotations

from dataclasses import dataclass

from dphist import checks


@dataclass(frozen=True, slots=True)
class ContributionBounds:
    """The most groups one unit is counted in, and the most groups that can be non-empty; None where nothing is promised.

    `max_groups` is kept by sampling inside an engine, `sparsity` by a sketch.
    """

    max_groups: int | None = None
    sparsity: int | None = None

    def __post_init__(self) -> None:
        if self.max_groups is not None:
            checks.check_whole("max_groups", self.max_groups)
        if self.sparsity is not None:
            checks.check_whole("sparsity", self.sparsity)
