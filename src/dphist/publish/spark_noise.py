"""What executors run: noise and threshold on the groups of one task, from the operating system's entropy of that machine.

Functions for `mapInArrow`. They get everything as parameters of a closure, which travels inside the task and is never printed:
Spark shows their names in plans and logs, not what they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pyarrow as pa

from dphist.engines.base import whole
from dphist.mechanisms import AdaptiveGaussian
from dphist.mechanisms.parts import perturb_part
from dphist.mechanisms.tuning import LATTICE_BITS
from dphist.noise.entropy import Entropy, SystemEntropy, allow_test_entropy
from dphist.planning import Plan
from dphist.publish.adaptive import estimated_columns
from dphist.publish.privatise import noisy_sums
from dphist.publish.result import Request
from dphist.publish.table import build_table, columns, row_order
from dphist.selection.counting import Norms, SumNoise, choose_caps, group_weights, noise_counts, noisy_counts
from dphist.selection.rounds import next_weights, noise_sums, passes

OnBatches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def noise_groups(plan: Plan, request: Request, shared: int, entropy: Entropy | None) -> OnBatches:
    """Exact counts and sums in, the released groups with their noisy values out, under the names `released_names` gives."""

    def add_noise_to_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with gate(entropy):
            for batch in batches:
                table = pa.Table.from_batches([batch])
                keys = [name for name in table.column_names if name.startswith("key_")]
                kept = perturb_part(plan.mechanism, whole(table, "units"), shared, entropy)
                sums = {
                    noisy.aggregate.name: whole(table, f"steps_{position}")
                    for position, noisy in enumerate(plan.aggregates, 1)
                }
                built = build_table(
                    table.select(keys).take(pa.array(kept.index)),
                    columns(plan, kept.counts, noisy_sums(plan, kept, sums, entropy)),
                    plan,
                    level=request.intervals,
                    integers=request.integers,
                    order="key",
                )
                yield from numbered(built, keys).to_batches()

    return add_noise_to_groups


def numbered(table: pa.Table, keys: list[str]) -> pa.Table:
    """The table under names that suit every file format: keys as they are, value_1, value_2, ... for the rest."""
    values = [f"value_{position}" for position in range(1, table.num_columns - len(keys) + 1)]
    return table.rename_columns([*keys, *values])


def gate(entropy: Entropy | None) -> AbstractContextManager[None]:
    """A source for tests was let in on the driver, or it would not be here; the worker is another process."""
    return nullcontext() if entropy is None or type(entropy) is SystemEntropy else allow_test_entropy()


Caps = tuple[float, float]


def noise_round(mechanism: AdaptiveGaussian, number: int, entropy: Entropy | None) -> OnBatches:
    """Fresh noise on every eligible group; then its next weight from its own sums, or in the last round the selection."""

    def add_noise_to_round(table: pa.Table) -> pa.Table:
        shares = mechanism.tuning.round_shares
        noisy = noise_sums(mechanism, number, whole(table, "exact"), entropy)
        total = whole(table, "total") + shares[number] * noisy
        first = noisy if number == 0 else whole(table, "first")
        keys = _keys(table)
        if number == len(shares) - 1:
            kept = np.flatnonzero(passes(mechanism, total))
            return keys.take(pa.array(kept)).append_column("first", pa.array(first[kept]))
        weights = next_weights(mechanism, number + 1, total)
        for name, values in (("total", total), ("first", first), ("weight", weights)):
            keys = keys.append_column(name, pa.array(values))
        return keys

    return _each(add_noise_to_round, entropy)


def weigh_groups(mechanism: AdaptiveGaussian) -> OnBatches:
    """The weights of the selected groups in the counts, from their noisy sums of round 1."""

    def weigh(table: pa.Table) -> pa.Table:
        return table.append_column("weight", pa.array(group_weights(_first_sums(table), mechanism.tuning)))

    return _together(weigh)


def caps_of_groups(mechanism: AdaptiveGaussian, norms: Norms) -> OnBatches:
    """One row: the norms to which units are scaled down in the main count and in the probe."""

    def choose(table: pa.Table) -> pa.Table:
        caps = choose_caps(mechanism, norms, whole(table, "weight"), _first_sums(table))
        return pa.table({"cap": pa.array([caps[0]]), "probe_cap": pa.array([caps[1]])})

    return _together(choose)


def noise_clipped(
    mechanism: AdaptiveGaussian, caps: Caps, sums: tuple[SumNoise, ...], entropy: Entropy | None
) -> OnBatches:
    """Noise on the clipped counts and sums of the selected groups."""

    def add_noise_to_counts(table: pa.Table) -> pa.Table:
        steps = {noise: whole(table, f"steps_{position}") for position, noise in enumerate(sums, 1)}
        main, probe, noisy = noise_counts(
            mechanism, caps, (whole(table, "main"), whole(table, "probe")), steps, entropy
        )
        made = _keys(table).append_column("weight", table.column("weight"))
        made = made.append_column("main", pa.array(main)).append_column("probe", pa.array(probe))
        for position, noise in enumerate(sums, 1):
            made = made.append_column(f"steps_{position}", pa.array(noisy[noise.name]))
        return made

    return _each(add_noise_to_counts, entropy)


def estimate_groups(plan: Plan, mechanism: AdaptiveGaussian, request: Request, norms: Norms, caps: Caps) -> OnBatches:
    """The released table, from noisy values alone."""

    def estimate_all(table: pa.Table) -> pa.Table:
        noisy = noisy_counts(
            mechanism,
            np.arange(table.num_rows),
            whole(table, "weight"),
            norms,
            caps,
            whole(table, "main"),
            whole(table, "probe"),
            {part.aggregate.name: whole(table, f"steps_{i}") for i, part in enumerate(plan.aggregates, 1)},
        )
        built = build_table(
            _keys(table),
            estimated_columns(plan, mechanism, noisy),
            plan,
            level=request.intervals,
            integers=request.integers,
            order="key",
        )
        return numbered(built, _keys(table).column_names)

    return _together(estimate_all)


def _each(work: Callable[[pa.Table], pa.Table], entropy: Entropy | None) -> OnBatches:
    """Batch by batch."""

    def on_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with gate(entropy):
            for batch in batches:
                yield from work(pa.Table.from_batches([batch])).to_batches()

    return on_batches


def _together(work: Callable[[pa.Table], pa.Table]) -> OnBatches:
    """All batches of the one task as one table, in the order of the keys: sums of doubles must not show another."""

    def on_all_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = list(batches)
        if found:
            table = pa.Table.from_batches(found)
            yield from work(table.take(row_order(table, _keys(table).column_names, "key"))).to_batches()

    return on_all_batches


def _keys(table: pa.Table) -> pa.Table:
    return table.select([name for name in table.column_names if name.startswith("key_")])


def _first_sums(table: pa.Table) -> np.typing.NDArray[np.float64]:
    return np.ldexp(whole(table, "first").astype(np.float64), -LATTICE_BITS)
