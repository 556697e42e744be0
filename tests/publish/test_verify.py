"""What `verify` believes: nothing that does not follow from the plan, and nothing that ends the process."""

import copy
import datetime as dt
import decimal
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

import dphist as dp
from dphist.cli.app import app
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.errors import InvalidParameter
from dphist.files.digests import as_stored, seal, table_digest, without_content
from dphist.files.formats import METADATA_KEY, sha256, sidecar, write_table
from dphist.ledger import DataSet, Ledger
from dphist.run.job import privatise
from dphist.run.release import Selection
from dphist.verification.state import NOT_KNOWN
from example_numbers import examples, some

EVENTS = pa.table(
    {
        "user": [i % 400 for i in range(4000)],
        "item": [f"i{(i * i) % 7}" for i in range(4000)],
        "spent": [float(i % 13) for i in range(4000)],
    }
)
ASKED: dict[str, Any] = {
    "epsilon": 1.0, "delta": 1e-6, "max_groups": 3, "sums": {"spent": (0, 12)}, "means": {"spent": (0, 12)}, "rows": 4,
    "total": True,
}  # fmt: skip
Place = tuple[str | int, ...]


def release() -> dp.Release:
    full = dp.plan(**ASKED, mechanism="laplace")
    plan = dp.Plan(full.request, full.mechanism, full.alternatives[:1])
    return dp.release(EVENTS, unit="user", by=["item"], plan=plan, intervals=0.9, where="spent >= 0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file of each kind, charged to a ledger where its test needs one."""
    made = tmp_path_factory.mktemp("verify")
    release().write(made / "release.parquet")
    dp.top_k(EVENTS, unit="user", by="item", k=4, epsilon=2, delta=1e-6, method="from-top").write(made / "top.parquet")
    dp.top_k(EVENTS, unit="user", by="item", k=4, epsilon=2, delta=1e-6, method="ranked").write(made / "ranked.parquet")
    dp.top_k(EVENTS, unit="user", by="item", k=4, epsilon=2, delta=1e-6).write(made / "correlated.parquet")
    stream = dp.Continual.start(made / "s", unit="user", by="item", rounds=7, max_groups=3, epsilon=2, delta=1e-6)
    stream.add(EVENTS, "one").write(made / "running.parquet")
    return made


def leaves(data: Any, path: Place = ()) -> Iterator[Place]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else None
    if items is None or not data:
        yield path
        return
    for name, value in items:
        yield from leaves(value, (*path, name))


def at(data: Any, path: Place) -> Any:
    for name in path:
        data = data[name]
    return data


def changed(data: dict[str, Any], path: Place, value: Any) -> dict[str, Any]:
    found = copy.deepcopy(data)
    at(found, path[:-1])[path[-1]] = value
    return found


def metadata_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(pq.read_schema(path).metadata[METADATA_KEY])
    return found


def rewrite(path: Path, metadata: Any, name: str) -> Path:
    """The same table with other metadata, inside and beside it, by somebody who computes every digest anew."""
    other = path.with_name(name)
    inside = seal(metadata)
    table = pq.read_table(path).replace_schema_metadata({METADATA_KEY: json.dumps(inside)})
    pq.write_table(table, other)
    beside = seal({**metadata, "file": {"name": other.name, "sha256": sha256(other)}})
    sidecar(other).write_text(json.dumps(beside))
    return other


def outcome(path: Path, **options: Any) -> str:
    """`ok` if nothing failed, else the names of what failed, or that it was refused."""
    try:
        failed = sorted(check.name for check in dp.verify(path, **options) if check.failed)
    except dp.DphistError:
        return "refused"
    return ", ".join(failed) or "ok"


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def other_values(value: Any) -> list[Any]:
    """Values that somebody would rather see there, and some of other types."""
    if isinstance(value, bool):
        return [not value, None, "x"]
    if isinstance(value, int | float):
        return [value * 2 + 1, value / 2 - 0.25, None, "x"]
    if isinstance(value, str):
        return [value + "x", "", None, 7]
    return ["x", 0.5, [1], {"x": None}]


NOT_IN_THE_PLAN = {
    ("created",), ("dphist",), ("unit",), ("where",), ("keys", 0), ("null_keys",), ("total_units", "value"), ("ledger",),
    ("cut_off",),
    ("plan", "request", "objective"), ("plan", "request", "mechanism"), ("plan", "request", "noise_std"),
    ("plan", "request", "correlation"), ("plan", "request", "analysis"),
}  # fmt: skip
"""What does not follow from a plan: another value of the right type is believed, unless a ledger or a digest says otherwise."""

OF_LISTS = {
    "correlated": {("mechanism", "threshold"), ("mechanism", "lattice_bits")},
    "top": {("mechanism", "threshold")},
}
"""A list without the count that its own were compared with would also come from another threshold, or a finer lattice, with
which the guarantee holds as well."""


def is_free(path: Place) -> bool:
    return path in NOT_IN_THE_PLAN or path[:2] == ("plan", "alternatives")


KINDS = ["release", "top", "ranked", "correlated", "running"]


def believed(path: Path, others: Callable[[Any], list[Any]]) -> set[Place]:
    """Leaves with another value that pass, of those that something follows from."""
    good = metadata_of(path)
    return {
        leaf
        for leaf in leaves(good)
        if leaf[0] not in ("digest", "table") and not is_free(leaf)
        for value in others(at(good, leaf))
        if outcome(rewrite(path, changed(good, leaf, value), "wrong.parquet")) == "ok"
    }


@pytest.mark.parametrize("name", KINDS)
def test_every_leaf_is_compared_even_with_digests_computed_anew(folder: Path, name: str) -> None:
    path = folder / f"{name}.parquet"
    good = metadata_of(path)
    assert outcome(rewrite(path, good, "same.parquet")) == "ok"
    assert believed(path, lambda value: other_values(value)[: 1 + is_number(value)]) <= OF_LISTS.get(name, set())
    for leaf in ("dphist", "created", "unit"):  # of the wrong type even these
        assert outcome(rewrite(path, changed(good, (leaf,), 7), "wrong.parquet")) != "ok"
    assert outcome(rewrite(path, {**good, "more": 1}, "wrong.parquet")) == "more"
    for wrong in ({k: v for k, v in good.items() if k != "guarantee"}, {**good, "version": 6}):
        assert outcome(rewrite(path, wrong, "wrong.parquet")) != "ok"
    assert "guarantee" in outcome(rewrite(path, {**good, "guarantee": "none"}, "wrong.parquet"))
    assert "table" in outcome(rewrite(path, {**good, "table": None}, "wrong.parquet"))


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_no_leaf_is_believed_with_any_other_value(folder: Path, name: str) -> None:
    """Of other types too, which the next test draws some of in every run."""
    assert believed(folder / f"{name}.parquet", other_values) <= OF_LISTS.get(name, set())


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.text(max_size=8),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from([2**40, -1, 1e308, 5e-324, "1e999999999", "1/0", "\x1b[2J\x00"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip


@examples(20, HealthCheck.function_scoped_fixture)
@given(data=st.data())
def test_no_value_anywhere_is_believed_or_ends_the_process(folder: Path, data: st.DataObject) -> None:
    path = folder / f"{data.draw(st.sampled_from(KINDS))}.parquet"
    good = metadata_of(path)
    inner = {leaf[:depth] for leaf in leaves(good) for depth in range(1, len(leaf) + 1)}
    place = data.draw(st.sampled_from(sorted(inner - {("digest",), ("table",)}, key=str)))
    value = data.draw(JSON)
    if json.dumps(value) == json.dumps(at(good, place)) or (value == at(good, place) and not isinstance(value, bool)):
        return
    if outcome(rewrite(path, changed(good, place, value), "fuzzed.parquet")) == "ok":
        assert is_free(place) or any(place in others for others in OF_LISTS.values())


def test_what_is_wrong_is_named_and_not_quoted(folder: Path) -> None:
    """In one error of ours, whatever the kind of file and the type of the value."""
    for name in ("release", "top", "running"):
        path = folder / f"{name}.parquet"
        good = metadata_of(path)
        entry = {"dataset": "d", "entry": 1, "hash": "0" * 64}
        wrongs: dict[str, dict[str, Any]] = {
            "by.0": {"by": [7131]},
            "by": {"by": ["secret", "secret"]},
            "created": {"created": "2020-01-01T00:00:00"},  # without its zone
            "where": {"where": 7131},
            "ledger.hash": {"ledger": {**entry, "hash": "secret"}},
            "ledger.entry": {"ledger": {**entry, "entry": True}},
            "ledger.x\\x1b[2J": {"ledger": {**entry, "x\x1b[2J": "secret"}},
        }
        for place, wrong in wrongs.items():
            found = dp.verify(rewrite(path, {**good, **wrong}, "typed.parquet"))
            words = next(check.detail for check in found if check.name == "guarantee")
            assert words.startswith(f"Expected a valid {place} in the metadata, got another one. Hint: ")
            assert not any(part in words for part in ("secret", "7131", "\x1b", "pydantic", "http"))


@pytest.mark.parametrize("name", some(["release", "running"], 1))
def test_a_change_without_new_digests_is_seen_in_every_leaf(folder: Path, name: str) -> None:
    path = folder / f"{name}.parquet"
    table, beside = pq.read_table(path), json.loads(sidecar(path).read_text())
    other = path.with_name("edited.parquet")
    good = metadata_of(path)
    for leaf in leaves(good):
        edited = changed(good, leaf, other_values(at(good, leaf))[0])
        pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(edited)}), other)
        sidecar(other).unlink(missing_ok=True)
        assert outcome(other) != "ok", leaf
    pq.write_table(table, other)
    other.write_bytes(path.read_bytes())
    for leaf in leaves(beside):
        sidecar(other).write_text(json.dumps(changed(beside, leaf, other_values(at(beside, leaf))[0])))
        assert outcome(other) != "ok", leaf


