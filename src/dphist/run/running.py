"""The counts after a round, as they are published, and those of the rounds before it for a picture."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dphist.columns import unit_in_words, unit_of
from dphist.errors import InvalidParameter
from dphist.files import stored
from dphist.files.locks import remove_partial, replace_private
from dphist.ledger.charge import Receipt
from dphist.mechanisms import ContinualCounts
from dphist.planning.describe import stream_guarantee
from dphist.run.record import StreamRecord, names_of
from dphist.run.release import Published
from dphist.run.stream import read_sealed, write_sealed
from dphist.words import enough, number

ROUNDS: Final = "rounds"
"""The folder of what was released in each round, beside the state."""

MOST_KEPT: Final = 1000
"""So many of the largest released counts of a round are kept for pictures."""

MOST_DRAWN: Final = 400
_MOST_BYTES: Final = 2 << 30
"""Of a file of one round: so many keys of any length."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RunningCounts(Published):
    """The private counts after some rounds. Holds no true value; `folder` has the released counts of earlier rounds.

    Example:
        >>> stream = dp.Continual.start("week", unit="user", by="item", rounds=7, max_groups=1, epsilon=1, delta=1e-8)
        >>> stream.add("monday.parquet", "monday")
        RunningCounts(... groups by item; epsilon 1, delta 1e-08)
    """

    table: pa.Table
    round: int
    settings: Mapping[str, Any]
    mechanism: ContinualCounts
    created: dt.datetime
    folder: Path
    inputs: tuple[Path, ...] = field(default=(), repr=False)

    @property
    def by(self) -> tuple[str, ...]:
        """The names of the keys."""
        return names_of(self.settings["by"])

    @property
    def record(self) -> StreamRecord:
        """Round, mechanism, guarantee, version and time: public parameters only."""
        told, paid = self.settings, self.settings.get("ledger")
        return StreamRecord.model_construct(
            created=self.created, unit=unit_of(told["unit"]), keys=tuple(told["by"]), where=told["where"],
            null_keys=told["null_keys"], round=self.round, epsilon=told["epsilon"], delta=told["delta"],
            mechanism=self.mechanism.parameters(), ledger=paid and Receipt(**paid),
        )  # fmt: skip

    def keep(self) -> None:
        """Keep the largest counts for pictures of later rounds, once; they are published already and cost nothing.

        Example:
            >>> running.keep()
        """
        path = _file(self.folder, self.round)
        if not is_recorded(self.folder, self.round):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            remove_partial(path)
            replace_private(path, lambda sink: write_sealed(self.table.slice(0, MOST_KEPT), sink))

    def history(self) -> list[tuple[int, pa.Table]]:
        """Rounds up to this one, at most some hundred of them evenly spaced, with what was released then.

        Returns:
            Pairs of a round and its table.

        Example:
            >>> [number for number, _ in running.history()]
            [1]
        """
        wanted = np.unique(np.linspace(1, self.round, min(self.round, MOST_DRAWN)).astype(int)).tolist()
        paths = [(past, _file(self.folder, past)) for past in wanted]
        return [(past, self._past(path)) for past, path in paths if path.exists()]

    def _past(self, path: Path) -> pa.Table:
        """What was released in a round: the keys, and counts with their errors."""
        table = read_sealed(stored.read_file(path, "a round", _MOST_BYTES), str(path))
        names = [*self.by, *self.table.column_names[-2:]]
        numbers = [table.field(name).type for name in names[-2:]] if table.column_names == names else []
        if numbers != [pa.int64(), pa.float64()]:
            raise InvalidParameter(f"the released counts of a round in {path}", "another table")
        return table


def is_recorded(folder: Path, number: int) -> bool:
    """Whether the released counts of a round are kept; there are none before the first."""
    return number == 0 or _file(folder, number).exists()


def facts(mechanism: ContinualCounts, settings: Mapping[str, Any], rounds_used: int) -> list[tuple[str, str]]:
    """A stream in words."""
    now, worst = mechanism.std_at(max(rounds_used, 1)), mechanism.count_std * mechanism.rounds.bit_length() ** 0.5
    return [
        (
            "rounds",
            f"{rounds_used:,} of {mechanism.rounds:,} used; the number declared sets the noise, by its logarithm",
        ),
        (
            "max groups",
            f"{mechanism.max_groups:,} for each unit in each batch, chosen at random if it has more; noise grows with its root",
        ),
        (
            "noise",
            f"std {number(mechanism.count_std)} times the root of the set bits of the round's number: {number(now)} on every"
            f" count now, at most {number(worst)} in any round",
        ),
        (
            "threshold",
            f"a group is released when its noisy running count exceeds {mechanism.threshold:,}: now with probability 95 % at"
            f" {enough(mechanism.count_released_with(0.95, max(rounds_used, 1)))} units",
        ),
        ("guarantee", stream_guarantee(mechanism, settings["epsilon"], settings["delta"], unit_of(settings["unit"]))),
        ("provided", f"the unit is {unit_in_words(settings['unit'])}; {mechanism.assumption}."),
        ("keep safe", "the folder holds true counts and the noise; only its owner may read it"),
    ]


def _file(folder: Path, number: int) -> Path:
    return folder / ROUNDS / f"{number:07}.arrow"
