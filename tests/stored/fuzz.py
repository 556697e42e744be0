"""Damage real files of every kind and read each in a process of its own, of which time and peak memory are measured.

    python tests/stored/fuzz.py REAL_FILES FIRST STEP LAST

prints one line of JSON for each of the cases FIRST, FIRST + STEP, ... below LAST. `test_damaged_files.py` runs it.
"""

import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import closing, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner
from damage import damage_bytes, damage_json, reseal_metadata, reseal_session
from real_files import EVENTS

import dphist as dp
from dphist.cli.app import app
from dphist.files.formats import METADATA_KEY, sha256
from dphist.ledger import Ledger
from dphist.run.stream import read_sealed, write_sealed
from dphist.verification import verify  # noqa: F401, loaded once for all cases
from dphist.verification.isolated import answer
from dphist.words import canonical, hash_of

SECONDS = 10
MEGABYTES = 1000
Read = Callable[[Path], bool]


def read_plan(path: Path) -> bool:
    """Load and describe a plan."""
    plan = dp.Plan.load(path)
    str(plan)
    plan.to_json()
    return True


def read_session(path: Path) -> bool:
    """Show a session and ask it."""
    session = dp.Session(path)
    str(session)
    session.query(EVENTS, by="item", k=1)
    return True


def read_stream(path: Path) -> bool:
    """Show a stream with its past, and add a batch."""
    stream = dp.Continual(path)
    str(stream)
    stream.show().html()
    stream.add(EVENTS, "another")
    return True


def read_ledger(path: Path) -> bool:
    """Every way to look into a ledger, and a charge. Accepted only if `verify` finds nothing."""
    accepted = True
    with Ledger(path) as opened:
        names = opened.names()
        for name in names:
            looks: list[Callable[[], object]] = [
                lambda name=name: opened.dataset(name),  # type: ignore[misc]
                lambda name=name: opened.left(name),  # type: ignore[misc]
                lambda name=name: str(opened.status(name)),  # type: ignore[misc]
                lambda name=name: json.dumps(opened.status(name).to_data(), allow_nan=False),  # type: ignore[misc]
                lambda name=name: opened.export(name),  # type: ignore[misc]
            ]
            with suppress(dp.DphistError):
                opened.commit(name, 1)
            for look in looks:
                try:
                    look()
                except dp.DphistError:
                    accepted = False
            accepted &= all(check.passed for check in opened.verify(name))
    for name in names:
        done = CliRunner().invoke(app, ["ledger", "history", "--ledger", str(path), "--dataset", name])
        if done.exception is not None and not isinstance(done.exception, SystemExit | dp.DphistError):
            raise done.exception
    return accepted


def read_published(path: Path) -> bool:
    """What the process of `dphist verify` does."""
    with tempfile.TemporaryFile("w+") as told:
        with redirect_stdout(told):
            answer(str(path), None, None)
        told.seek(0)
        found = json.load(told)
    return "checks" in found and all(check[1] is not False for check in found["checks"])


@dataclass(frozen=True)
class Kind:
    """Files of one kind: what is copied, which file in it is damaged and how, and who reads it."""

    number: int
    pairs: tuple[tuple[str, str], ...]
    damage: Callable[[Path, random.Random, int], None]
    read: Read


def _json(path: Path, rng: random.Random, number: int) -> None:
    path.write_bytes(damage_json(path.read_bytes(), rng, number))


def _session(path: Path, rng: random.Random, number: int) -> None:
    path.write_bytes(damage_json(path.read_bytes(), rng, number, reseal_session))


def _metadata(path: Path, rng: random.Random, number: int) -> None:
    path.write_bytes(damage_json(path.read_bytes(), rng, number, reseal_metadata))


def _bytes(path: Path, rng: random.Random, number: int) -> None:
    path.write_bytes(damage_bytes(path.read_bytes(), rng))


def _state(path: Path, rng: random.Random, number: int) -> None:
    """Of the settings or a column, with a checksum that fits, or not; or of any byte."""
    table = read_sealed(path.read_bytes(), "")
    if rng.random() < 0.3:
        _bytes(path, rng, number)
        return
    if rng.random() < 0.6:
        text = damage_json(table.schema.metadata[b"dphist"], rng, number)
        table = table.replace_schema_metadata({b"dphist": text})
    else:
        place = rng.randrange(table.num_columns)
        name, rows = table.column_names[place], table.num_rows
        column = rng.choice([
            pa.array([2**63 - 1] * rows), pa.array([-1] * rows), pa.array([None] * rows, pa.int64()), pa.array([0.5] * rows),
            pa.array(["x"] * rows), pa.array([[1]] * rows), pa.array([{"a": 1}] * rows), pa.nulls(rows),
        ])  # fmt: skip
        table = rng.choice([
            table.set_column(place, name, column), table.remove_column(place), table.append_column(name, column),
            table.append_column(rng.choice(["noise_9", "key_9", "x"]), column), table.slice(0, 1),
            pa.concat_tables([table] * 2),
        ])  # fmt: skip
    with path.open("wb") as sink:
        if rng.random() < 0.7:
            write_sealed(table, sink)
        else:
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)


