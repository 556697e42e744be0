"""A stream of running counts: its state, and what each round published.

The state has true counts and the noise of the tree's nodes that the present round is made of.

After t rounds the nodes that make up 1..t are at the levels of the set bits of t. One round more ends the nodes at
the lowest levels, whose bits are cleared, and begins one at the level of the lowest set bit of t + 1; a node that has
ended is never used again. So a group needs its count and one noise for each set bit, and a round draws one noise for
every group known, however many rounds there were. A group that is new draws the noise of its earlier, empty nodes
when it appears.

Arrow tables in private files have a checksum behind them: Arrow's reader is no judge of damaged bytes.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dphist import checks
from dphist.columns import Unit, unit_in_words, unit_of
from dphist.engines.query import GroupByQuery, NullKeys, parse_key
from dphist.errors import InvalidParameter
from dphist.files import stored
from dphist.files.locks import LockedFile, remove_partial, replace_private
from dphist.files.outputs import near
from dphist.files.systems import no_core_dumps
from dphist.ledger.charge import Receipt
from dphist.mechanisms import ContinualCounts
from dphist.planning.describe import stream_guarantee
from dphist.run.record import StreamRecord, names_of
from dphist.run.release import Published
from dphist.words import enough, number

Integers = NDArray[np.int64]
_COUNT, _ADDED, _PLACE = "count", "added", "place"
_METADATA = b"dphist"
_FORMAT, _VERSION = "dphist-continual", 2
ROUNDS: Final = "rounds"
"""The folder of what was released in each round, beside the state."""

MOST_KEPT: Final = 1000
"""So many of the largest released counts of a round are kept for pictures."""

MOST_DRAWN: Final = 400
_MOST_BYTES: Final = 2 << 30
"""Of a file of one round: so many keys of any length."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class State:
    """Everything a stream remembers. True values: nothing here is safe to print.

    keys has the columns key_1, key_2, ...; noise maps the levels of the set bits of the round to one value per group.
    created: when the stream began, or its last round was drawn.
    """

    settings: dict[str, Any]
    batches: tuple[str, ...]
    keys: pa.Table
    counts: Integers
    noise: dict[int, Integers]
    created: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))

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
            raise InvalidParameter(
                "keys of the same types as in earlier batches", "others", "convert them with --by or --type."
            )
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
        """Write the state as an Arrow file with a checksum."""
        table = self.keys.append_column(_COUNT, pa.array(self.counts))
        for level, values in self.noise.items():
            table = table.append_column(_noise(level), pa.array(values))
        record = {
            "format": _FORMAT, "version": _VERSION, "settings": self.settings, "batches": self.batches,
            "created": self.created.isoformat(),
        }  # fmt: skip
        write_sealed(table.replace_schema_metadata({_METADATA: json.dumps(record, allow_nan=False)}), sink)

    @classmethod
    def load(cls, path: Path, file: LockedFile | None = None) -> State:
        """Read a state back: the one in the file that is locked, or at the path. A copy: nothing may change under it."""
        no_core_dumps()
        try:
            content = path.read_bytes() if file is None else file.read()
        except (FileNotFoundError, NotADirectoryError):
            hint = f"{near(path.parent)} dphist continual start makes one."
            raise InvalidParameter(f"a stream at {path.parent}", "none", hint) from None
        except OSError as problem:
            raise InvalidParameter(f"a readable state at {path}", type(problem).__name__) from None
        table = read_sealed(content, str(path))
        text = (table.schema.metadata or {}).get(_METADATA, b"")
        data = stored.parse(text, str(path), most=len(content))
        if data.get("format") == _FORMAT:
            stored.check_version(data.get("version"), _VERSION, f"a stream in {path}", "start a new stream")
        record = stored.build(_Record, data, str(path))
        return cls._from_table(table, data["settings"], record, str(path), _time_of(record, path))

    @classmethod
    def _from_table(
        cls, table: pa.Table, settings: dict[str, Any], record: _Record, source: str, created: dt.datetime
    ) -> State:
        """The columns that a stream has after so many rounds, and no others."""
        rounds = len(record.batches)
        levels = [level for level in range(rounds.bit_length()) if rounds >> level & 1]
        keys = [f"key_{place}" for place in range(1, len(record.settings.by) + 1)] if rounds else []
        expected = [*keys, _COUNT, *map(_noise, levels)]
        if sorted(table.column_names) != sorted(expected):
            raise InvalidParameter(f"a state in {source} with the columns of its round", "others")
        for name in (_COUNT, *map(_noise, levels)):
            column = table.column(name)
            if column.type != pa.int64() or column.null_count:
                raise InvalidParameter(f"whole numbers as {name} in {source}", "others")
        counts, noise = _whole(table, _COUNT), {level: _whole(table, _noise(level)) for level in levels}
        most = sum(_largest(values) for values in (counts, *noise.values()))
        if most >= 2**63 or (len(counts) and counts.min() < 0) or (len(counts) and not rounds):
            raise InvalidParameter(f"counts in {source} that a stream can have", "others")
        return cls(settings, record.batches, table.select(keys).replace_schema_metadata(None), counts, noise, created)


