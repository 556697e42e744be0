"""Every option of every command with nasty values, and nasty names and addresses: what to call, and one call judged.

Each call runs in a process of its own, forked from one that has loaded everything: its time and its peak memory are its own.
"""

from __future__ import annotations

import os
import resource
import selectors
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECRET = "hunter2secret"
CODES = {0, 1, 2, 3}
"""Done; a check failed; refused; recorded spends exceed the budget. Interrupts, 130, do not happen here."""
MOST_SECONDS, MOST_BYTES = 10.0, 10**9

NUMBERS = (
    "0", "-0", "-1", "1", "0.5", "1e-308", "5e-324", "2.2250738585072014e-308", "1e308", "1.7976931348623157e308", "inf",
    "-inf",
    "nan", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551616",
    "-9223372036854775809", "1" + "0" * 400, "1e400", "1_000", "0x10", "١٢", "１", "1,5", "+1", " 1 ", "1e-9", "1099511627776",
)  # fmt: skip
TEXTS = (
    "", " ", "\t", "\n", "\x01\x1b[31mred\x1b[0m", "\x7f\x80\x9f", "\u202eabc\u202c", "\ufeff", "e\u0301", "true",
    "False", "None",
    "null", "[]", "{}", "()", ";DROP TABLE dphist_entries;--", "'", '"', "`", "\\", "%s%n", "{0}", "${HOME}", "$(id)",
    "~", "..",
    "../../../../etc/passwd", "/dev/null", "/dev/zero", "/dev/stdin", "/dev/full", "/proc/self/mem", "/", ".", "con",
    "NUL", "*",
    "?", "-", "--", "=", "a=", "=b", "a=b", "a:b", "a:1:0", "a:0:1e308", "a:-1e308:1e308", "a:nan:1", "a:0:inf", "a=1e308",
    "sum_n=1e308", "sum_n=5e-324", "sum_n=0", "n:0:1e-320", "n:1e307:1e308", "https://user@host/x", "\udcff",
    "a\udcff.parquet", "x" * 300, "ä" * 2**20, "0" * 2**20, "9" * 5000, "(" * 5000, "1+" * 5000 + "1", "now()",
    "age(t)", "'now'::timestamp", "random()", "1 = 1; SELECT 1", "n > 'NaN'", "1e30TB", "0GB", "-1GB",
    "99999999999999999999GB",
    "1e-308GB", "4 GB", "0.000001B", "99999TiB", "sparse-gaussian", "laplace", "voting", "duckdb", "basic", "event", "key",
)  # fmt: skip
NAMES = (
    *TEXTS, "user", "USER", "n", "l", "s", "m", "count", "count_std_error", "count_low", "unit", "key_1", "rowid",
    "source", "null",
    "select", "from", "a.b", "a\"b", "a'b", "a b", " a", "a ", "a\nb", "😀", "𝔘", "ﬁ", "Å", "A\u030a", "ı", "İ", "ß", "ＡＢ",
    "month=date_trunc('month', t)", "x=n", "x==n", "x=", '"q=r"=n', "x=current_date", "x=l", "x=s.a", "x=m['a']", "x=len(l)",
)  # fmt: skip


