"""Histograms, measures and bounds: what they refuse and what they hide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dphist.aggregates.count import RowsOfUnit
from dphist.aggregates.mean import Mean, MeanOfUnit
from dphist.aggregates.measures import Lattice
from dphist.aggregates.noisy_sums import NoisySum
from dphist.aggregates.total import SumOfUnit
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.errors import InvalidParameter

KEYS = pa.table({"country": ["secret", "x"]})
COUNTS = np.array([3, 1])


def test_the_representation_shows_no_data() -> None:
    histogram = Histogram(KEYS, np.array([4711, 1]), ContributionBounds(2))
    assert (
        repr(histogram) == "Histogram(by=['country'], sums=[], bounds=ContributionBounds(max_groups=2, sparsity=None))"
    )


def test_arrays_cannot_be_changed() -> None:
    histogram = Histogram(KEYS, COUNTS, ContributionBounds())
    with pytest.raises(ValueError, match="read-only"):
        histogram.counts[0] = 5


def test_shapes_are_checked() -> None:
    rows = RowsOfUnit(None, 0.0, 3.0, lattice=Lattice(1.5, 0.5))
    for build in (
        lambda: Histogram(KEYS, np.array([1]), ContributionBounds()),
        lambda: Histogram(KEYS, np.array([1.0, 2.0]), ContributionBounds()),
        lambda: Histogram(KEYS, COUNTS, ContributionBounds(), {"rows": np.array([1, 2])}),
        lambda: Histogram(KEYS, COUNTS, ContributionBounds(), {}, (rows,)),
        lambda: Histogram(KEYS, COUNTS, ContributionBounds(), {"rows": np.array([1])}, (rows,)),
        lambda: Histogram(pa.table({}), np.array([], dtype=np.int64), ContributionBounds()),
        lambda: ContributionBounds(0),
        lambda: ContributionBounds(sparsity=-1),
    ):
        with pytest.raises(InvalidParameter):
            build()


def test_taking_groups_takes_everything_along() -> None:
    rows = RowsOfUnit(None, 0.0, 3.0, lattice=Lattice(1.5, 0.5))
    histogram = Histogram(KEYS, COUNTS, ContributionBounds(1), {"rows": np.array([7, 8])}, (rows,), total_units=4)
    taken = histogram.take(np.array([1]))
    assert taken.keys.to_pydict() == {"country": ["x"]}
    assert taken.counts.tolist() == [1]
    assert taken.sums["rows"].tolist() == [8]
    assert taken.total_units == 4
    assert taken.key_names == ("country",)


@pytest.mark.parametrize(
    "changed",
    [
        {"column": None},
        {"lower": 10.0},
        {"upper": float("inf")},
        {"lower": float("nan")},
        {"lattice": Lattice(11.0, 1.0)},
        {"lattice": Lattice(5.0, 0.3)},
        {"lattice": Lattice(5.0, 0.0)},
        {"lattice": Lattice(5.0, 2.0**-39)},
        {"weight": 0.0},
        {"kind": MeanOfUnit, "lower": 1e12, "upper": 1e12 + 10},
    ],
)
def test_measures_are_checked(changed: dict[str, Any]) -> None:
    right: dict[str, Any] = {"column": "v", "lower": 0.0, "upper": 10.0}
    assert SumOfUnit(**right).lattice == Lattice(5.0, 2.0**-17)
    kind = changed.pop("kind", SumOfUnit)
    with pytest.raises(InvalidParameter):
        kind(**{**right, **changed})


@pytest.mark.parametrize(("bound", "power"), [(1.0, 0), (1.5, 1), (2.0, 1), (1e6, 20), (2.0**-900, -900)])
def test_the_lattice_of_records(bound: float, power: int) -> None:
    measure = SumOfUnit("v", -bound, bound, lattice=Lattice(0.0, 2.0 ** (power - 20)))
    assert measure.record_step == 2.0 ** (power - 40)


@pytest.mark.parametrize("shared", ["dictionary", "string_view", "binary_view"])
def test_keys_bring_no_dictionary_and_no_shared_buffer_along(shared: str) -> None:
    """A released row would else carry the keys that were not released."""
    plain = pa.array(["released and quite long", "hidden and just as long"])
    keys = plain.dictionary_encode() if shared == "dictionary" else plain.cast(getattr(pa, shared)())
    made = Histogram(pa.table({"key": keys}), np.array([5, 1]), ContributionBounds(1))
    sink = pa.BufferOutputStream()
    table = made.take(np.array([0])).keys
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    assert b"released" in sink.getvalue().to_pybytes()
    assert b"hidden" not in sink.getvalue().to_pybytes()


def test_the_far_bound_decides() -> None:
    """A centre that is not in the middle: a unit moves the sum as far as the bound that is farther away."""
    for centre in (2.0, 8.0):
        aggregate = SumOfUnit("v", 0.0, 10.0, lattice=Lattice(centre, 1.0))
        assert aggregate.sensitivity_steps == 8
        assert aggregate.sensitivity == 8.0


def test_a_mean_is_cut_to_its_bounds() -> None:
    mean = Mean("v", 0.0, 10.0)
    values = np.array([-900.0, 0.0, 900.0]), np.full(3, 5.0)
    (column,) = mean.columns(
        {
            measure.name: NoisySum(measure, part, (np.ones(3),), np.full(3, 10.0), 1.0)
            for measure, part in zip(mean.measures, values, strict=True)
        }
    )
    assert column.values.tolist() == [0.0, 5.0, 10.0]