@dataclass(frozen=True, slots=True)
class _Settings:
    """On which terms a stream was started. The mechanism is checked where it is built."""

    unit: Unit
    by: tuple[str, ...]
    where: str | None
    null_keys: NullKeys
    epsilon: float
    delta: float
    mechanism: dict[str, Any]
    ledger: Receipt | None = None

    def __post_init__(self) -> None:
        checks.check_epsilon(self.epsilon)
        checks.check_delta(self.delta)
        GroupByQuery(self.unit, tuple(map(parse_key, self.by)), where=self.where, null_keys=self.null_keys)


@dataclass(frozen=True, slots=True)
class _Record:
    """What stands beside the table."""

    format: Literal["dphist-continual"]
    version: Literal[2]
    settings: _Settings
    batches: tuple[str, ...]
    created: str

    def __post_init__(self) -> None:
        if len(set(self.batches)) < len(self.batches):
            raise InvalidParameter("batches with different names", "others")


def _time_of(record: _Record, path: Path) -> dt.datetime:
    """When the stream began or its last round was drawn."""
    try:
        return dt.datetime.fromisoformat(record.created).astimezone(dt.UTC)
    except (ValueError, OverflowError):
        raise InvalidParameter(f"a time in {path}", "another text") from None


def _noise(level: int) -> str:
    return f"noise_{level}"


def _largest(values: Integers) -> int:
    return max(int(values.max()), -int(values.min())) if len(values) else 0


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


_END: Final = b"ARROW1"
_SEAL: Final = b"\ndphist-sha256:"
_LENGTH: Final = len(_SEAL) + 64


class _Hashed:
    """A sink that remembers the digest of what went through."""

    closed = False

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._hash = hashlib.sha256()
        self._length = 0

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self._length += len(data)
        return self._sink.write(data)

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        """Nothing is kept back."""

    def seal(self) -> None:
        self._sink.write(_SEAL + self._hash.hexdigest().encode())


def write_sealed(table: pa.Table, sink: BinaryIO) -> None:
    """The table as an Arrow file, and SHA-256 over all of it."""
    hashed = _Hashed(sink)
    with pa.ipc.new_file(hashed, table.schema) as writer:
        writer.write_table(table)
    hashed.seal()


def read_sealed(content: bytes, source: str) -> pa.Table:
    """The table. Nothing is parsed before the checksum is compared, so that every flipped bit is told."""
    damaged = InvalidParameter(f"an undamaged file {source}", "another one", "it is not what dphist wrote.")
    if content.endswith(_END):
        hint = "it was cut off, or an older dphist wrote the file; start a new stream."
        raise InvalidParameter(f"the checksum of {source}", "none", hint)
    body = memoryview(content)[:-_LENGTH]
    if content[-_LENGTH:] != _SEAL + hashlib.sha256(body).hexdigest().encode():
        raise damaged
    try:
        table = pa.ipc.open_file(pa.py_buffer(body)).read_all()
        table.validate(full=True)
        _ = table.column_names  # may be no UTF-8
    except (pa.ArrowException, OSError, ValueError):
        raise damaged from None
    return table


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
