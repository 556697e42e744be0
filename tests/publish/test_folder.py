"""A folder is in order only if every file in it is: paid for by this ledger, and as it was written to the byte."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dphist as dp
from command_line import dphist
from dphist.files.digests import seal
from dphist.files.formats import METADATA_KEY, sidecar
from dphist.ledger import DataSet, Ledger
from dphist.run.release import Published
from dphist.show.page import metadata_in
from dphist.verification.folder import Examined, examine_all
from dphist.verification.state import PAID, UNREADABLE

EVENTS = pa.table({"user": [i % 400 for i in range(1200)], "item": [f"i{(i * i) % 7}" for i in range(1200)]})
FORMS = ["table.parquet", "table.csv", "table.json", "report.html"]
KINDS = ["release", "stream", "answer", "select", "top-k"]
BY_OTHERS = KINDS[:3]
STATEMENT = """SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 3)
    item, COUNT(DISTINCT user) AS people FROM events GROUP BY item"""


def make(kind: str, folder: Path, charged: dict[str, Any]) -> Published:
    asked: dict[str, Any] = {"unit": "user", "by": "item", "epsilon": 1, "delta": 1e-6, **charged}
    if kind == "release":
        return dp.release(EVENTS, max_groups=3, **asked)
    if kind == "select":
        return dp.select(EVENTS, **asked)
    if kind == "top-k":
        return dp.top_k(EVENTS, k=4, **asked)
    if kind == "answer":
        return dp.connect(tables={"events": EVENTS}, unit="user", **charged).sql(STATEMENT)
    events = {**asked, **({"dataset": "events"} if charged else {})}
    return dp.Continual.start(folder, rounds=3, max_groups=3, **events).add(EVENTS, "one")


def write(published: Published, folder: Path) -> None:
    folder.mkdir(parents=True)
    for form in FORMS:
        (published.report if form.endswith("html") else published.write)(folder / form)


def new_ledger(address: Path) -> Path:
    with Ledger(address, create=True) as opened:
        opened.create(DataSet("people", 20.0, 1e-3, "user", "basic"))
        opened.create(DataSet("events", 20.0, 1e-3, "user", "basic", "event"))
    return address


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ledgers; folders of what the first paid for, of what the other did, and of what none did."""
    root = tmp_path_factory.mktemp("folder")
    for ledger in ("mine", "theirs"):
        charged = {"ledger": new_ledger(root / f"{ledger}.db"), "dataset": "people"}
        for kind in KINDS if ledger == "mine" else BY_OTHERS:
            write(make(kind, root / f"{ledger}-{kind}", charged), root / ledger / kind)
    for kind in BY_OTHERS:
        write(make(kind, root / f"nobodys-{kind}", {}), root / "nobodys" / kind)
    return root


def states(found: list[Examined], root: Path) -> dict[str, str]:
    return {str(one.path.relative_to(root)): one.state for one in found}


@pytest.mark.parametrize(("whose", "state"), [("mine", PAID), ("theirs", "of another ledger"), ("nobodys", "unpaid")])
def test_every_file_of_every_kind_is_paid_for_or_named(made: Path, whose: str, state: str) -> None:
    found, kinds = examine_all([made / whose], ledger=made / "mine.db"), KINDS if whose == "mine" else BY_OTHERS
    assert states(found, made / whose) == {f"{kind}/{form}": state for kind in kinds for form in FORMS}
    assert all(one.reason for one in found)
    assert {one.state for one in examine_all([made / whose])} == {"intact"}  # without a ledger nobody can tell
    done = dphist(
        "ledger", "verify", "--ledger", str(made / "mine.db"), "--dataset", "people", "--against", str(made / whose)
    )
    assert done.returncode == (0 if state == PAID else 1), done.stdout
    assert done.stdout.count(f": {state} (") == len(found)
    done = dphist("verify", str(made / whose), "--ledger", str(made / "mine.db"), "--json")
    assert done.returncode == (0 if state == PAID else 1)
    assert {one["state"] for one in json.loads(done.stdout)} == {state}


def test_a_ledger_that_was_set_back_or_edited_paid_for_nothing_later(made: Path, tmp_path: Path) -> None:
    address = new_ledger(tmp_path / "ledger.db")
    charged: dict[str, Any] = {"ledger": address, "dataset": "people"}
    (tmp_path / "out").mkdir()
    make("release", tmp_path, charged).write(tmp_path / "out" / "a.csv")
    shutil.copy(address, tmp_path / "old.db")
    make("release", tmp_path, charged).write(tmp_path / "out" / "b.csv")
    assert states(examine_all([tmp_path / "out"], ledger=address), tmp_path) == {"out/a.csv": PAID, "out/b.csv": PAID}
    found = states(examine_all([tmp_path / "out"], ledger=tmp_path / "old.db"), tmp_path)
    assert found == {"out/a.csv": PAID, "out/b.csv": "of another ledger"}
    words = dphist("ledger", "verify", "--ledger", str(tmp_path / "old.db"), "--dataset", "people", "--head", "0" * 64)
    assert words.returncode == 1
    found = states(examine_all([tmp_path / "out"], ledger=address, head="0" * 64), tmp_path)
    assert found == {"out/a.csv": "unpaid", "out/b.csv": "unpaid"}  # a chain that was made anew shows nothing
    with pytest.raises(dp.InvalidParameter, match="a ledger with the head"):
        examine_all([tmp_path / "out"], head="0" * 64)


