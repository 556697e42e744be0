"""Laws of a stream: what is released, what noise it carries, and what is on disk before anything is let out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import dphist as dp
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.files.locks import LockedFile
from dphist.run.stream import State
from word_sources import drawn_from


class Zero:
    """All words are zero: every law draws its middle, 0."""

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.zeros(count, dtype=np.uint64)


def stream(folder: Path) -> dp.Continual:
    return dp.Continual.start(folder, unit="user", by="page", rounds=20, max_groups=2, epsilon=2.0, delta=1e-6)


def counted(**sizes: int) -> Histogram:
    keys = pa.table({"page": list(sizes)})
    return Histogram(keys, np.array(list(sizes.values()), np.int64), ContributionBounds(2))


def test_a_group_is_released_strictly_above_the_threshold(tmp_path: Path) -> None:
    """Noise is on a lattice, so that equality has a probability, which delta does not pay for."""
    made = stream(tmp_path / "s")
    at = made.mechanism.threshold
    shown = drawn_from(Zero(), made.add_histogram, counted(below=at - 1, equal=at, above=at + 1), "one")
    assert shown.table["page"].to_pylist() == ["above"]
    assert shown.table["count"].to_pylist() == [at + 1]
    shown = drawn_from(Zero(), made.add_histogram, counted(equal=1), "two")
    assert shown.table["page"].to_pylist() == ["above", "equal"]


def test_a_new_group_has_the_noise_of_its_empty_nodes() -> None:
    """Every noise of every group was drawn for it alone: none is left out, none is used twice."""
    drawn = iter(range(1, 10**6))

    def draw(count: int) -> NDArray[np.int64]:
        return np.array([next(drawn) for _ in range(count)], np.int64)

    state = State({}, (), pa.table({}), np.zeros(0, np.int64), {})
    ended: set[int] = set()
    for number in range(1, 33):
        before = {value for values in state.noise.values() for value in values.tolist()}
        keys = pa.table({"key_1": ["always", f"new {number}"]})
        state = state.advanced(str(number), keys, np.array([1, 1]), draw)
        noises = [value for values in state.noise.values() for value in values.tolist()]
        assert set(state.noise) == {level for level in range(6) if number >> level & 1}
        assert all(len(values) == number + 1 for values in state.noise.values())
        assert min(noises) > 0
        assert len(set(noises)) == len(noises)
        assert not ended & set(noises)
        ended |= before - set(noises)
        assert state.noisy().tolist() == (state.counts + sum(state.noise.values())).tolist()


def test_a_round_is_on_disk_before_anything_of_it_is_let_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that was seen and is then drawn again would be two answers for the price of one."""
    made = stream(tmp_path / "s")
    before = {path: path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file()}

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(LockedFile, "replace", fails)
        with pytest.raises(OSError, match="No space"):
            made.add_histogram(counted(a=5000), "one")
    assert {path: path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file()} == before
    assert made.show().table.num_rows == made.round == 0
