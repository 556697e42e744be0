"""`dp.Continual` and `dphist continual`: the tree's noise, replays, restarts, permissions."""

import datetime as dt
import json
import math
import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from scipy.stats import chi2

import dphist as dp
from command_line import dphist, examples_of
from dphist.cli.app import app
from dphist.cli.lists import continual as streams
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.errors import InvalidParameter
from dphist.files.formats import write_table
from dphist.files.locks import locked
from dphist.mechanisms import ContinualCounts
from dphist.noise import DiscreteGaussian, RoundedGaussian
from dphist.noise.testing import SeededEntropy
from dphist.privacy.composition import smallest_std
from dphist.run.continual import STATE
from dphist.run.stream import State, read_sealed, write_sealed
from drawn_laws import recorded
from word_sources import drawn_from

BUDGET = {"epsilon": 2.0, "delta": 1e-6}


def stream(path: Path, rounds: int = 20, **options: object) -> dp.Continual:
    return dp.Continual.start(path, unit="user", by="page", rounds=rounds, max_groups=2, **BUDGET, **options)  # type: ignore[arg-type]


def batch(**groups: int) -> pa.Table:
    """A table in which each group has so many units of its own."""
    pages = [page for page, number in groups.items() for _ in range(number)]
    return pa.table({"user": pa.array(range(len(pages)), pa.int64()), "page": pa.array(pages, pa.string())})


def test_running_counts_and_new_groups(tmp_path: Path) -> None:
    made = stream(tmp_path / "s")
    assert made.show().table.num_rows == 0
    made.add(batch(a=900, b=3), "day 1")
    later = made.add(batch(a=100, b=4, c=700), "day 2")
    rows = {row["page"]: row for row in later.table.to_pylist()}
    assert set(rows) == {"a", "c"}
    assert abs(rows["a"]["count"] - 1000) < 7 * rows["a"]["count_std_error"]
    assert abs(rows["c"]["count"] - 700) < 7 * rows["c"]["count_std_error"]
    again = dp.Continual(tmp_path / "s").show()
    assert again.to_arrow() is again.table
    assert again.table == later.table  # no new noise
    assert (made.round, made.batches) == (2, ("day 1", "day 2"))
    assert "what one unit adds in one round" in later.metadata()["guarantee"]
    empty = made.add(batch(), "day 3")
    assert {row["page"] for row in empty.table.to_pylist()} >= {"a"}


def test_what_is_shown_again_has_the_time_of_its_round(tmp_path: Path) -> None:
    made = stream(tmp_path / "s")
    added = made.add(batch(a=900), "day 1")
    assert made.show().metadata() == added.metadata()
    state = replace(State.load(made.path / STATE), created=dt.datetime(2020, 2, 29, 12, 30, 1, 7, dt.UTC))
    with (made.path / STATE).open("wb") as sink:
        state.save(sink)
    for shown in (dp.Continual(made.path).show(), made.show()):
        assert shown.metadata()["created"] == "2020-02-29T12:30:01+00:00"
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        made.show().write(tmp_path / name / "out.parquet")
    written = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("first", "second")]
    assert written[0] == written[1]
    printed = [dphist("continual", "show", "s", "--json", cwd=tmp_path).stdout for _ in range(2)]
    assert printed[0] == printed[1]


def test_a_state_without_a_time_is_refused(tmp_path: Path) -> None:
    made = stream(tmp_path / "s")
    table = read_sealed((made.path / STATE).read_bytes(), STATE)
    record = json.loads(table.schema.metadata[b"dphist"])
    for created, told in ((None, r"a valid created in .*state\.arrow"), ("yesterday", r"a time in .*state\.arrow")):
        kept = {name: value for name, value in record.items() if name != "created"}
        kept |= {} if created is None else {"created": created}
        with (made.path / STATE).open("wb") as sink:
            write_sealed(table.replace_schema_metadata({b"dphist": json.dumps(kept)}), sink)
        with pytest.raises(InvalidParameter, match=told):
            made.show()