def test_an_edited_table_is_seen_inside_beside_and_without_a_sidecar(folder: Path) -> None:
    path = folder / "release.parquet"
    table = pq.read_table(path)
    higher = pa.array(table["sum_spent"].to_numpy() + 1)
    edited = table.set_column(table.column_names.index("sum_spent"), "sum_spent", higher)
    other = path.with_name("table.parquet")
    pq.write_table(edited, other)
    assert outcome(other) == "errors, table"  # the interval no longer lies around it
    sidecar(other).write_text(sidecar(path).read_text())
    assert outcome(other) == "errors, file, table"
    pq.write_table(edited.replace_schema_metadata(None), other)
    assert "metadata" in outcome(other)
    sidecar(other).unlink()
    assert outcome(other) == "refused"


VALUES: dict[str, list[Any]] = {
    "text": [None, "", "a", "é\x00", "a"],
    "bytes": [b"\xff", None, b"", b"a", b"b"],
    "whole": [1, None, -(2**62), 0, 3],
    "real": [0.5, None, math.nan, -0.0, 1e300],
    "day": [dt.date(1, 1, 1), None, dt.date(9999, 12, 31), dt.date(2020, 1, 1), dt.date(2020, 1, 2)],
    "second": [
        dt.datetime(2020, 1, 1),
        None,
        dt.datetime(1600, 1, 1),
        dt.datetime(9999, 1, 1),
        dt.datetime(2020, 1, 2),
    ],
    "exact": [
        decimal.Decimal("1.50"),
        None,
        decimal.Decimal("-2.25"),
        decimal.Decimal("0.00"),
        decimal.Decimal("9.99"),
    ],
    "flag": [True, None, False, True, False],
    "time": [dt.time(1, 2, 3), None, dt.time(0), dt.time(23, 59, 59, 5), dt.time(4)],
}
TYPES = {"second": pa.timestamp("s")}


