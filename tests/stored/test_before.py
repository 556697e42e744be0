"""Files that earlier versions wrote are still read. `before` was made by real_files.py when states had no checksum."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import dphist as dp
from dphist.errors import InvalidParameter
from dphist.ledger import Ledger
from dphist.verification.verify import examine

BEFORE = Path(__file__).parent / "before"
NUMBERS = range(4000)
EVENTS = pa.table(
    {"user": [i % 400 for i in NUMBERS], "item": [f"i{i * i % 7}" for i in NUMBERS], "spent": [1.0] * 4000}
)
RELEASES = sorted(path for path in (BEFORE / "releases").iterdir() if not path.name.endswith(".dphist.json"))


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BEFORE, tmp_path / "before"))


@pytest.mark.parametrize("path", sorted((BEFORE / "plans").iterdir()), ids=lambda path: path.stem)
def test_plans_come_back_byte_by_byte(path: Path, tmp_path: Path) -> None:
    dp.Plan.load(path).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == path.read_text()


@pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.name)
def test_releases_are_verified(path: Path) -> None:
    assert not [check for check in examine(path) if check.failed]


def test_sessions_go_on_and_get_a_digest(before: Path) -> None:
    session = dp.Session(before / "lists" / "session.json")
    left, queries = session.account.left_results, session.account.left_queries
    assert (left, queries) == (5, 2)
    session.query(EVENTS, by="item", k=1)
    assert (session.account.left_results, session.account.left_queries) == (4, 1)
    stored = json.loads((before / "lists" / "session.json").read_text())
    assert (stored["version"], len(stored["digest"])) == (2, 64)
    paid = dp.Session(before / "ledger" / "session.json")
    paid.query(EVENTS, by="item", k=1, ledger=before / "ledger" / "ledger.db")


def test_streams_go_on_and_get_a_checksum(before: Path) -> None:
    state = before / "lists" / "stream" / "state.arrow"
    assert state.read_bytes().endswith(b"ARROW1")
    stream = dp.Continual(before / "lists" / "stream")
    assert (stream.round, stream.batches) == (3, ("monday", "tuesday", "wednesday"))
    past = dict(stream.show().history())
    assert past[3].equals(stream.show().table)
    after = stream.add(EVENTS, "thursday")
    assert [number for number, _ in after.history()] == [1, 2, 3, 4]
    assert b"\ndphist-sha256:" in state.read_bytes()[-80:]
    assert dp.Continual(before / "lists" / "stream").show().table.equals(after.table)
    dp.Continual(before / "lists" / "begun").add(EVENTS, "monday")
    dp.Continual(before / "ledger" / "stream").add(EVENTS, "monday", ledger=before / "ledger" / "ledger.db")


def test_an_old_state_must_hold_what_a_stream_has(before: Path) -> None:
    """Without a checksum the groups themselves are looked at."""
    path = before / "lists" / "stream" / "state.arrow"
    with pa.ipc.open_file(path.read_bytes()) as reader:
        table = reader.read_all()
    for wrong, told in (
        (pa.concat_tables([table, table.slice(0, 1)]), "different groups"),
        (table.drop_columns("noise_0"), "the columns of its round"),
        (table.set_column(1, "count", pa.array([-1] * table.num_rows)), "counts in .* that a stream can have"),
        (table.set_column(1, "count", pa.array([2**63 - 1] * table.num_rows)), "counts in .* that a stream can have"),
        (table.set_column(1, "count", pa.array([0.5] * table.num_rows)), "whole numbers as count"),
        (table.set_column(0, "key_1", pa.array([[1]] * table.num_rows)), "different groups"),
    ):
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, wrong.schema) as writer:
            writer.write_table(wrong)
        with pytest.raises(InvalidParameter, match=told):
            dp.Continual(before / "lists" / "stream")


def test_ledgers_are_charged_and_verified(before: Path) -> None:
    address = before / "ledger" / "ledger.db"
    with Ledger(address) as opened:
        assert opened.names() == ["events", "rounds"]
        for name in opened.names():
            assert all(check.passed for check in opened.verify(name))
            assert opened.status(name).to_data()["exceeded"] is False
    asked = {"unit": "user", "by": ["item"], "max_groups": 3, "epsilon": 0.1, "delta": 1e-7}
    dp.release(EVENTS, **asked, ledger=address, dataset="events")  # type: ignore[arg-type]
    assert not [check for check in examine(before / "ledger" / "paid.parquet", ledger=address) if check.failed]
