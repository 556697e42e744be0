"""What is claimed, and what an attack found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Attack = Literal["exact", "sampled", "implementation"]


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """The output laws of two neighbours, over the same outcomes."""

    name: str
    without: Floats
    with_: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Trials:
    """Independent runs on two neighbours, one row each: what was published, NaN where a value was not."""

    without: Floats
    with_: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A mechanism with one analysis of it: what it promises, and how to look at what it does.

    pairs: neighbours whose output laws can be enumerated or integrated. trials: runs of the code that people run, `n` on
    each side; `quick` and `thorough` say how many.
    """

    mechanism: str
    analysis: str
    setting: str
    delta: Callable[[float], float]
    pairs: Callable[[], Iterable[Pair]] | None = None
    trials: Callable[[int], Trials] | None = None
    quick: int = 0
    thorough: int = 0
    note: str = ""

    @property
    def name(self) -> str:
        """Mechanism and analysis."""
        return f"{self.mechanism} ({self.analysis})" if self.analysis else self.mechanism


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one attack. `attacked` is a delta that the mechanism has at least, at `epsilon`.

    attacked_epsilon: the epsilon that it has at least, at the claimed delta. `trials` on each side decided; None if exact.
    """

    claim: str
    attack: Attack
    setting: str
    holds: bool
    detail: str
    epsilon: float | None = None
    claimed: float | None = None
    attacked: float | None = None
    attacked_epsilon: float | None = None
    trials: int | None = None

    @property
    def ratio(self) -> float | None:
        """attacked/claimed: 1 is as tight as can be, more is a broken promise."""
        if self.claimed is None or self.attacked is None:
            return None
        return self.attacked / self.claimed if self.claimed > 0 else float(self.attacked > 0)

    @property
    def gap(self) -> float | None:
        """claimed - attacked: what the attack did not reach."""
        return None if self.claimed is None or self.attacked is None else self.claimed - self.attacked

    def to_data(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "gap": self.gap, "ratio": self.ratio}