def test_the_digest_of_a_table_is_that_of_its_content(tmp_path: Path) -> None:
    table = pa.table({name: pa.array(values, TYPES.get(name)) for name, values in VALUES.items()})
    zoned = table["second"].cast(pa.timestamp("us", "Europe/Zurich"))
    table = table.append_column("zoned", zoned).append_column("coded", table["text"].dictionary_encode())
    table = table.append_column("none", pa.nulls(5)).append_column(
        "big", pa.array([2**63 + 1, 0, None, 5, 6], pa.uint64())
    )
    good = table_digest(as_stored(table))
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    assert table_digest(pq.read_table(tmp_path / "t.parquet")) == good
    parts = pa.concat_tables([table.slice(0, 1), table.slice(1, 3), table.slice(4)])
    assert table_digest(as_stored(parts)) == good
    assert table_digest(as_stored(pa.concat_tables([table, table]).slice(5))) == good
    swapped = table.take([1, 0, 2, 3, 4])
    for name in table.column_names:
        if name != "none":
            place = table.column_names.index(name)
            assert table_digest(as_stored(table.set_column(place, name, swapped[name]))) != good, name
            assert (
                table_digest(as_stored(table.rename_columns([n + "x" * (n == name) for n in table.column_names])))
                != good
            )
    assert table_digest(table.slice(0, 0)) != table_digest(table.slice(0, 1))


