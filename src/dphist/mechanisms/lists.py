"""The seam of lists: mechanisms on the largest groups alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from dphist.mechanisms.base import Fact, Mechanism
from dphist.mechanisms.conditional import Estimates
from dphist.mechanisms.lattice import Floats, Integers, Kept
from dphist.words import number


@dataclass(frozen=True, slots=True)
class Listed:
    """The positions of the groups of a list, their noisy counts (None for a list without), and whether it has all of k.

    cut_off is the noisy number that they exceed, which the guarantee allows to publish; None where there is none.
    """

    index: Integers
    counts: NDArray[Any] | None
    complete: bool
    cut_off: float | None = None


class ListMechanism(Mechanism):
    """A mechanism on the largest groups alone, largest first; one unit may be in any number of groups unless max_groups says
    otherwise."""

    __slots__ = ()
    method: ClassVar[str]

    if TYPE_CHECKING:

        @property
        def lattice_bits(self) -> int:
            """Noisy counts are multiples of 2^-lattice_bits."""

        @property
        def noise_std(self) -> float | None:
            """The standard deviation of all the noise on one count; None for a list without counts."""

        @property
        def max_groups(self) -> int | None:
            """The bound on the groups of a unit that an engine has to keep."""

        @property
        def length(self) -> int:
            """The most groups of a list."""

    @property
    def needed(self) -> int:
        """How many of the largest groups the source has to give: the one behind the last is needed too."""
        return self.length + 1

    def listed(self, largest: Integers, k: int) -> Listed:
        """The private list from the `needed` largest counts, largest first."""
        raise NotImplementedError

    def given_cut_off(self, noisy: Floats, cut_off: Floats | float) -> Estimates:
        """Counts and standard errors of listed groups, given that each is listed, from noisy counts above a cut-off."""
        raise NotImplementedError

    def facts(self, k: int) -> list[Fact]:
        """Noise and threshold, or the choices, in words."""
        raise NotImplementedError


def counted_list(kept: Kept, k: int, cut_off: int) -> Listed:
    """A list with noisy counts above a cut-off, both in steps: whole numbers where the noise is whole."""
    counts = kept.noisy if kept.lattice_bits == 0 else kept.counts
    return Listed(kept.index, counts, len(kept.index) == k, math.ldexp(cut_off, -kept.lattice_bits))


def counted_facts(k: int, parts: Fact, noise_std: float, threshold: float, excess: float) -> list[Fact]:
    """The facts about a list with noisy counts."""
    base = f"the {k + 1:,}-th largest count"
    return [
        ("k", f"at most {k:,} groups; a larger k compares with a smaller {base[4:]}, under more noise"),
        parts,
        ("noise", f"std {number(noise_std)} on every count; 95 % of them within ±{number(1.96 * noise_std)}"),
        (
            "threshold",
            f"a group is released when its noisy count exceeds {base} by {number(threshold)}, that count being"
            f" noisy too: with probability 95 % when it is {number(excess)} larger",
        ),
    ]
