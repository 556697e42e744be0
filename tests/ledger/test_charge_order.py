"""Check, charge, read, noise: in this order on every road, so that a failure on a record is never free of charge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dphist as dp
from dphist.cli import main
from dphist.cli.app import app
from dphist.ledger import DataSet, Ledger
from dphist.noise.entropy import SystemEntropy

TABLE = pa.table(
    {"user": list(range(900)), "url": [f"u{n % 3}" for n in range(900)], "age": [n % 90 for n in range(900)]}
)
BUDGET: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    address = str(tmp_path / "ledger.db")
    with Ledger(address, create=True) as opened:
        opened.create(DataSet("people", 20.0, 1e-3, "user", "gdp"))
    return address


def spends(address: str) -> tuple[int, int]:
    """How many were charged, and how many of these were never confirmed."""
    with Ledger(address) as opened:
        status = opened.status("people")
    return len(status.spends), len(status.unconfirmed)


def reader(read: Callable[[], None], fails: bool = False) -> pa.RecordBatchReader:
    """A source that says when it is read, and may fail in the middle with a message about a record."""

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in TABLE.to_batches(max_chunksize=300):
            read()
            yield batch
            if fails:
                raise ValueError("the salary of u1 is forty-seven")

    return pa.RecordBatchReader.from_batches(TABLE.schema, batches())


def releasing(**options: Any) -> Callable[..., Any]:
    return lambda source, at, **more: dp.release(
        source, **{"unit": "user", "by": "url", "ledger": at, "dataset": "people", **BUDGET, **options, **more}
    )


ROADS: dict[str, Callable[..., Any]] = {
    "one pass": releasing(max_groups=2),
    "listed": releasing(keys=["u0", "u1"]),
    "sketch": releasing(sketch=5),
    "adaptive": releasing(mechanism="adaptive"),
    "choice": releasing(),
    "top-k": lambda source, at, **more: dp.top_k(
        source, **{"unit": "user", "by": "url", "k": 1, "method": "ranked", "ledger": at, "dataset": "people", **BUDGET, **more}
    ),
    "stat": lambda source, at, **more: dp.stat(
        "max", source,
        **{"unit": "user", "column": "age", "lower": 0, "upper": 90, "error": 9, **BUDGET, **more},
        ledger=at, dataset="people",
    ),
}  # fmt: skip


@pytest.mark.parametrize("road", ROADS)
def test_nothing_is_read_before_the_charge_nor_noised_before_it_is_read(
    road: str, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    draw, bounding = SystemEntropy.words, []

    def words(self: SystemEntropy, count: int) -> Any:
        events.append("random bits")
        return draw(self, count)

    def read() -> None:
        assert spends(ledger) == (1, 1)
        events.append("read")
        bounding.append(len(events))

    monkeypatch.setattr(SystemEntropy, "words", words)
    ROADS[road](reader(read), ledger)
    assert spends(ledger) == (1, 0)
    assert events.index("read") <= 1  # at most the seed of the bounding comes before, which nobody sees
    assert events[-1] == "random bits"


@pytest.mark.parametrize("road", ROADS)
def test_a_failure_on_a_record_is_charged_once_and_says_so(road: str, ledger: str) -> None:
    with pytest.raises(dp.EngineFailure) as problem:
        ROADS[road](reader(lambda: None, fails=True), ledger)
    assert spends(ledger) == (1, 1)
    with Ledger(ledger) as opened:
        entry = opened.entries("people")[1]
    words = str(problem.value)
    assert f"Charged to 'people', entry 1, head {entry.hash}. The charge stays" in words
    assert words.endswith("Nothing was published; another run is charged again.")
    assert "forty-seven" not in words  # digits may be in the hash
    assert problem.value.__cause__ is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"unit": "nobody"},
        {"by": "nothing", "column": "nothing"},
        {"where": "url +"},
        {"where": "age"},
        {"where": "nope > 1"},
    ],
    ids=str,
)
@pytest.mark.parametrize("road", ROADS)
def test_what_the_schema_rules_out_costs_nothing_and_reads_nothing(
    road: str, wrong: dict[str, str], ledger: str
) -> None:
    read: list[None] = []
    wrong = {name: value for name, value in wrong.items() if name != ("by" if road == "stat" else "column")}
    with pytest.raises(dp.DphistError) as problem:
        ROADS[road](reader(lambda: read.append(None)), ledger, **wrong)
    assert spends(ledger) == (0, 0)
    assert read == []
    assert "charge" not in str(problem.value).lower()


def test_a_sum_of_text_costs_nothing(ledger: str) -> None:
    for road in ("one pass", "adaptive"):
        with pytest.raises(dp.InvalidParameter, match="numbers in 'url'"):
            ROADS[road](TABLE, ledger, sums={"url": (0, 1)})
    assert spends(ledger) == (0, 0)


def test_a_list_that_is_too_short_is_found_out_after_the_charge(ledger: str) -> None:
    counted = pa.table({"url": ["a"], "n": [300]})
    plan = dp.plan_top_k(k=2, **BUDGET, method="from-top")
    with pytest.raises(dp.InvalidParameter, match=r"got fewer.*The charge stays"):
        dp.release_largest(counted, count="n", plan=plan, unit="user", ledger=ledger, dataset="people")
    assert spends(ledger) == (1, 1)


def test_a_query_of_a_session_is_reserved_before_it_reads(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    dp.Session.start(path, unit="user", results=9, queries=3, **BUDGET)

    def left() -> tuple[int, int]:
        return dp.Session(path).account.left_results, dp.Session(path).account.left_queries

    seen: list[tuple[int, int]] = []
    wrong: list[dict[str, Any]] = [{"by": "nothing", "k": 2}, {"by": "url", "k": 2, "where": "age"}]
    for options in wrong:
        with pytest.raises(dp.InvalidParameter):
            dp.Session(path).query(reader(lambda: seen.append(left())), **options)
    assert (seen, left()) == ([], (9, 3))
    with pytest.raises(dp.EngineFailure, match=r"One query and the 2 results it reserved stay spent"):
        dp.Session(path).query(reader(lambda: seen.append(left()), fails=True), by="url", k=2)
    assert (seen, left()) == ([(7, 2)], (7, 2))
    dp.Session(path).query(reader(lambda: seen.append(left())), by="url", k=1)
    assert set(seen[1:]) == {(6, 1)}
    assert left() == (6, 1)


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    """A Parquet file whose footer is whole and whose pages are not."""
    path = tmp_path / "damaged.parquet"
    pq.write_table(TABLE, path)
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    path.write_bytes(whole[:4] + bytes(len(whole) - footer - 4) + whole[-footer:])
    return str(path)


COMMANDS: dict[str, list[str]] = {
    "release": ["release", "--by", "url", "--max-groups", "2", "-o", "out.parquet"],
    "choice": ["release", "--by", "url", "-o", "out.parquet", "--report", "out.html"],
    "top-k": ["top-k", "--by", "url", "--k", "1", "--method", "ranked", "-o", "out.parquet"],
    "stat": ["stat", "max", "--column", "age", "--lower", "0", "--upper", "90", "--error", "9"],
}


def call(command: str, source: str, at: str) -> list[str]:
    budget = ["--unit", "user", "--epsilon", "1", "--delta", "1e-6", "--ledger", at, "--dataset", "people"]
    return [*COMMANDS[command], source, *budget]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_on_a_damaged_file(
    command: str, ledger: str, damaged: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    words = call(command, damaged, ledger)
    if "-o" in words:
        Path("taken.parquet").touch()
        for out in ("taken.parquet", "missing/out.parquet", damaged):
            taken = [out if word == "out.parquet" else word for word in words]
            assert isinstance(CliRunner().invoke(app, taken).exception, dp.InvalidParameter)
        Path("taken.parquet").unlink()
    assert spends(ledger) == (0, 0)
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, dp.EngineFailure)
    assert "entry 1, head " in str(done.exception)
    assert "Nothing was published; another run is charged again." in str(done.exception)
    assert spends(ledger) == (1, 1)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(("writer", "told"), [("write", "Nothing was published"), ("report", "out.parquet is written")])
def test_a_disk_that_fills_up_is_told_with_the_charge(
    writer: str, told: str, ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.chdir(tmp_path)
    pq.write_table(TABLE, "events.parquet")
    monkeypatch.setattr(dp.Release, writer, full)
    done = CliRunner().invoke(app, [*call("release", "events.parquet", ledger), "--report", "out.html"])
    assert isinstance(done.exception, dp.EngineFailure)
    assert "No space left on device" in str(done.exception)
    assert told in str(done.exception)
    assert spends(ledger) == (1, int(writer == "write"))
    monkeypatch.setattr(dp.TopK, "write", full)
    done = CliRunner().invoke(app, [word.replace("out.", "top.") for word in call("top-k", "events.parquet", ledger)])
    assert "Charged to 'people', entry" in str(done.exception)


def test_an_interrupt_says_what_it_cost(
    ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    pq.write_table(TABLE, "events.parquet")
    monkeypatch.setattr("dphist.run.job.Work.from_groups", interrupted)
    with pytest.raises(KeyboardInterrupt, match="Charged to 'people', entry 1"):
        ROADS["one pass"](TABLE, ledger)
    monkeypatch.setattr("sys.argv", ["dphist", *call("release", "events.parquet", ledger)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert "dphist: Interrupted. Charged to 'people', entry 2" in capsys.readouterr().err


@pytest.mark.parametrize("asked", [True, False], ids=["the ledger can be asked", "nor can it be asked"])
@pytest.mark.parametrize("charged", [True, False], ids=["lost behind the charge", "lost before it"])
def test_a_connection_that_is_lost_while_it_is_charged_leaves_open_whether_it_was(
    charged: bool, asked: bool, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier charge of the same kind is no reason to think so."""
    reserve, entries = Ledger.reserve, Ledger.entries
    releasing(max_groups=2)(TABLE, ledger)
    lost = dp.UnusableLedger("to use the ledger", "an error (the connection was lost)")

    def losing(self: Ledger, *given: Any, **more: Any) -> Any:
        if charged:
            reserve(self, *given, **more)
        raise lost

    def read(self: Ledger, name: str) -> Any:
        if asked:
            return entries(self, name)
        raise lost

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "reserve", losing)
        patch.setattr(Ledger, "entries", read)
        with pytest.raises(dp.UnusableLedger) as problem:
            releasing(max_groups=2)(TABLE, ledger)
    told = "It may have been charged to 'people': dphist ledger history tells." in str(problem.value)
    assert told == (charged or not asked)
    assert spends(ledger) == (1 + charged, charged)