PLAN = dp.plan(epsilon=1, delta=1e-6, max_groups=1, mechanism="laplace")
TEXTS = st.one_of(
    st.none(), st.just(""), st.text(max_size=5), st.sampled_from(["NaN", "null", "1", "1.0", '"', "a\r\nb", ","])
)


@examples(5, HealthCheck.function_scoped_fixture)
@given(st.lists(st.tuples(TEXTS, st.one_of(st.none(), st.integers(-3, 3))), unique=True, max_size=12))
@example([(None, None), ("", None), ("1", 1), ("1.0", 1), ("NaN", 0), ("null", 0)])
def test_untouched_files_with_any_keys_are_fine(tmp_path: Path, keys: list[tuple[str | None, int | None]]) -> None:
    """Also where a key is null beside an empty one, or looks like a number, or spans lines."""
    groups = pa.table(
        {"k": pa.array([k for k, _ in keys], pa.string()), "n": pa.array([n for _, n in keys], pa.int64())}
    )
    histogram = Histogram(groups, np.full(len(keys), 900), ContributionBounds(max_groups=1))
    found = privatise(histogram, PLAN, Selection("u", ("k", "n"), intervals=0.9))
    for name in ("out.parquet", "out.csv", "out.json"):
        found.write(tmp_path / name, overwrite=True)
        wrong = [check for check in dp.verify(tmp_path / name) if not check.passed and check.name != "columns"]
        assert not wrong