def addresses() -> Iterator[str]:
    """Ledgers that are not there, with a password wherever one can be."""
    drivers = (
        "postgresql", "postgres", "postgresql+psycopg", "postgresql+psycopg2", "postgresql+asyncpg", "postgresql+pg8000",
        "postgresql+nothing", "mysql", "mysql+pymysql", "oracle", "mssql+pyodbc", "sqlite+aiosqlite", "sqlite+pysqlcipher",
        "sqlite", "duckdb", "http", "https", "file", "jdbc:postgresql", "snowflake", "a+b+c", "+", "", "POSTGRESQL", "Sqlite",
        "postgresql ", "postgresql\n", "постгрес", "sqlite+nothing",
    )  # fmt: skip
    for driver in drivers:
        yield f"{driver}://user:{SECRET}@127.0.0.1:1/name"
    bodies = (
        f"//user:{SECRET}@127.0.0.1:1/name", f"//user:p%40{SECRET}@127.0.0.1:1/name", f"//user:p@{SECRET}@127.0.0.1:1/name",
        f"//user:{SECRET}%@127.0.0.1:1/name", f"//user:%zz{SECRET}@127.0.0.1:1/name", f"//user:{SECRET}:x@127.0.0.1:1/name",
        f"//user:{SECRET}/x@127.0.0.1:1/name", f"//user:{SECRET}?x@127.0.0.1:1/name", f"//user:{SECRET}#x@127.0.0.1:1/name",
        f"//user:{SECRET}@127.0.0.1:port/name", f"//user:{SECRET}@127.0.0.1:99999/name", f"//user:{SECRET}@127.0.0.1:-1/name",
        f"//user:{SECRET}@127.0.0.1:1,127.0.0.1:2/name", f"//user:{SECRET}@[::1]:1/name", f"//user:{SECRET}@[::1/name",
        f"//user:{SECRET}@/name?host=127.0.0.1&port=1", f"//127.0.0.1:1/name?password={SECRET}&user=u",
        f"//127.0.0.1:1/name?passwd={SECRET}", f"//127.0.0.1:1/name?password={SECRET}&password={SECRET}2",
        f"//127.0.0.1:1/name?sslpassword={SECRET}", f"//127.0.0.1:1/name?options=-c%20x={SECRET}",
        f"//user:{SECRET}@127.0.0.1:1/name?sslmode=odd",
        f"//user:{SECRET}@127.0.0.1:1/name?unknown=1", f"//user:{SECRET}@127.0.0.1:1/name?connect_timeout=x",
        f"//user:{SECRET}@127.0.0.1:1/name?port=x",
        f"//user:{SECRET}@127.0.0.1:1/na%00me",  f"//user:{SECRET}@127.0.0.1:1/\udcff",
        f"//user:{SECRET}\udcff@127.0.0.1:1/n", f"//user:{SECRET}@no such host/n", f"//user:{SECRET}@host.invalid/n",
        f"//user:{SECRET}é@127.0.0.1:1/n", f"//:{SECRET}@127.0.0.1:1/n", f"//user:{SECRET}@",
        f"//user:{SECRET}", f"//user:{SECRET}@127.0.0.1:1",
        f"//user:{'x' * 100_000}{SECRET}@127.0.0.1:1/n", f"//127.0.0.1:1/n?password={'%41' * 3000}{SECRET}",
        f"//user:{SECRET}@127.0.0.1:1/n?host=/tmp/{'x' * 300}", f"//user:{SECRET}@127.0.0.1:1/n?a[]=1&&==",
        f"//user:p%25{SECRET}@127.0.0.1:1/n", f"//user:{SECRET}'\"@127.0.0.1:1/n", f"//user:{SECRET}\n@127.0.0.1:1/n",
        f"//user:{SECRET} x@127.0.0.1:1/n", f"//user:{SECRET}%20@127.0.0.1:1/n", f"//user:{SECRET}+@127.0.0.1:1/n",
    )  # fmt: skip
    for driver in ("postgresql:", "sqlite:", "mysql:", "oddity:"):
        yield from (driver + body for body in bodies)


