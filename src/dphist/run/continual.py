"""A private running count per group over batches [Rogers24, Theorem 11]: state on disk, crash-safe, replay-safe."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dphist import checks, notebook
from dphist.columns import Unit, unit_of
from dphist.engines import files_of
from dphist.engines.base import Engine, Progress
from dphist.engines.histogram import ContributionBounds, Histogram, row_order
from dphist.engines.query import GroupByQuery, NullKeys, PerformanceSettings, parse_key
from dphist.errors import InvalidParameter
from dphist.files import systems
from dphist.files.interruption import UNCHARGED, account_for, undone
from dphist.files.locks import LockedFile, check_single_name, creating, locked
from dphist.files.outputs import as_path, check_companion
from dphist.ledger.charge import charging, check_paid, receipt_of, terms_hash
from dphist.ledger.heads import check_heads
from dphist.mechanisms import ContinualCounts
from dphist.mechanisms.continual import calibrate
from dphist.planning.describe import check_neighbours, layout
from dphist.planning.plan import STD_ERROR
from dphist.planning.spends import Calibrated, Spend, spend_of_mechanism
from dphist.run.job import choose_engine
from dphist.run.stream import RunningCounts, State, facts, is_recorded

STATE = "state.arrow"
_IN = "The batch {batch!a} is in, as round {round:,}; dphist continual show prints and writes its counts, at no cost."


class Continual:
    """A stream of batches with a private running count per group; the folder at `path` is the only state.

    The folder holds TRUE counts and the noise: whoever reads it learns both. It is readable by its owner alone.
    Copying it and adding different batches to the two copies would reuse noise: never do that.

    Args:
        path: the folder of a stream that `start` began.

    Raises:
        InvalidParameter: there is no stream, or it was changed.

    Example:
        >>> stream = dp.Continual.start("days", unit="user", by="item", rounds=365, max_groups=1, epsilon=1, delta=1e-8)
        >>> stream.round
        0
    """

    def __init__(self, path: str | Path) -> None:
        self.path = as_path(path)
        self._state()

    @classmethod
    def start(
        cls,
        path: str | Path,
        *,
        unit: str | Sequence[str],
        by: str | Sequence[str],
        rounds: int,
        max_groups: int,
        epsilon: float,
        delta: float,
        where: str | None = None,
        null_keys: NullKeys = "group",
        neighbours: str = "add-remove",
        ledger: str | Path | None = None,
        dataset: str | None = None,
    ) -> Continual:
        """Begin a stream of at most `rounds` batches. Protected is one event: what one unit adds in one round.

        Each batch counts a unit once in at most max_groups of its groups. A unit in several rounds is protected for each
        round by itself, not for all of them together.

        Args:
            path: a new folder.
            unit: who is protected, as for `dphist.release`.
            by: the columns that make the groups.
            rounds: how many batches there will be at most; it sets the noise.
            max_groups: in how many groups one unit counts in each batch.
            epsilon: how much one event may change the odds of all counts together.
            delta: the probability of failure that is allowed.
            where: an SQL condition on a record's own columns.
            null_keys: ``group`` or ``drop``.
            neighbours: ``add-remove``, the only notion of neighbours.
            ledger: where all rounds are charged now, once, to a data set that protects events.
            dataset: the data set of the ledger that pays.

        Returns:
            The stream.

        Raises:
            InvalidParameter: a value outside its domain, or a folder that cannot be used.
            BudgetExceeded: it does not fit into what is left of the data set's budget.

        Example:
            >>> dp.Continual.start("new", unit="user", by="item", rounds=7, max_groups=1, epsilon=1, delta=1e-8)
            Continual('new')
        """
        check_neighbours(neighbours)
        checks.check_budget(epsilon, delta)
        names = [by] if isinstance(by, str) else list(by)
        mechanism = calibrate(epsilon, delta, rounds, max_groups)
        query = _query(unit_of(unit), names, where, null_keys)
        protected, keys = query.unit, query.by
        if clash := {key.name for key in keys} & {"count", "count" + STD_ERROR}:
            raise InvalidParameter("keys with other names than the released columns", sorted(clash))
        settings = {
            "unit": protected, "by": names, "where": where, "null_keys": null_keys,
            "epsilon": epsilon, "delta": delta, "mechanism": mechanism.parameters(),
        }  # fmt: skip
        terms = terms_hash(settings)
        folder = as_path(path)
        if not folder.resolve().parent.is_dir():
            raise InvalidParameter("an existing folder around the stream's own", str(folder.parent), "create it first.")
        check_companion(folder)
        check_heads(ledger, dataset, (folder,))

        def spend() -> Spend:
            facts = {"rounds": rounds, "max_groups": max_groups, "stream": folder.name, "terms": terms}
            return spend_of_mechanism("continual", Calibrated(mechanism, epsilon, delta), protected, facts, "event")

        with _creating(folder) as file, charging(ledger, dataset, spend) as charge:
            state = State({**settings, "ledger": receipt_of(charge)}, (), pa.table({}), np.zeros(0, np.int64), {})
            file.replace(state.save)
            os.chmod(folder, 0o700)  # not before: a folder of a stream that was not started stays as it was
            if charge is not None:
                charge.confirm(folder)
        return cls(folder)

    def _state(self, file: LockedFile | None = None) -> State:
        check_single_name(self.path / STATE)
        state = State.load(self.path / STATE, file)
        _mechanism(state)
        return state

    def _durable(self, file: LockedFile) -> State:
        """The state, on disk to stay: a round that a loss of power took back would be drawn again with other noise."""
        state = self._state(file)
        file.make_durable()
        return state

    @property
    def mechanism(self) -> ContinualCounts:
        """Noise and threshold."""
        return _mechanism(self._state())

    @property
    def receipt(self) -> dict[str, Any] | None:
        """The entry of the ledger that paid for all rounds; None if nothing was recorded."""
        found: dict[str, Any] | None = self._state().settings.get("ledger")
        return found

    @property
    def round(self) -> int:
        """How many batches are in."""
        return self._state().round

    @property
    def batches(self) -> tuple[str, ...]:
        """The names of the batches that are in, to stay."""
        with locked(self.path / STATE) as file:
            return self._durable(file).batches

    def add(
        self,
        source: object,
        batch: str,
        *,
        settings: PerformanceSettings | None = None,
        engine: Engine | None = None,
        ledger: str | Path | None = None,
        progress: Progress | None = None,
    ) -> RunningCounts:
        """Take in one batch under a name of its own and return the counts after it.

        When this returns, the round is on disk; if the process dies before, the round has happened or not, never half:
        `batches` says which.

        Args:
            source: what to read, as for `dphist.release`.
            batch: its name; one that was used before is refused, so a batch that is sent twice is counted once.
            settings: threads and memory.
            engine: such as a `dphist.SparkEngine`.
            ledger: the stream is first compared with the entry that paid for it; nothing is charged.
            progress: is called with the name of each phase.

        Returns:
            The counts after this round.

        Raises:
            InvalidParameter: the batch is in already, or all rounds are used.

        Example:
            >>> stream = dp.Continual.start("shop", unit="user", by="item", rounds=7, max_groups=1, epsilon=1, delta=1e-8)
            >>> stream.add("monday.parquet", "2026-01-05").to_arrow().column("item").to_pylist()[0]
            'bread'
            >>> stream.batches
            ('2026-01-05',)
        """
        with locked(self.path / STATE) as file:
            state = self._checked(file, batch, ledger)
            asked = state.settings
            query = _query(unit_of(asked["unit"]), asked["by"], asked["where"], asked["null_keys"])
            bounds = ContributionBounds(_mechanism(state).max_groups)
            with choose_engine(source, engine, settings).open(source, query, progress=progress) as records:
                counted = records.histogram(bounds)
            released = self._commit(file, state, batch, counted)
        return replace(released, inputs=files_of(source))

    def add_histogram(self, histogram: Histogram, batch: str, *, ledger: str | Path | None = None) -> RunningCounts:
        """The same with a histogram that an engine has bounded already.

        Args:
            histogram: units per group.
            batch: its name.
            ledger: the stream is first compared with the entry that paid for it; nothing is charged.

        Returns:
            The counts after this round.

        Raises:
            InvalidParameter: the batch is in already, all rounds are used, or the histogram is bounded otherwise.

        Example:
            >>> import numpy as np, pyarrow as pa
            >>> from dphist.engines.histogram import ContributionBounds, Histogram
            >>> stream = dp.Continual.start("bounded", unit="user", by="item", rounds=7, max_groups=1, epsilon=1, delta=1e-8)
            >>> batch = Histogram(pa.table({"item": ["tea"]}), np.array([5000]), ContributionBounds(max_groups=1))
            >>> stream.add_histogram(batch, "monday").to_arrow().column("item").to_pylist()
            ['tea']
        """
        with locked(self.path / STATE) as file:
            state = self._checked(file, batch, ledger)
            histogram.require(max_groups=_mechanism(state).max_groups)
            return self._commit(file, state, batch, histogram)

    def _checked(self, file: LockedFile, batch: str, ledger: str | Path | None) -> State:
        """The state, if it can take this batch."""
        state = self._state(file)
        terms = {name: value for name, value in state.settings.items() if name != "ledger"}
        check_paid(ledger, state.settings.get("ledger"), terms, "stream")
        if not is_recorded(self.path, state.round):  # the process died behind its round
            _release(state, self.path).keep()
        if not batch:
            raise InvalidParameter("a name for the batch", "nothing")
        if batch in state.batches:
            raise InvalidParameter("a batch that is not in yet", repr(batch), "each batch is counted once.")
        if state.round >= _mechanism(state).rounds:
            raise InvalidParameter(
                f"at most {_mechanism(state).rounds} rounds, as declared", state.round + 1, "start a new stream."
            )
        return state

    def _commit(self, file: LockedFile, state: State, batch: str, histogram: Histogram) -> RunningCounts:
        """Draw the noise of the round, make it durable, and only then let anything out."""
        mechanism = _mechanism(state)
        names = [f"key_{i}" for i in range(1, histogram.keys.num_columns + 1)]
        keys = histogram.keys.rename_columns(names).replace_schema_metadata(None)
        # Saturated here, in the leaf of the tree: one event then moves the same nodes by at most 1 as without a limit. A limit
        # on running counts would not do: where they reach it, one event also moves the nodes of that later round.
        added = np.minimum(histogram.counts, mechanism.most_per_round)
        after = state.advanced(batch, keys, added, mechanism.draw)
        words = f"{UNCHARGED} {_IN.format(batch=batch, round=after.round)}"
        file.replace(after.save, lambda: account_for(lambda: words))
        released = _release(after, self.path)
        released.keep()
        return released

    def show(self) -> RunningCounts:
        """The counts after the last round, as they were released then: no new noise, no cost.

        Returns:
            The counts.

        Example:
            >>> dp.Continual("shown").show().round
            1
        """
        with locked(self.path / STATE) as file:
            released = _release(self._durable(file), self.path)
            released.keep()
        return released

    def __repr__(self) -> str:
        return f"Continual({str(self.path)!r})"

    def __str__(self) -> str:
        return layout(*self._told())

    def _repr_html_(self) -> str:
        used, rounds = self.round, self.mechanism.rounds
        return notebook.card(*self._told(), notebook.share(used / rounds, f"{used:,} of {rounds:,} rounds used"))

    def _told(self) -> tuple[str, list[tuple[str, str]]]:
        state = self._state()
        return "Stream: running counts per group", facts(_mechanism(state), state.settings, state.round)


@contextmanager
def _creating(folder: Path) -> Iterator[LockedFile]:
    """The place of a new state. If that is refused, the folder is as it was: not there, or untouched."""

    def make() -> bool:
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            return False
        return True

    def remove(new: bool) -> None:
        if new:
            with suppress(OSError):  # it is not empty: a stream has begun in it
                folder.rmdir()

    with undone(make, remove):
        if not folder.is_dir():
            raise InvalidParameter("a folder for the stream", f"the file {str(folder)!r}")
        if not systems.is_ours(folder.stat()):  # which only its owner can make private, after the charge
            raise InvalidParameter("a folder of your own for the stream", "one of another user", "name a new one.")
        with creating(folder / STATE, "stream") as file:
            yield file


def _query(unit: Unit, by: Sequence[str], where: str | None, null_keys: NullKeys) -> GroupByQuery:
    return GroupByQuery(unit, tuple(parse_key(name) for name in by), where=where, null_keys=null_keys)


def _mechanism(state: State) -> ContinualCounts:
    mechanism = ContinualCounts.from_data(state.settings["mechanism"], "the settings of the stream")
    if _delta(mechanism, state.settings["epsilon"]) > state.settings["delta"]:
        raise InvalidParameter("a stream whose guarantee holds", "one whose settings were changed")
    if state.round > mechanism.rounds:
        raise InvalidParameter("a stream with at most the rounds that it declared", "more")
    return mechanism


@lru_cache(maxsize=64)
def _delta(mechanism: ContinualCounts, epsilon: float) -> float:
    return mechanism.proved_delta(epsilon)


def _release(state: State, folder: Path) -> RunningCounts:
    """What is above the threshold, in an order of noisy counts and keys: a function of the state alone."""
    mechanism, asked = _mechanism(state), state.settings
    names = [parse_key(name).name for name in asked["by"]]
    noisy = state.noisy()
    kept = np.flatnonzero(noisy > mechanism.threshold)
    if state.round == 0:
        keys = pa.table({name: pa.array([], pa.null()) for name in names})
    else:
        keys = state.keys.take(pa.array(kept)).rename_columns(names)
    table = keys.append_column("count", pa.array(noisy[kept]))
    table = table.append_column("count" + STD_ERROR, pa.array(np.full(len(kept), mechanism.std_at(state.round))))
    table = table.take(row_order(table, names, "count"))
    return RunningCounts(table, state.round, asked, mechanism, state.created, folder)
