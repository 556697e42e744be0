"""The state of a stream: true counts and the noise of the tree's nodes that the present round is made of.

After t rounds the nodes that make up 1..t are at the levels of the set bits of t. One round more ends the nodes at
the lowest levels, whose bits are cleared, and begins one at the level of the lowest set bit of t + 1; a node that has
ended is never used again. So a group needs its count and one noise for each set bit, and a round draws one noise for
every group known, however many rounds there were. A group that is new draws the noise of its earlier, empty nodes
when it appears.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist.errors import InvalidParameter
from dphist.publish.private_files import LockedFile

Integers = NDArray[np.int64]
_COUNT, _ADDED, _PLACE = "count", "added", "place"
_METADATA = b"dphist"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class State:
    """Everything a stream remembers. True values: nothing here is safe to print.

    keys has the columns key_1, key_2, ...; noise maps the levels of the set bits of the round to one value per group.
    """

    settings: dict[str, Any]
    batches: tuple[str, ...]
    keys: pa.Table
    counts: Integers
    noise: dict[int, Integers]

    @property
    def round(self) -> int:
        """How many batches are in."""
        return len(self.batches)

    def noisy(self) -> Integers:
        """The noisy running counts: a function of the state, so that showing a round twice tells nothing new."""
        return self.counts + sum(self.noise.values(), np.zeros(len(self.counts), np.int64))

    def advanced(self, batch: str, keys: pa.Table, added: Integers, draw: Callable[[int], Integers]) -> State:
        """The state after one more batch of bounded counts, which the caller keeps within what int64 holds in all rounds."""
        if self.round and keys.schema != self.keys.schema:
            raise InvalidParameter("keys of the same types as in earlier batches", "others", "convert them with --by.")
        known = self.keys if self.round else keys.schema.empty_table()
        places, amounts = _match(known, keys, added)
        old, new = places < len(self.counts), places >= len(self.counts)
        counts = np.append(self.counts, amounts[new])
        counts[places[old]] += amounts[old]
        all_keys = pa.concat_tables([known, keys.take(pa.array(places[new] - len(self.counts)))])
        after = self.round + 1
        begun = (after & -after).bit_length() - 1
        fresh = int(new.sum())
        noise = {level: np.append(self.noise[level], draw(fresh)) for level in self.noise if level > begun}
        noise[begun] = draw(len(counts))
        return State(self.settings, (*self.batches, batch), all_keys, counts, noise)

    def save(self, sink: BinaryIO) -> None:
        """Write the state as an Arrow file."""
        table = self.keys.append_column(_COUNT, pa.array(self.counts))
        for level, values in self.noise.items():
            table = table.append_column(f"noise_{level}", pa.array(values))
        record = {"format": "dphist-continual", "version": 1, "settings": self.settings, "batches": self.batches}
        table = table.replace_schema_metadata({_METADATA: json.dumps(record, allow_nan=False)})
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)

    @classmethod
    def load(cls, path: Path, file: LockedFile | None = None) -> State:
        """Read a state back: the one in the file that is locked, or at the path. A copy: nothing may change under it."""
        try:
            content = path.read_bytes() if file is None else file.read()
            table = pa.ipc.open_file(content).read_all()
            record = json.loads((table.schema.metadata or {})[_METADATA])
            if record["format"] != "dphist-continual" or record["version"] != 1:
                raise ValueError
            noise = {
                int(name.removeprefix("noise_")): _whole(table, name)
                for name in table.column_names
                if name.startswith("noise_")
            }
            keys = table.select([name for name in table.column_names if name.startswith("key_")])
            state = cls(
                record["settings"],
                tuple(record["batches"]),
                keys.replace_schema_metadata(None),
                _whole(table, _COUNT),
                noise,
            )
            levels = {level for level in range(state.round.bit_length()) if state.round >> level & 1}
            if set(noise) != levels:
                raise ValueError
        except FileNotFoundError:
            raise InvalidParameter("a stream", str(path.parent), "dphist continual start makes one.") from None
        except (ValueError, KeyError, TypeError, pa.ArrowException):
            raise InvalidParameter("an undamaged state", str(path)) from None
        return state


def _whole(table: pa.Table, name: str) -> Integers:
    return np.array(table.column(name).to_numpy(), dtype=np.int64)


def _match(known: pa.Table, keys: pa.Table, added: Integers) -> tuple[Integers, Integers]:
    """Where each key of a batch stands: the place of the known group, or len(known) + its own position; and its amount."""
    names = known.column_names
    both = pa.concat_tables([known, keys])
    both = both.append_column(_PLACE, pa.array(np.arange(both.num_rows)))
    both = both.append_column(_ADDED, pa.array(np.append(np.full(known.num_rows, -1, np.int64), added)))
    # A group has at most one row in each part: its largest amount is the batch's, or -1 if the batch does not have it.
    merged = both.group_by(names).aggregate([(_PLACE, "min"), (_ADDED, "max")])
    places, amounts = _whole(merged, f"{_PLACE}_min"), _whole(merged, f"{_ADDED}_max")
    hit = amounts >= 0
    return places[hit], amounts[hit]