PATHS = (
    "ledger.db", "missing.db", "sqlite:///ledger.db", "sqlite:////nowhere/ledger.db", "sqlite://", "sqlite:///",
    "sqlite:///:memory:",
    ":memory:", "sqlite:///file:ledger.db?mode=ro&uri=true", "sqlite:///ledger.db?timeout=0", "ledger.db?x=1",
    "sqlite:///a%00b", "events.csv", "plan.json", ".", "/", "/dev/null", "/dev/zero", "/dev/full",
    "/proc/self/mem", "/etc/passwd", "nowhere/ledger.db", "ledger.db/x", "\udcff.db", "sqlite:///\udcff.db", "x" * 300,
    "x" * 5000,
    "a://", "://", "://x", "//x", "C:\\ledger.db", "file:///ledger.db", "~/ledger.db", "*", "", " ", "\n",
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One call, and what it varies."""

    kind: str
    subject: str
    words: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Outcome:
    """How a call ended."""

    call: Call
    code: int
    seconds: float
    peak: int
    out: str
    err: str

    def problems(self) -> list[str]:
        """What must not happen, whatever is asked."""
        text = self.out + self.err
        complaints = [line for line in self.err.splitlines() if line.startswith(("dphist: ", "Usage:"))]
        odd = {
            f"ended with {self.code}": self.code not in CODES,
            "a traceback": "Traceback" in text or "Error: " in self.err,
            "a password": SECRET in text,
            "no error or more than one": self.code == 2 and len(complaints) != 1,
            f"took {self.seconds:.1f} s": self.seconds > MOST_SECONDS,
            f"took {self.peak / 1e6:.0f} MB": self.peak > MOST_BYTES,
        }
        return [words for words, happened in odd.items() if happened]


COMMON = ("--unit", "user", "--by", "url")
BUDGET = ("--epsilon", "1", "--delta", "1e-6")
USUAL: dict[str, tuple[str, ...]] = {
    "demo": ("--data", "new"),
    "plan": (*BUDGET, "--max-groups", "3"),
    "profile": ("--noise-std", "16", "--gap", "98", "--max-groups", "10", "--epsilon", "1"),
    "release": ("events.csv", *COMMON, *BUDGET, "--max-groups", "3", "-o", "out.csv"),
    "select": ("events.csv", *COMMON, *BUDGET, "-o", "out.csv", "--dry-run"),
    "sql": (
        "SELECT WITH DIFFERENTIAL_PRIVACY url, COUNT(DISTINCT user) FROM events GROUP BY url", "--table", "events.csv",
        "--unit", "user", *BUDGET, "-o", "out.csv",
    ),
    "stat": ("max", "events.csv", "--unit", "user", "--column", "n", "--lower", "0", "--upper", "9", "--error", "1",
    "--epsilon", "1"),
    "bounds": ("events.csv", "--unit", "user", "--column", "n", "--epsilon", "1"),
    "verify": ("old.csv",),
    "explain": ("voting",),
    "top-k": ("events.csv", *COMMON, *BUDGET, "--k", "2", "--method", "ranked"),
    "ledger create": ("--ledger", "new.db", "--dataset", "e", *BUDGET, "--unit", "user", "--accountant", "basic"),
    "ledger show": ("--ledger", "ledger.db"),
    "ledger history": ("--ledger", "ledger.db"),
    "ledger verify": ("--ledger", "ledger.db"),
    "ledger export": ("--ledger", "ledger.db", "-o", "export.json"),
    "ledger record": (
        "--ledger", "ledger.db", "--dataset", "events", "--unit", "user", "--protects", "unit", "--epsilon", "0.1",
        "--note", "x",
    ),
    "audit": ("--mechanism", "nothing"),
    "session start": ("new.json", "--unit", "user", *BUDGET, "--results", "5", "--queries", "2"),
    "session query": ("session.json", "events.csv", "--by", "url", "--k", "1"),
    "session show": ("session.json",),
    "continual start": ("new", *COMMON, *BUDGET, "--rounds", "4", "--max-groups", "1"),
    "continual add": ("stream", "events.csv", "--batch", "one"),
    "continual show": ("stream",),
}  # fmt: skip
"""For each command a call that succeeds, or, of audits, one that is refused last."""

NAMED = (
    "--table",
    "--public",
    "--unit",
    "--by",
    "--column",
    "--where",
    "--dataset",
    "--batch",
    "--note",
    "--sum",
    "--no-header",
    "--head",
)


def commands() -> dict[str, Any]:
    """Every command by its words."""
    from command_line import every_command

    return {" ".join(words[1:]): one for words, one in every_command().items() if not hasattr(one, "commands")}


def usual(command: str, flags: Sequence[str]) -> list[str]:
    """The usual call without an option."""
    words = list(USUAL[command])
    kept: list[str] = []
    while words:
        word = words.pop(0)
        if word in flags:
            words.pop(0)
        else:
            kept.append(word)
    return kept


def option_calls() -> list[Call]:
    """Every option that takes a value with every value, and every argument too."""
    calls = []
    for name, command in commands().items():
        for parameter in command.params:
            if getattr(parameter, "is_flag", False):
                continue
            flags = [flag for flag in parameter.opts if flag.startswith("-")]
            for value in (*NUMBERS, *TEXTS):
                if flags:
                    given = [f"{flags[-1]}={value}"]
                    words = (*name.split(), *usual(name, flags), *given)
                else:
                    words = (*name.split(), *USUAL[name][1:], "--", value)
                calls.append(Call("option", f"{name} {flags[-1] if flags else parameter.name}", words))
    return calls


def name_calls() -> list[Call]:
    """Names of columns, data sets and batches; addresses of ledgers, as options and in the environment."""
    calls = []
    for name, command in commands().items():
        for parameter in command.params:
            for flag in set(parameter.opts) & set(NAMED):
                for value in NAMES:
                    calls.append(
                        Call("name", f"{name} {flag}", (*name.split(), *usual(name, [flag]), f"{flag}={value}"))
                    )
    asked = ("ledger show", "ledger record", "ledger create", "release", "verify", "session query", "continual start")
    for at, address in enumerate((*addresses(), *PATHS)):
        name = asked[at % len(asked)]
        more = ("--dataset", "events") if name in ("release", "continual start") else ()
        words = (*name.split(), *usual(name, ["--ledger"]), *more)
        calls.append(Call("address", f"{name} --ledger", (*words, f"--ledger={address}")))
        calls.append(Call("environment", f"{name} DPHIST_LEDGER", words, (("DPHIST_LEDGER", address),)))
    for value in (*TEXTS, "events"):
        variables = (("DPHIST_LEDGER", "ledger.db"), ("DPHIST_DATASET", value))
        words = ("ledger", "show") if len(value) % 2 else ("release", *USUAL["release"])
        calls.append(Call("environment", "DPHIST_DATASET", words, variables))
    return calls


def sample(calls: Sequence[Call], number: int) -> list[Call]:
    """So many of them, the same ones every time, from all kinds and subjects."""
    step = len(calls) / number
    return [calls[int(i * step)] for i in range(number)]


def prepare(folder: Path) -> None:
    """The files that calls read."""
    from command_line import dphist

    rows = [f"u{i},https://x/{i % 3},{i % 7},2026-01-{1 + i % 28:02}" for i in range(300)]
    (folder / "events.csv").write_text("\n".join(["user,url,n,t", *rows, ""]))
    (folder / "keys.txt").write_text("https://x/0\nhttps://x/1\n")
    steps = (
        ("plan", *USUAL["plan"], "--save", "plan.json"),
        (
            "ledger",
            "create",
            "--ledger",
            "ledger.db",
            *USUAL["ledger create"][2:3],
            "events",
            *USUAL["ledger create"][4:],
        ),
        ("release", *USUAL["release"][:-1], "old.csv"),
        ("session", "start", "session.json", *USUAL["session start"][1:]),
        ("continual", "start", "stream", *USUAL["continual start"][1:]),
    )
    for words in steps:
        done = dphist(*words, cwd=folder)
        assert done.returncode == 0, (words, done.stderr)


def _load() -> None:
    """Everything that a command imports: what is loaded before the fork is not counted as a call's time."""
    import duckdb  # noqa: F401
    import pandas  # noqa: F401 - pyarrow loads it
    import psycopg  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import pydantic  # noqa: F401
    import scipy.special  # noqa: F401
    import sqlalchemy  # noqa: F401

    import dphist.audit.run
    import dphist.run.continual
    import dphist.run.job
    import dphist.sql.connection
    import dphist.verification.verify  # noqa: F401


def run(call: Call, files: Path, folder: Path) -> Outcome:
    """Run one call in a process of its own, in a fresh copy of the files, and kill it when its time is up."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(files, folder)
    out, err = os.pipe(), os.pipe()
    began = time.monotonic()
    if (child := os.fork()) == 0:
        _become(call, folder, out[1], err[1])
    os.close(out[1])
    os.close(err[1])
    texts = _drain(
        {out[0]: bytearray(), err[0]: bytearray()}, began + 6 * MOST_SECONDS, lambda: os.kill(child, signal.SIGKILL)
    )
    _, status, usage = os.wait4(child, 0)
    seconds = usage.ru_utime + usage.ru_stime  # not by the clock: other processes run too
    code = os.waitstatus_to_exitcode(status)
    return Outcome(call, code, seconds, usage.ru_maxrss * 1024, texts[out[0]], texts[err[0]])


def _drain(pipes: dict[int, bytearray], end: float, kill: Callable[[], None]) -> dict[int, str]:
    waiting = selectors.DefaultSelector()
    for pipe in pipes:
        waiting.register(pipe, selectors.EVENT_READ)
    while waiting.get_map():
        if not (ready := waiting.select(max(end - time.monotonic(), 0))):
            kill()
            end = time.monotonic() + 60
        for key, _ in ready:
            if piece := os.read(key.fd, 2**16):
                pipes[key.fd] += piece[: max(0, 2**22 - len(pipes[key.fd]))]
            else:
                waiting.unregister(key.fd)
                os.close(key.fd)
    return {pipe: bytes(text).decode(errors="backslashreplace") for pipe, text in pipes.items()}


def _become(call: Call, folder: Path, out: int, err: int) -> None:
    """The child: this interpreter as a user would have started it."""
    from dphist.cli import main

    code = 70
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        for handle in map(int, os.listdir("/proc/self/fd")):
            with suppress(OSError):  # an object of the parent may close it again, when the number is somebody else's
                if handle > 2:
                    os.dup2(0, handle)
        sys.stdout = open(1, "w", encoding="utf-8")  # noqa: SIM115 - until the end
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
        os.chdir(folder)
        os.environ.update(call.environment)
        resource.setrlimit(resource.RLIMIT_AS, (16 * 2**30, 16 * 2**30))
        sys.argv = ["dphist", *call.words]
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            import traceback

            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def main(arguments: Sequence[str]) -> None:
    """Run a share of the calls and print what is wrong: `python tests/cli/argument_fuzz.py options|names NUMBER PART OF`."""
    import tempfile

    what, number, part, of = arguments[0], *map(int, arguments[1:4])
    calls = option_calls() if what == "options" else name_calls()
    chosen = sample(calls, min(number, len(calls)))[part::of]
    _load()
    with tempfile.TemporaryDirectory(prefix="dphist-fuzz-") as place:
        files = Path(place) / "files"
        files.mkdir()
        prepare(files)
        counts: Counter[str] = Counter()
        for call in chosen:
            outcome = run(call, files, Path(place) / "call")
            counts[f"{call.kind}: exit code {outcome.code}"] += 1
            if problems := outcome.problems():
                shown = [word if len(word) < 120 else f"{word[:40]}…({len(word)})" for word in call.words]
                print("PROBLEM", problems, shown, dict(call.environment), repr(outcome.err[-700:]), flush=True)
    for ended, number in counts.items():
        print("COUNT", number, ended)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main(sys.argv[1:])