def _inside(path: Path, rng: random.Random, number: int) -> None:
    """The metadata inside a Parquet file, and beside it with all digests computed anew."""
    table = pq.read_table(path)
    text = damage_json(table.schema.metadata[METADATA_KEY], rng, number, reseal_metadata)
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: text}), path)
    beside = path.with_name(path.name + ".dphist.json")
    with suppress(ValueError, RecursionError):
        data = {name: value for name, value in json.loads(text).items() if name != "digest"}
        beside.write_text(json.dumps(reseal_metadata({**data, "file": {"name": path.name, "sha256": sha256(path)}})))


def _bomb(path: Path, rng: random.Random, number: int) -> None:
    """A table that is small on disk and large in memory, with the right metadata."""
    write_bomb(path, pq.read_schema(path), rng.choice([1, 1000, 100_000]), rng.choice([10, 100, 300]))


def write_bomb(path: Path, like: pa.Schema, length: int, parts: int) -> None:
    """One key of so many letters, and again and again its number: `parts` times a hundred thousand rows."""
    key = pa.DictionaryArray.from_arrays(pa.array([0] * 100_000, pa.int32()), ["x" * length])
    part = pa.table({like.names[0]: key}).replace_schema_metadata(like.metadata)
    with pq.ParquetWriter(path, part.schema) as writer:
        for _ in range(parts):
            writer.write_table(part)


def _swap(path: Path, rng: random.Random, number: int) -> None:
    """Another file in its place."""
    others = [other for other in Path(sys.argv[1]).rglob("*") if other.is_file()]
    shutil.copy(rng.choice(others), path)