def test_a_batch_sent_twice_is_refused(tmp_path: Path) -> None:
    made = stream(tmp_path / "s")
    made.add(batch(a=900), "monday")
    before = (tmp_path / "s" / "state.arrow").read_bytes()
    with pytest.raises(InvalidParameter, match="not in yet, got 'monday'"):
        made.add(batch(a=900), "monday")
    with pytest.raises(InvalidParameter, match="a name for the batch"):
        made.add(batch(a=900), "")
    assert (tmp_path / "s" / "state.arrow").read_bytes() == before


def test_no_more_rounds_than_declared(tmp_path: Path) -> None:
    made = stream(tmp_path / "s", rounds=2)
    for name in "ab":
        made.add(batch(a=5), name)
    with pytest.raises(InvalidParameter, match="at most 2 rounds"):
        made.add(batch(a=5), "c")


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    stream(tmp_path / "s").add(batch(a=5), "one")
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "s" / "rounds").stat().st_mode & 0o777 == 0o700
    files = [file for file in (tmp_path / "s").rglob("*") if file.is_file()]
    assert {file.name for file in files} == {"state.arrow", "0000001.arrow"}
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    made = stream(tmp_path / "s")
    (tmp_path / "s" / ".state.arrow.xyz.partial").write_text("half")
    made.add(batch(a=5), "one")
    assert not list((tmp_path / "s").glob("*.partial"))
    with locked(tmp_path / "s" / "state.arrow"):
        for use in (lambda: made.add(batch(a=5), "two"), made.show, lambda: made.batches):
            with pytest.raises(InvalidParameter, match="another process"):
                use()


