"""A flipped bit in what holds a budget is told before anything is parsed; a folder is made private when a stream is in it."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

import dphist as dp
from dphist.errors import InvalidParameter
from dphist.files.locks import LockedFile
from dphist.ledger import DataSet, Ledger
from dphist.run import session as sessions
from dphist.run.stream import read_sealed, write_sealed

EVENTS = pa.table({"user": list(range(900)), "item": ["a", "b", "c"] * 300})
ASKED = {"unit": "user", "by": "item", "rounds": 5, "max_groups": 2, "epsilon": 1.0, "delta": 1e-6}


def start(folder: Path, **more: object) -> dp.Continual:
    return dp.Continual.start(folder, **{**ASKED, **more})  # type: ignore[arg-type]


def flips(content: bytes) -> list[bytes]:
    """The content with each of its bits flipped."""
    found = []
    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        found.append(bytes(changed))
    return found


def test_every_flipped_bit_of_a_session_is_told(tmp_path: Path) -> None:
    session = dp.Session.start(
        tmp_path / "s.json", unit="user", epsilon=1, delta=1e-6, results=9, queries=3, shortlist=9
    )
    session.query(EVENTS, by="item", k=2)
    content = (tmp_path / "s.json").read_bytes()
    assert sessions._parse(content, "s.json") == session.account
    for changed in flips(content):
        with pytest.raises(InvalidParameter, match=r"in s\.json"):
            sessions._parse(changed, "s.json")


def test_every_flipped_bit_of_a_stream_is_told_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = start(tmp_path / "s")
    stream.add(EVENTS, "one")
    state, past = tmp_path / "s" / "state.arrow", tmp_path / "s" / "rounds" / "0000001.arrow"
    tables = {path: path.read_bytes() for path in (state, past)}
    assert all(read_sealed(content, "x").num_rows for content in tables.values())

    def parse(_: object) -> NoReturn:
        pytest.fail("damaged bytes reached the parser")

    monkeypatch.setattr(pa.ipc, "open_file", parse)
    for content in tables.values():
        for changed in flips(content):
            with pytest.raises(InvalidParameter, match="an undamaged file x"):
                read_sealed(changed, "x")
        for length in range(7, len(content)):
            if length != len(content) - 79:  # all of it but the checksum
                with pytest.raises(InvalidParameter, match="an undamaged file x"):
                    read_sealed(content[:length], "x")


def test_an_account_is_never_negative(tmp_path: Path) -> None:
    """What is left cannot be more than what was promised, whoever computes the digest."""
    account = dp.Session.start(tmp_path / "s.json", unit="u", epsilon=1, delta=1e-6, results=9, queries=3).account
    changes: list[dict[str, Any]] = [
        {"used_results": -1}, {"used_queries": -1}, {"reserved": -1}, {"used_results": 10}, {"used_queries": 4},
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(InvalidParameter, match="at most what was promised"):
            replace(account, **change)


def test_a_state_that_lost_its_checksum_is_refused(tmp_path: Path) -> None:
    stream = start(tmp_path / "s")
    path = tmp_path / "s" / "state.arrow"
    content = path.read_bytes()
    assert hashlib.sha256(content[:-79]).hexdigest().encode() == content[-64:]
    path.write_bytes(content[:-79])
    with pytest.raises(InvalidParameter, match=r"Expected the checksum of .*state\.arrow, got none"):
        _ = stream.round


def test_a_damaged_past_is_one_error(tmp_path: Path) -> None:
    stream = start(tmp_path / "s")
    stream.add(EVENTS, "one")
    path = tmp_path / "s" / "rounds" / "0000001.arrow"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InvalidParameter, match="an undamaged file"):
        stream.show().html()
    other = pa.table({"x": [1]})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, other.schema) as writer:
        writer.write_table(other)
    with pytest.raises(InvalidParameter, match=r"the checksum of .*, got none"):
        stream.show().html()
    with path.open("wb") as sealed:
        write_sealed(other, sealed)
    with pytest.raises(InvalidParameter, match="the released counts of a round"):
        stream.show().html()


def test_a_folder_becomes_private_when_a_stream_has_begun_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "s"
    folder.mkdir(mode=0o755)
    address = tmp_path / "l.db"
    with Ledger(address, create=True) as opened:
        opened.create(DataSet("rounds", 0.5, 1e-7, "user", "basic", "event"))
    with pytest.raises(dp.BudgetExceeded):
        start(folder, ledger=address, dataset="rounds")
    with monkeypatch.context() as patch:
        patch.setattr(LockedFile, "replace", _full)
        with pytest.raises(OSError, match="No space left"):
            start(folder)
    assert folder.stat().st_mode & 0o777 == 0o755
    assert list(folder.iterdir()) == []
    with monkeypatch.context() as patch:
        patch.setattr("os.geteuid", lambda: 12345)
        with pytest.raises(InvalidParameter, match="a folder of your own"):
            start(folder)
    assert folder.stat().st_mode & 0o777 == 0o755
    start(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def _full(*_: object) -> NoReturn:
    raise OSError(28, "No space left on device")