def _rows(path: Path, rng: random.Random, number: int) -> None:
    """Rows of a ledger, with hashes that fit, or not."""
    columns = ["dataset", "sequence", "time", "kind", "body", "noise_total", "delta_total", "previous", "hash"]
    with closing(sqlite3.connect(path)) as opened:
        for (trigger,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            opened.execute(f"DROP TRIGGER {trigger}")
        rows = opened.execute("SELECT rowid, body FROM dphist_entries ORDER BY dataset, sequence").fetchall()
        row, body = rows[number % len(rows)]
        column = "body" if rng.random() < 0.75 else rng.choice(columns)
        others = ["", "x", b"\xff\x00", -1, 1.5, 2**62, "9" * 900, "9" * 5000, "create", "commit", "reserve", "\x00"]
        value: Any = rng.choice(others)
        if column == "body":
            value = damage_json(body.encode(), rng, number // len(rows))
            with suppress(UnicodeDecodeError):
                value = value.decode()
        with suppress(sqlite3.IntegrityError, sqlite3.OperationalError):
            opened.execute(f"UPDATE dphist_entries SET {column} = ? WHERE rowid = ?", (value, row))
        if rng.random() < 0.7:
            _rehash(opened, columns)
        opened.commit()


def _rehash(opened: sqlite3.Connection, columns: list[str]) -> None:
    previous: dict[Any, str] = {}
    found = opened.execute(
        f"SELECT rowid, {', '.join(columns)} FROM dphist_entries ORDER BY dataset, sequence"
    ).fetchall()
    for row, *values in found:
        data = dict(zip(columns, values, strict=True))
        with suppress(ValueError, TypeError, RecursionError):
            data["previous"] = previous.get(data["dataset"], "0" * 64)
            body = json.loads(data["body"])
            new = hash_of({**{name: data[name] for name in columns if name != "hash"}, "body": body})
            text = canonical(body) if isinstance(data["body"], str) else data["body"]
            opened.execute(
                "UPDATE dphist_entries SET previous = ?, hash = ?, body = ? WHERE rowid = ?",
                (data["previous"], new, text, row),
            )
            previous[data["dataset"]] = new


def kinds(folder: Path) -> dict[str, Kind]:
    """What there is to be damaged, with how many cases of each make a full run."""
    plans = tuple((str(path.relative_to(folder)), "") for path in sorted((folder / "plans").iterdir()))
    releases = folder / "releases"
    tables = [path for path in sorted(releases.iterdir()) if not path.name.endswith(".dphist.json")]
    named = {kind: [f"releases/{path.name}" for path in tables if path.suffix in kind.split() and path.is_file()]
             for kind in (".parquet", ".csv .json .ndjson")}  # fmt: skip
    spark = [f"releases/{path.name}" for path in tables if path.is_dir()]
    parquet = tuple((name, "") for name in named[".parquet"])
    text = tuple((name, "") for name in named[".csv .json .ndjson"])
    beside = tuple((name, ".dphist.json") for names in named.values() for name in names)
    sessions, ledger = (("lists/session.json", ""), ("ledger/session.json", "")), (("ledger/ledger.db", ""),)
    streams = tuple((f"{name}/", "state.arrow") for name in ("lists/stream", "lists/begun", "ledger/stream"))
    parts = tuple((f"{name}/", str(next((folder / name).glob("part-*")).name)) for name in spark)
    metadata = tuple((f"{name}/", "_dphist/part-00000-0.txt") for name in spark)
    some_of_all = (*plans[:3], *sessions, *streams, *ledger, *parquet[:3], *text[:3])
    return {
        "plan": Kind(900, plans, _json, read_plan),
        "session": Kind(300, sessions, _session, read_session),
        "stream": Kind(400, streams, _state, read_stream),
        "round of a stream": Kind(100, (("lists/stream/", "rounds/0000002.arrow"),), _bytes, read_stream),
        "ledger, rows": Kind(400, ledger, _rows, read_ledger),
        "ledger, file": Kind(100, ledger, _bytes, read_ledger),
        "metadata beside": Kind(400, beside, _metadata, read_published),
        "metadata inside": Kind(300, parquet, _inside, read_published),
        "Parquet": Kind(300, parquet, _bytes, read_published),
        "Parquet, large inside": Kind(20, parquet, _bomb, read_published),
        "CSV and JSON": Kind(200, text, _bytes, read_published),
        "Spark folder, metadata": Kind(150, metadata, _metadata, read_published),
        "Spark folder, part": Kind(100, parts, _bytes, read_published),
        "another file": Kind(100, some_of_all, _swap, read_published),
    }


def reader_of(source: str, kind: Kind) -> Read:
    """Who reads a file, where the kind has files of several."""
    if kind.damage is not _swap:
        return kind.read
    first, last = source.split("/")[0], source.rstrip("/").split("/")[-1]
    if first == "releases":
        return read_published
    by_name = {"session.json": read_session, "ledger.db": read_ledger}
    return by_name.get(last, read_plan if first == "plans" else read_stream)


def prepare(folder: Path, kind: Kind, number: int, seed: str, target: Path) -> tuple[Path, Read]:
    """A damaged copy, and who reads it."""
    rng = random.Random(seed)
    source, inside = kind.pairs[number % len(kind.pairs)]
    copy = target / source.rstrip("/").split("/")[-1]
    if source.endswith("/") or (folder / source).is_dir():
        shutil.copytree(folder / source, copy)
    else:
        shutil.copy(folder / source, copy)
        beside = folder / (source + ".dphist.json")
        if beside.exists():
            shutil.copy(beside, target)
    damaged = copy / inside if source.endswith("/") else copy.with_name(copy.name + inside)
    kind.damage(damaged, rng, number // len(kind.pairs))
    return copy, reader_of(source, kind)


def run(folder: Path, name: str, kind: Kind, number: int, scratch: Path) -> dict[str, Any]:
    """One case: the outcome, with the seconds and the peak memory it took."""
    target = Path(tempfile.mkdtemp(dir=scratch))
    path, read = prepare(folder, kind, number, f"{name} {number}", target)
    told = target / "told"
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os._exit(_read_here(path, read, told))
    _, status, used = os.wait4(child, 0)
    seconds = time.monotonic() - start
    outcome = {0: "accepted", 1: "refused", 2: "traceback"}.get(os.waitstatus_to_exitcode(status), "crash")
    if outcome == "crash" and read is read_published:
        outcome = "ended apart"  # which `verify` turns into an error
    words = told.read_text() if told.exists() else ""
    shutil.rmtree(target)
    processor = used.ru_utime + used.ru_stime
    return {"kind": name, "number": number, "outcome": outcome, "seconds": min(seconds, processor + 0.5),
            "megabytes": used.ru_maxrss / 1024, "words": words}  # fmt: skip


def _read_here(path: Path, read: Read, told: Path) -> int:
    """The exit code of a forked process: accepted, refused or a traceback."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(60)
    os.chdir(path.parent)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 2)
    try:
        return 0 if read(path) else 1
    except dp.DphistError as problem:
        told.write_text(f"{type(problem).__name__}: {problem}", errors="backslashreplace")
        return 1
    except BaseException:
        told.write_text(traceback.format_exc(), errors="backslashreplace")
        return 2


def all_cases(folder: Path) -> list[tuple[str, Kind, int]]:
    """The cases of a full run, the kinds by turns, so that any stretch of them has something of each."""
    found = kinds(folder)
    return sorted(
        ((name, kind, number) for name, kind in found.items() for number in range(kind.number)),
        key=lambda case: (case[2] + 0.5) / case[1].number,
    )


def warm_up(folder: Path) -> None:
    """Load once what every case needs; nothing that begins threads, which a fork would lose."""
    for path in (folder / "plans").iterdir():
        read_plan(path)
    str(dp.Session(folder / "lists" / "session.json"))


def main() -> None:
    """See the module."""
    folder, (first, step, last) = Path(sys.argv[1]), map(int, sys.argv[2:5])
    warm_up(folder)
    with tempfile.TemporaryDirectory() as scratch:
        for name, kind, number in all_cases(folder)[first:last:step]:
            print(json.dumps(run(folder, name, kind, number, Path(scratch))), flush=True)


if __name__ == "__main__":
    main()