def test_nothing_is_shown_before_it_is_on_disk_to_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may have died between putting the state in its place and making that durable."""
    made = stream(tmp_path / "s")
    made.add(batch(a=900), "one")
    synced: list[Path] = []
    descriptors = os.fsync

    def fsync(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())
        descriptors(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    folder = (tmp_path / "s").resolve()
    for use in (made.show, lambda: made.batches):
        synced.clear()
        use()
        assert synced == [folder / "state.arrow", folder]


def test_a_second_name_of_the_state_is_refused(tmp_path: Path) -> None:
    made = stream(tmp_path / "s")
    made.add(batch(a=900), "one")
    state = tmp_path / "s" / "state.arrow"
    other = tmp_path / "other"
    other.hardlink_to(state)
    for use in (lambda: made.add(batch(a=5), "two"), made.show, lambda: dp.Continual(tmp_path / "s")):
        with pytest.raises(InvalidParameter, match="file with one name"):
            use()
    other.unlink()
    assert made.round == 1
    state.rename(other)
    state.symlink_to(other)
    with pytest.raises(InvalidParameter, match="file with one name"):
        made.show()


def test_counts_are_cut_in_their_round_and_never_overflow(tmp_path: Path) -> None:
    """2^61 over all rounds; above 2^40, where running counts once were cut, nothing is lost."""
    made = stream(tmp_path / "s", rounds=3)
    most = made.mechanism.most_per_round
    assert most == 2**61 // 3
    keys = pa.table({"page": ["a", "b"]})
    for number in "123":
        counts = np.array([2**63 - 1, 2**41], np.int64)
        shown = made.add_histogram(Histogram(keys, counts, ContributionBounds(2)), number)
    rows = {row["page"]: row["count"] for row in shown.to_arrow().to_pylist()}
    assert abs(rows["a"] - 3 * most) < 10**4
    assert abs(rows["b"] - 3 * 2**41) < 10**4


def test_what_a_round_released_is_kept_for_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = stream(tmp_path / "s")
    assert made.show().history() == []
    assert "over the rounds" not in made.show().html()
    for number in range(1, 6):
        shown = made.add(batch(a=900, **{"b<": 300 * number}), str(number))
        assert [past for past, _ in shown.history()] == list(range(1, number + 1))
        assert shown.history()[-1][1] == shown.table
    (tmp_path / "s" / "rounds" / "0000005.arrow").unlink()  # as if the process had died behind its round
    assert [past for past, _ in dp.Continual(tmp_path / "s").show().history()] == [1, 2, 3, 4, 5]
    (tmp_path / "s" / "rounds" / "0000005.arrow").unlink()
    shown = made.add(batch(a=1), "6")
    assert [past for past, _ in shown.history()] == [1, 2, 3, 4, 5, 6]
    size = max(path.stat().st_size for path in (tmp_path / "s" / "rounds").iterdir())
    monkeypatch.setattr("dphist.run.stream._MOST_BYTES", size - 1)
    with pytest.raises(InvalidParameter, match="a round of at most"):
        shown.history()
    monkeypatch.setattr("dphist.run.stream._MOST_BYTES", size)
    shown.report(tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text()
    assert page.count("<polyline") == page.count("<polygon") == 2
    assert f"threshold of {made.mechanism.threshold:,}" in page
    assert "b&lt;" in page
    assert "b<" not in page
    assert "round 6 of 20" in page
    assert len(shown.to_pandas()) == len(shown.to_polars()) == 2


def test_files_can_be_verified(tmp_path: Path) -> None:
    made = stream(tmp_path / "s")
    for number in "12345":
        shown = made.add(batch(a=900, b=500), number)
    for name in ("out.parquet", "out.csv", "out.json"):
        shown.write(tmp_path / name)
        assert all(check.passed for check in dp.verify(tmp_path / name))
    good = shown.metadata()

    def failed(table: pa.Table, **changes: object) -> set[str]:
        write_table(table, {**good, **changes}, tmp_path / "wrong.parquet", overwrite=True)
        return {check.name for check in dp.verify(tmp_path / "wrong.parquet") if not check.passed}

    table, law = shown.table, good["mechanism"]
    assert failed(table) == set()
    assert failed(table, mechanism={**law, "threshold": law["threshold"] - 1}) == {"guarantee"}
    assert failed(table, mechanism={**law, "noise_std": law["noise_std"] / 2}) == {"guarantee", "errors"}
    assert (
        failed(table, epsilon=1.0)
        == failed(table, mechanism=None)
        == failed(table, mechanism={"x": 1})
        == {"guarantee"}
    )
    assert failed(table, epsilon="2") == failed(table, delta=2) == {"guarantee"}
    assert failed(table, round=24) == {"round"}
    assert failed(table, round=7) == {"errors"}
    assert failed(table.rename_columns(["item", "count", "count_std_error"])) == {"columns"}
    assert failed(pa.concat_tables([table, table])) == {"keys", "order"}
    small = table.set_column(1, "count", pa.array([law["threshold"]] * 2))
    assert failed(small) == {"threshold"}
    assert failed(table.set_column(1, "count", pa.array([1000.5, 900.0]))) == {"lattice"}


def test_the_noise_of_a_node_stays_and_each_round_draws_one_node(tmp_path: Path) -> None:
    """Nodes that two rounds share keep their noise for every group; a round draws one noise per known group."""
    drawn: list[int] = []

    def draw(count: int) -> np.ndarray:
        drawn.append(count)
        return np.arange(count, dtype=np.int64) + 1000 * len(drawn)

    settings: dict[str, Any] = {
        "unit": "u",
        "by": ["k"],
        "where": None,
        "null_keys": "group",
        "epsilon": 1,
        "delta": 0.1,
        "mechanism": {},
    }
    state = State(settings, (), pa.table({}), np.zeros(0, np.int64), {})
    seen: dict[tuple[int, int, str], int] = {}
    totals: dict[str, int] = {}
    for t in range(1, 41):
        labels = ["a", "b"] if t % 3 else ["a", f"new {t}"]
        drawn.clear()
        state = state.advanced(f"b{t}", pa.table({"key_1": labels}), np.array([2, t], np.int64), draw)
        for label, amount in zip(labels, [2, t], strict=True):
            totals[label] = totals.get(label, 0) + amount
        keys = state.keys["key_1"].to_pylist()
        assert dict(zip(keys, state.counts.tolist(), strict=True)) == totals
        assert set(state.noise) == {level for level in range(7) if t >> level & 1}
        assert drawn.count(len(keys)) >= 1
        assert sum(drawn) <= len(keys) + 2 * t.bit_count()  # constant in past rounds
        for level, values in state.noise.items():
            for key, value in zip(keys, values.tolist(), strict=True):
                assert seen.setdefault((level, t >> level, key), value) == value
        path = tmp_path / "state"
        with path.open("wb") as sink:
            state.save(sink)
        loaded = State.load(path)
        assert loaded.noisy().tolist() == state.noisy().tolist()
        assert loaded.batches == state.batches
        state = loaded


def test_the_noise_has_the_variance_of_its_set_bits(tmp_path: Path) -> None:
    """Sum of squares against chi-square, alpha = 1e-6, over 4,000 groups; another number of nodes is rejected."""
    groups = 4000
    keys = pa.table({"page": [f"{i:05}" for i in range(groups)]})
    histogram = Histogram(keys, np.ones(groups, np.int64), ContributionBounds(2))
    made = stream(tmp_path / "s")
    law = made.mechanism
    for t in range(1, 8):
        drawn_from(SeededEntropy(t), made.add_histogram, histogram, str(t))
        state = State.load(tmp_path / "s" / "state.arrow")
        squares = float(np.sum((state.noisy() - t).astype(np.float64) ** 2)) / law.noise_std**2
        low, high = chi2.ppf(5e-7, groups), chi2.isf(5e-7, groups)
        assert low < squares / t.bit_count() < high
        assert not low < squares / (t.bit_count() + 1) < high


def test_histograms_need_their_bound(tmp_path: Path) -> None:
    made = stream(tmp_path / "s")
    loose = Histogram(pa.table({"page": ["a"]}), np.ones(1, np.int64), ContributionBounds(3))
    with pytest.raises(InvalidParameter, match="bounded to 2 groups"):
        made.add_histogram(loose, "one")
    made.add(batch(a=3), "one")
    with pytest.raises(InvalidParameter, match="same types"):
        made.add(pa.table({"user": [1], "page": [2]}), "two")


def test_each_batch_bounds_its_units(tmp_path: Path) -> None:
    made = stream(tmp_path / "s")
    crowded = pa.table({"user": [u for u in range(300) for _ in range(10)], "page": [f"p{i}" for i in range(10)] * 300})
    made.add(crowded, "one")
    assert State.load(tmp_path / "s" / "state.arrow").counts.sum() == 600


@pytest.mark.parametrize(
    "options",
    [{"rounds": 0}, {"max_groups": 0}, {"epsilon": 0}, {"delta": 1}, {"by": "count=page"}, {"unit": ""},
     {"neighbours": "substitution"}, {"null_keys": "x"}],
)  # fmt: skip
def test_impossible_streams_are_refused(tmp_path: Path, options: dict[str, object]) -> None:
    given = {"unit": "user", "by": "page", "rounds": 3, "max_groups": 1, **BUDGET} | options
    with pytest.raises(InvalidParameter, match=r"^Expected "):
        dp.Continual.start(tmp_path / "s", **given)  # type: ignore[arg-type]
    assert not (tmp_path / "s").exists()


def test_streams_are_never_overwritten_and_damage_is_found(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="continual start"):
        dp.Continual(tmp_path / "s")
    with pytest.raises(InvalidParameter, match="existing folder"):
        stream(tmp_path / "no" / "s")
    made = stream(tmp_path / "s")
    with pytest.raises(InvalidParameter, match="never overwritten"):
        stream(tmp_path / "s")
    path = tmp_path / "s" / "state.arrow"
    state = State.load(path)
    for wrong in (
        State({**state.settings, "epsilon": 0.5}, (), state.keys, state.counts, {}),
        State(state.settings, ("x",), state.keys, state.counts, {}),
    ):
        with path.open("wb") as sink:
            wrong.save(sink)
        with pytest.raises(InvalidParameter, match=r"guarantee holds|the columns of its round"):
            made.show()
    foreign = pa.table({"count": [1]}).replace_schema_metadata({b"dphist": json.dumps({"format": "x", "version": 1})})
    older = foreign.replace_schema_metadata({b"dphist": json.dumps({"format": "dphist-continual", "version": 1})})
    for table, told in (
        (foreign, r"a valid .* in .*state\.arrow"),
        (older, r"of version 2, got version 1\. Hint: dphist .* does not read what an older one"),
    ):
        with path.open("wb") as sink:
            write_sealed(table, sink)
        with pytest.raises(InvalidParameter, match=told):
            made.show()
    path.write_bytes(b"nonsense")
    with pytest.raises(InvalidParameter, match="undamaged"):
        made.show()


def test_the_declared_noise_is_what_is_drawn() -> None:
    assert ContinualCounts(20, 2, 3.5, 60).law == DiscreteGaussian(Fraction(49, 4))
    assert ContinualCounts(20, 2, 3.5, 60, rounded=True).law == RoundedGaussian(Fraction(7, 2), 0)


def test_a_stream_goes_on_with_the_law_it_was_started_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A discrete Gaussian, which calibration gives for little noise alone, or rounded noise."""
    before = ContinualCounts(8, 1, 20.0, 240)
    with monkeypatch.context() as patch:
        patch.setattr("dphist.run.continual.calibrate", lambda *_: before)
        old = dp.Continual.start(
            tmp_path / "old", unit="user", by="item", rounds=8, max_groups=1, epsilon=1, delta=1e-6
        )
    stored = State.load(tmp_path / "old" / STATE).settings["mechanism"]
    assert stored == {"rounds": 8, "max_groups": 1, "noise_std": 20.0, "threshold": 240, "rounded": False}
    new = dp.Continual.start(tmp_path / "new", unit="user", by="item", rounds=8, max_groups=1, epsilon=1, delta=1e-6)
    events = pa.table({"user": range(3000), "item": ["a"] * 3000})
    for running, law in ((old, DiscreteGaussian(Fraction(400))), (new, new.mechanism.law)):
        assert isinstance(law, RoundedGaussian) is (running is new)
        with recorded() as draws:
            first = running.add(events, "1")
            second = dp.Continual(running.path).add(events, "2")
        assert {draw.law for draw in draws} == {law}
        assert second.metadata()["mechanism"] == State.load(running.path / STATE).settings["mechanism"]
        for released, name in ((first, "1"), (second, "2")):
            released.write(tmp_path / f"{running.path.name}{name}.parquet")
            checks = dp.verify(tmp_path / f"{running.path.name}{name}.parquet")
            assert not [check for check in checks if check.failed]
    assert State.load(tmp_path / "new" / STATE).settings["mechanism"]["rounded"] is True
    assert new.mechanism.noise_std < 0.97 * continual_of_before(1.0, 1e-6, 8, 1).noise_std


