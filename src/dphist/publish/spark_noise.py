"""What executors run: noise and threshold on the groups of one task, from the operating system's entropy of that machine.

Functions for `mapInArrow`. They get everything as parameters of a closure, which travels inside the task and is never printed:
Spark shows their names in plans and logs, not what they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import pyarrow as pa

from dphist.engines.counted import whole
from dphist.mechanisms.parts import perturb_part
from dphist.noise.entropy import Entropy, SystemEntropy, allow_test_entropy
from dphist.planning import Plan
from dphist.publish.columns import columns
from dphist.publish.privatise import noisy_sums
from dphist.publish.released import Request
from dphist.publish.table import build_table

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