def meaning(path: Path) -> list[Any]:
    """What a reader finds in a file and beside it."""
    if path.suffix == ".parquet":
        inside: list[Any] = [pq.read_table(path), pq.read_metadata(path).metadata[METADATA_KEY]]
    else:
        inside = [path.read_bytes()]
    return [*inside, json.loads(sidecar(path).read_text()) if sidecar(path).exists() else None]


@pytest.mark.parametrize("form", [*FORMS, "table.parquet alone"])
def test_no_byte_of_a_paid_file_can_be_changed(made: Path, tmp_path: Path, form: str) -> None:
    """In the table or in its metadata. A Parquet file alone may have statistics and names by which others read it wrongly."""
    path = tmp_path / form.removesuffix(" alone")
    parts = [path] if form.endswith(("alone", "html")) else [path, sidecar(path)]
    best = "unsealed" if form.endswith("alone") else PAID
    for part in parts:
        shutil.copy(made / "mine" / "release" / part.name, part)
    assert dp.verify(path, ledger=made / "mine.db").state == best
    before, chosen, harmless = meaning(path), random.Random(form), 0
    for part in parts:
        content = part.read_bytes()
        places = [0, len(content) - 1, *chosen.sample(range(len(content)), 24)]
        for number, place in enumerate(places):
            changed = bytearray(content)
            changed[place] ^= (1, 0x20, 0x80)[number % 3]
            part.write_bytes(changed)
            try:
                state = dp.verify(path, ledger=made / "mine.db").state
            except dp.DphistError:
                state = UNREADABLE
            if state == best:  # a key's letter in JSON may be of another case, as in 1E-08
                assert meaning(path) == before, (part.name, place)
                harmless += 1
            else:
                assert state in ("edited", "unpaid", "of another ledger", UNREADABLE), (part.name, place)
        part.write_bytes(content)
    assert harmless <= (len(places) * 3 // 4 if form.endswith("alone") else 2)


def test_a_report_is_held_against_plan_and_ledger(made: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    whole = (made / "mine" / "release" / "report.html").read_text()
    page.write_text(whole.replace("<td", "<td ", 1))
    assert dp.verify(page, ledger=made / "mine.db").reason == "file was changed after it was written"
    page.write_text(whole.replace("\n", "", 1))
    assert dp.verify(page).state == "edited"
    told = metadata_in(whole.encode())
    assert told is not None
    forged = json.dumps(seal({**json.loads(told), "epsilon": 0.001}), separators=(",", ":"))
    page.write_text(whole.replace(told.decode(), forged))
    assert "epsilon" in {check.name for check in dp.verify(page) if check.failed}
    for content in (whole.replace('id="metadata"', "x"), whole.partition('id="metadata">')[0] + 'id="metadata">{', ""):
        page.write_text(content)
        with pytest.raises(dp.InvalidParameter):
            dp.verify(page)
    page.write_text(whole)
    assert [check.name for check in dp.verify(page) if check.passed is None] == ["columns", "ledger"]
    assert dphist("verify", str(page), "--ledger", str(made / "mine.db")).returncode == 0


def test_a_line_for_every_file_whatever_lies_there(made: Path, tmp_path: Path) -> None:
    root = tmp_path / "published"
    shutil.copytree(made / "mine" / "release", root / "a" / "b")
    for name in (".hidden", "a/readme.md", "a/ledger.db", "a/b/odd\nname.csv", "a/b/\udcff.parquet", "empty.parquet"):
        (root / os.fsencode(name).decode("utf-8", "surrogateescape")).touch()
    pq.write_table(EVENTS, root / "events.parquet")
    sidecar(root / "gone.csv").write_bytes(sidecar(root / "a/b/table.csv").read_bytes())
    (root / ".dphist.json").write_text("{}")
    (root / "dangling.csv").symlink_to("/nowhere/x")
    (root / "a" / "loop").symlink_to(root)
    (root / "empty").mkdir()
    os.mkfifo(root / "pipe.parquet")
    found = states(examine_all([root], ledger=made / "mine.db"), root)
    good = {f"a/b/{form}" for form in FORMS}
    assert set(found) == good | {
        ".hidden", "a/readme.md", "a/ledger.db", "a/b/odd\nname.csv", "a/b/\udcff.parquet", "empty.parquet", "events.parquet",
        "gone.csv", ".dphist.json", "dangling.csv", "a/loop", "pipe.parquet",
    }  # fmt: skip
    assert {name for name, state in found.items() if state == PAID} == good
    assert {state for name, state in found.items() if name not in good} == {UNREADABLE}
    words = ("ledger", "verify", "--ledger", str(made / "mine.db"), "--dataset", "people")
    done = dphist(*words, "--against", str(root))
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 3 + len(found)
    told = json.loads(dphist(*words, "--against", str(root), "--json").stdout)
    assert [one["passed"] for one in told if one["check"] == "file"].count(False) == len(found) - len(good)
    done = dphist(
        *words, "--against", str(root / "a" / "b" / "table.csv"), "--against", str(root / "a/b/table.csv.dphist.json")
    )
    assert (done.returncode, done.stdout.count("paid and intact")) == (0, 2)
    assert dphist(*words, "--against", str(root / "empty")).returncode == 2
    assert dphist("verify", str(root), "--ledger", str(tmp_path / "none.db")).returncode == 2
    assert dphist("verify", str(root / "a" / "b" / "table.csv"), str(root / "none.csv"), "--quiet").returncode == 1


def test_a_table_that_nothing_seals_is_not_called_intact(made: Path, tmp_path: Path) -> None:
    """As Spark writes it: an edit of a part would not show."""
    out = tmp_path / "out.parquet"
    (out / "_dphist").mkdir(parents=True)
    charged: dict[str, Any] = {"ledger": made / "mine.db", "dataset": "people"}
    release = make("release", tmp_path, charged)
    pq.write_table(release.to_arrow(), out / "part-0.parquet")
    (out / "_dphist" / "part-0").write_text(json.dumps(seal({**release.metadata(), "table": None})))
    (found,) = examine_all([tmp_path], ledger=made / "mine.db")
    assert (found.state, found.path) == ("unsealed", out)
    assert found.reason.startswith("table Spark wrote it in parts")
    assert dphist("verify", str(out)).returncode == 0  # of one file all checks are shown, and none failed
    (out / "_dphist" / "part-0").write_text(json.dumps(seal({**release.metadata(), "table": None, "epsilon": 0.5})))
    assert states(examine_all([tmp_path], ledger=made / "mine.db"), tmp_path) == {"out.parquet": "edited"}


def test_nothing_hides_behind_the_name_of_something_paid(made: Path, tmp_path: Path) -> None:
    """Metadata of metadata, of a page or of a folder; what lies in a folder of Spark and is no part of its table."""
    table, unpaid = made / "mine" / "release" / "table.parquet", made / "nobodys" / "release" / "table.json"
    out = tmp_path / "out.parquet"
    (out / "_dphist").mkdir(parents=True)
    shutil.copy(table, out / "part-0.parquet")
    inside = pq.read_metadata(table).metadata[METADATA_KEY]
    (out / "_dphist" / "part-0").write_bytes(inside)
    (out / "_SUCCESS").touch()
    (out / "._SUCCESS.crc").write_bytes(b"crc")
    shutil.copy(made / "mine" / "release" / "report.html", tmp_path / "page.html")
    (tmp_path / "sub").mkdir()
    for place in (tmp_path, tmp_path / "sub"):
        shutil.copy(table, place)
        shutil.copy(sidecar(table), place)
    paid = {"page.html": PAID, "table.parquet": PAID, "sub/table.parquet": PAID, "out.parquet": "unsealed"}
    assert states(examine_all([tmp_path], ledger=made / "mine.db"), tmp_path) == paid
    for name in (
        "page.html.dphist.json",
        "sub.dphist.json",
        "table.parquet.dphist.json.dphist.json",
        "x.dphist.json/u.json",
    ):
        hidden = tmp_path / name
        hidden.parent.mkdir(exist_ok=True)
        shutil.copy(unpaid, hidden)
        assert states(examine_all([tmp_path], ledger=made / "mine.db"), tmp_path) == {**paid, name: UNREADABLE}
        hidden.unlink()
    for name in ("k=1/u.parquet", "_u.parquet", "_dphist/u.csv", ".u.crc", "_dphist/part-1/u.csv", "part-1/u.parquet"):
        hidden = out / name
        hidden.parent.mkdir(exist_ok=True)
        shutil.copy(unpaid, hidden)
        found = states(examine_all([tmp_path], ledger=made / "mine.db"), tmp_path)
        assert found == {**paid, "out.parquet": UNREADABLE if name.startswith("_dphist/part") else "edited"}
        shutil.rmtree(hidden.parent) if hidden.parent not in (out, out / "_dphist") else hidden.unlink()
    (out / "_SUCCESS").write_bytes(unpaid.read_bytes())
    assert states(examine_all([out], ledger=made / "mine.db"), tmp_path) == {"out.parquet": "edited"}


def test_an_entry_pays_once(tmp_path: Path) -> None:
    charged: dict[str, Any] = {"ledger": new_ledger(tmp_path / "ledger.db"), "dataset": "people"}
    two = dp.connect(tables={"events": EVENTS}, unit="user", **charged).sql(
        f"SELECT * FROM ({STATEMENT}) UNION ALL SELECT * FROM ({STATEMENT})"
    )
    two.write(tmp_path / "two.csv")
    assert dp.verify(tmp_path / "two.csv", ledger=tmp_path / "ledger.db").state == PAID
    beside = sidecar(tmp_path / "two.csv")
    told = json.loads(beside.read_text())
    told["releases"][1]["ledger"] = told["releases"][0]["ledger"]
    beside.write_text(json.dumps(seal({name: value for name, value in told.items() if name != "digest"})))
    checks = dp.verify(tmp_path / "two.csv", ledger=tmp_path / "ledger.db")
    assert (checks.state, checks.reason) == ("edited", "entries two tables of it name one entry, which paid once")


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder that this process may not list; an administrator may, who is somebody else meanwhile."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        (Path(name) / "closed").mkdir(mode=0o000)
        ours = os.geteuid()
        os.seteuid(65534 if ours == 0 else ours)
        try:
            yield Path(name)
        finally:
            os.seteuid(ours)
            (Path(name) / "closed").chmod(0o700)


def test_a_folder_that_cannot_be_listed_is_named(closed_folder: Path) -> None:
    (found,) = examine_all([closed_folder])
    assert found == Examined(closed_folder / "closed", UNREADABLE, "the folder cannot be listed: Permission denied")
    assert not found.is_good


def test_a_notebook_and_print_show_a_table(made: Path) -> None:
    checks = dp.verify(made / "mine" / "release" / "table.csv")
    page = checks._repr_html_()
    assert page.count("<tr") == len(checks) + 1
    assert "The file is intact" in page
    assert all(f"{check.name}</td>" in page and check.state in page for check in checks)
    assert str(checks).splitlines()[0] == "  ok    file       is the one that was written"


def test_one_entry_pays_for_one_table(tmp_path: Path) -> None:
    """Another table that names its entry fails with the one that was paid for: nobody can tell which is which."""
    charged: dict[str, Any] = {"ledger": (address := new_ledger(tmp_path / "ledger.db")), "dataset": "people"}
    release, other, unpaid = (make("release", tmp_path, charged) for _ in range(3))
    assert isinstance(release, dp.Release)
    assert isinstance(unpaid, dp.Release)
    forged = replace(unpaid, receipt=release.receipt)
    out = tmp_path / "out"
    for name, published in (("paid", release), ("other", other), ("edited", forged)):
        write(published, out / name)
    assert {one.state for name in ("paid", "other", "edited") for one in examine_all([out / name], ledger=address)} == {
        PAID
    }
    for ledger in (address, None):
        found = examine_all([out], ledger=ledger)
        failed = {f"{name}/{form}" for name in ("paid", "edited") for form in FORMS if form != "report.html"}
        assert {str(one.path.relative_to(out)) for one in found if not one.is_good} == failed
        reasons = {(one.state, one.reason) for one in found if not one.is_good}
        assert reasons == {("unpaid", "another file of this folder names the same entry and has another table")}
    assert dphist("verify", str(out / "paid"), str(out / "other"), "--ledger", str(address)).returncode == 0
    assert dphist("verify", str(out / "paid"), str(out / "edited"), "--ledger", str(address)).returncode == 1


def test_a_stream_and_a_script_publish_as_often_as_they_say(tmp_path: Path) -> None:
    """One entry pays for all rounds of a stream, and an answer may lie beside the private table that it is computed from."""
    charged: dict[str, Any] = {"ledger": new_ledger(tmp_path / "ledger.db"), "dataset": "events"}
    stream = dp.Continual.start(
        tmp_path / "stream", unit="user", by="item", epsilon=1, delta=1e-6, rounds=3, max_groups=3, **charged
    )
    (out := tmp_path / "out").mkdir()
    for number in range(2):
        stream.add(EVENTS.slice(600 * number, 600), str(number)).write(out / f"round_{number}.csv")
    answer = make("answer", tmp_path, {**charged, "dataset": "people"})
    assert isinstance(answer, dp.Answer)
    answer.write(out / "answer.csv")
    answer.releases[0].write(out / "private.csv")
    assert {one.state for one in examine_all([out], ledger=charged["ledger"])} == {PAID}