def continual_of_before(epsilon: float, delta: float, rounds: int, max_groups: int) -> ContinualCounts:
    """The least discrete noise that leaves a twentieth of delta to the threshold."""
    std = smallest_std(epsilon, 0.95 * delta, max_groups * rounds.bit_length() / 2)
    return ContinualCounts(rounds, max_groups, std, math.ceil(60 * std))


def test_every_command_has_an_example_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"user": range(3000), "item": ["a"] * 3000}), tmp_path / "monday.parquet")
    monkeypatch.chdir(tmp_path)
    tries: dict[str, list[list[str]]] = {
        "start": [[]],
        "add": [["-o", "out.parquet"]],
        "show": [[], ["--json", "--report", "out.html"], ["--batches"]],
    }
    shown = ""
    for command in streams.commands.values():
        (example,) = examples_of(command)
        for extra in tries[str(command.name)]:
            done = CliRunner().invoke(app, [*example.split()[1:], *extra])
            assert done.exit_code == 0, done.output
            shown = done.output
            if "--json" in extra:
                assert json.loads(shown)["round"] == 1
    assert shown == "2026-01-05\n"
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 1
    twice = dphist("continual", "add", "stream", "monday.parquet", "--batch", "2026-01-05")
    assert twice.returncode == 2
    assert twice.stderr.startswith("dphist: Expected a batch that is not in yet")


def test_a_report_claims_no_more_than_one_round(tmp_path: Path) -> None:
    content = stream(tmp_path / "s").add(batch(a=900), "1").content()
    assert content.guarantee.startswith("Adding or removing what one user adds in one round changes")
    assert not any("is in the data" in words for words in content.explanation)
    assert any("one user adds anything in a given round may become" in words for words in content.explanation)
    assert any("for all rounds of a unit together epsilon adds up" in words for words in content.reading)