HOSTILE = [
    b"", b"null", b"[]", b"7", b'"x"', b"[" * 100_000, b'{"a":' * 100_000, b"1e999", b"9" * 5000, b"NaN", b"{}", b"\xff\xfe",
    b"\x00", b"{", b'{"format": "dphist-release"}', b'{"format": "dphist-release", "version": 2}', b"PAR1", b"null\nnull\n",
    b'{"item": [[[]]], "count": {}}', b"a,b\n1\n", b'"', b'{"x": NaN}', b"\n\n", b" " * 10 + b"\x1a",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_hostile_files_are_refused(folder: Path, tmp_path: Path, kind: str) -> None:
    good = tmp_path / f"good.{kind}"
    release().write(good)
    content, beside = good.read_bytes(), sidecar(good).read_bytes()
    assert outcome(good) == "ok"
    for hostile in (*HOSTILE, content[: len(content) // 2], content[:-1], beside):
        good.write_bytes(hostile)
        assert outcome(good) != "ok", hostile[:40]
    good.write_bytes(content)
    for hostile in (*HOSTILE, beside[:-20], beside.replace(b"{", b'{"format": "x",', 1), b" " * (17 << 20)):
        sidecar(good).write_bytes(hostile)
        assert outcome(good) != "ok", hostile[:40]


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_folders_are_checked_but_for_the_content_of_their_table(tmp_path: Path, kind: str) -> None:
    """Laid out as Spark does it, whose JSON leaves out nulls."""
    groups = pa.table({"k": pa.array([None, "", "a", "b"]), "n": pa.array([1, None, 2, 3])})
    histogram = Histogram(groups, np.array([900, 800, 700, 600]), ContributionBounds(max_groups=1))
    found = privatise(histogram, PLAN, Selection("u", ("k", "n")))
    out = tmp_path / f"out.{kind}"
    out.mkdir()
    for place, part in enumerate((found.table.slice(0, 2), found.table.slice(2))):
        write_table(part, {}, out / f"part-{place}.{kind}")
        sidecar(out / f"part-{place}.{kind}").unlink()
    if kind == "json":
        for file in out.iterdir():
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            lines = "\n".join(json.dumps({k: v for k, v in row.items() if v is not None}) for row in rows)
            file.write_text(lines)
    (out / "_SUCCESS").touch()
    assert outcome(out) == "refused"
    (out / "_dphist").mkdir()
    (out / "_dphist" / "part-0").write_text(json.dumps(without_content(found.metadata())))
    checks = dp.verify(out)
    assert [check.name for check in checks if not check.passed] == ["table"]
    assert not any(check.failed for check in checks)
    (out / "_dphist" / "part-0").write_text(json.dumps(without_content({**found.metadata(), "epsilon": 0.001})))
    assert outcome(out) == "epsilon"
    (out / "_dphist" / "part-0").write_text(json.dumps({**without_content(found.metadata()), "unit": "x"}))
    assert outcome(out) == "digest"


@pytest.mark.parametrize("name", ["release", "running", "top"])
def test_files_of_other_versions_are_refused(folder: Path, name: str) -> None:
    path = folder / f"{name}.parquet"
    good = metadata_of(path)
    for version, writer in ((1, "an older"), (4, "an older"), (6, "a newer")):
        told = rf"metadata of version 5, got version {version}\. Hint: dphist .* does not read what {writer} one wrote; verify"
        with pytest.raises(InvalidParameter, match=told):
            dp.verify(rewrite(path, {**good, "version": version}, "other.parquet"))


def test_another_version_may_have_other_words_and_no_other_numbers(folder: Path) -> None:
    path = folder / "release.parquet"
    good = {**metadata_of(path), "dphist": "0.0.9"}
    checks = dp.verify(rewrite(path, {**good, "guarantee": "safe"}, "other.parquet"))
    assert {check.name: check.state for check in checks}["guarantee"] == "not checked"
    assert not any(check.failed for check in checks)
    assert outcome(rewrite(path, {**good, "epsilon": 0.001}, "other.parquet")) == "epsilon"


def test_the_command_prints_three_outcomes(folder: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.parquet"
    alone.write_bytes((folder / "release.parquet").read_bytes())
    done = CliRunner().invoke(app, ["verify", str(alone)])
    assert done.exit_code == 0
    assert "  --    file       no digest of its bytes" in done.stdout
    assert done.stdout.rstrip().endswith(NOT_KNOWN)
    assert done.stdout.count("  ok  ") + done.stdout.count("  --  ") == len(dp.verify(alone))
    states = json.loads(CliRunner().invoke(app, ["verify", str(alone), "--json"]).stdout)
    assert {(state["state"], state["passed"]) for state in states} == {("passed", True), ("not checked", None)}
    alone.with_name("alone.parquet.dphist.json").write_bytes(sidecar(folder / "top.parquet").read_bytes())
    failed = CliRunner().invoke(app, ["verify", str(alone)])
    assert failed.exit_code == 1
    assert "  FAIL  metadata   they differ\n" in failed.stdout


OTHER_ENTRIES: list[dict[str, Any]] = [
    {"entry": 999}, {"entry": 0}, {"hash": "0" * 64}, {"dataset": "nobody"}, {"dataset": "others"},
]  # fmt: skip


def test_a_ledger_is_asked_about_its_entry(tmp_path: Path) -> None:
    address = tmp_path / "ledger.db"
    with Ledger(address, create=True) as opened:
        opened.create(DataSet("people", 20.0, 1e-3, "user", "gdp"))
        opened.create(DataSet("others", 20.0, 1e-3, "user_id", "gdp"))
        opened.create(DataSet("events", 20.0, 1e-3, "user", "zcdp", "event"))
    charged: dict[str, Any] = {"ledger": address, "dataset": "people"}
    made: dict[str, Any] = {
        "release": dp.release(
            EVENTS, unit="user", by="item", epsilon=1, delta=1e-6, max_groups=3, total=True, **charged
        ),
        "chosen": dp.release(EVENTS, unit="user", by="item", epsilon=1, delta=1e-6, **charged),
        "top": dp.top_k(EVENTS, unit="user", by="item", k=4, epsilon=2, delta=1e-6, **charged),
    }
    stream = dp.Continual.start(tmp_path / "s", unit="user", by="k=item", rounds=7, max_groups=3, epsilon=2, delta=1e-6,
                                ledger=address, dataset="events", where="spent >= 0")  # fmt: skip
    made["running"] = stream.add(EVENTS, "one")
    with Ledger(address) as opened:
        head, other_head = (opened.export(name)["head"] for name in ("people", "others"))
    for name, found in made.items():
        path = tmp_path / f"{name}.parquet"
        found.write(path)
        assert [check.state for check in dp.verify(path) if check.name == "ledger"] == ["not checked"]
        assert not any(check.failed for check in dp.verify(path, ledger=address))
        good = metadata_of(path)
        receipts = [None, *({**good["ledger"], **change} for change in OTHER_ENTRIES)]
        wrongs: list[dict[str, Any]] = [{"unit": "user_id"}, *({"ledger": receipt} for receipt in receipts)]
        for wrong in wrongs:
            forged = rewrite(path, {**good, **wrong}, "forged.parquet")
            if name == "release":
                assert outcome(forged) == "ok"  # nothing else could tell
            assert outcome(forged, ledger=address) == "ledger"
    assert outcome(tmp_path / "release.parquet", ledger=address, head=head) == "ok"
    assert outcome(tmp_path / "release.parquet", ledger=address, head=other_head) == "head"
    with pytest.raises(dp.InvalidParameter, match="a ledger with the head"):
        dp.verify(tmp_path / "release.parquet", head=head)
    where = rewrite(
        tmp_path / "running.parquet", {**metadata_of(tmp_path / "running.parquet"), "where": None}, "x.parquet"
    )
    assert outcome(where, ledger=address) == "ledger"  # the terms of a stream are in its entry
    weaker = dp.release(EVENTS, unit="user", by="item", epsilon=3, delta=1e-6, max_groups=3, total=True)
    receipt = made["release"].metadata()["ledger"]
    write_table(weaker.to_arrow(), {**weaker.metadata(), "ledger": receipt}, tmp_path / "weaker.parquet")
    assert outcome(tmp_path / "weaker.parquet") == "ok"
    assert outcome(tmp_path / "weaker.parquet", ledger=address) == "ledger"
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "weaker.parquet")], env={"DPHIST_LEDGER": str(address)})
    assert done.exit_code == 1
    assert "entry 1 of 'people' paid for it, but says otherwise: mechanism, epsilon, delta, guarantee" in done.stdout


def test_a_plan_with_a_power_of_ten_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    plan = dp.plan(epsilon=1, delta=1e-6, sparsity=9, noise="discrete", mechanism="correlated-gaussian")
    plan.save(tmp_path / "plan.json")
    assert dp.Plan.load(tmp_path / "plan.json") == plan
    stored = json.loads((tmp_path / "plan.json").read_text())
    stored["mechanism"]["variance"] = "1e999999999"
    (tmp_path / "plan.json").write_text(json.dumps(stored))
    with pytest.raises(dp.InvalidPlan, match="a fraction of whole numbers"):
        dp.Plan.load(tmp_path / "plan.json")


def test_two_contents_have_two_digests() -> None:
    """Also where their bytes are the same: texts that are cut in another place, numbers of another type."""
    texts = [pa.table({"k": parts}) for parts in (["ab", "c"], ["a", "bc"], ["", "abc"])]
    numbers = [pa.table({"n": pa.array([1, 2], kind)}) for kind in (pa.int32(), pa.int64(), pa.date32())]
    assert len({table_digest(table) for table in (*texts, *numbers)}) == 6
