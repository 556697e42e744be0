"""Laws of a release that Spark could break by itself: what is cut, whose number is whose, and noise that is drawn once."""

from __future__ import annotations

import pyarrow as pa
from spark_tables import EVENTS, quiet

import dphist as dp
from dphist.mechanisms import CorrelatedGaussian
from spark_sessions import frame


def test_more_groups_than_the_sparsity_are_cut_on_spark() -> None:
    """The bound is public and nobody checks the data; groups that are not released stand between those that are."""
    sizes = {"a": 1, "b": 9, "c": 3, "d": 5, "e": 3}
    items = [item for item, size in sizes.items() for _ in range(size)]
    found = quiet(
        frame(pa.table({"user": range(len(items)), "item": items})),
        CorrelatedGaussian(3, 3, 1e-3, 0.5, 1.0),
        sparsity=3,
    )
    assert [(row["item"], row["count"]) for row in found.to_arrow().to_pylist()] == [("b", 6.0), ("d", 2.0)]


def test_reading_a_release_again_gives_the_same_noise() -> None:
    with dp.release(frame(EVENTS), unit="user", by="item", epsilon=9, delta=1e-3, max_groups=3) as found:
        first = found.to_arrow()
        assert first.num_rows > 2
        assert found.to_arrow() == first
        assert found.to_spark().toArrow() == first
