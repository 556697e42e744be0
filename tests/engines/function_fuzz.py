"""Call every function of the list with nasty arguments, in a child process that may fail, die or swell without harm.

The child builds tables of nasty tuples, evaluates `TRY(CASE WHEN guard THEN call END)` over them and says what went wrong:
an error that TRY let through, a result that depends on the other rows or on the position, text that is not UTF-8, more
memory than a call may take. A batch of cases shares a query; one that goes wrong is halved until a single case is to
blame. When the child dies (a crash, or more time than a batch may take), the parent halves the batch it was at.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
from function_cases import Case, Effort, batches
from function_values import CORE, VALUES, is_long

LONGEST: Final = 65_536
MOST_ELEMENTS: Final = 4_096
MEMORY_OF_A_CALL: Final = 4 << 20
MEMORY_OF_A_QUERY: Final = 4 << 20  # what DuckDB takes for any query: buffers of 2,048 rows, a plan
SECONDS_OF_A_BATCH: Final = 60
BATCH: Final = 25
MOST_LONG: Final = 200  # tuples of a table with long values: the tables have to fit into memory, too
_RANGES: Final = {
    "DATE": ("0001-01-01", "9999-12-31"),
    "TIMESTAMP": ("0001-01-01", "9999-12-31 23:59:59.999999"),
    "TIMESTAMP_S": ("0001-01-01", "9999-12-31 23:59:59"),
    "TIMESTAMP_MS": ("0001-01-01", "9999-12-31 23:59:59.999"),
    "TIMESTAMP_NS": ("1677-09-22", "2262-04-11"),
    "TIMESTAMP WITH TIME ZONE": ("0001-01-02 00:00:00+00", "9999-12-30 23:59:59.999999+00"),
}


@dataclass(slots=True)
class Outcome:
    """What happened: the cases that bind (the others are refused without a record), the calls, the problems."""

    bound: list[Case] = field(default_factory=list)
    calls: int = 0
    problems: list[tuple[Case, str]] = field(default_factory=list)
    seconds: float = 0.0
    memory: int = 0


def fuzz(cases: Iterable[Case], effort: Effort) -> Outcome:
    """Run cases in child processes and collect what happened."""
    outcome = Outcome()
    every = batches(cases, BATCH)
    _run_children(every, effort, outcome, memory=False)
    # Memory that was held and given back hides what is taken next, so calls are weighed where there were only calls alone.
    unsafe = {case for case, _ in outcome.problems}
    bound = set(outcome.bound) - unsafe
    weighed = [[case for case in batch if case in bound] for batch in every if _long_rows(batch[0].types, effort)]
    _run_children([batch for batch in weighed if batch], effort, outcome, memory=True)
    return outcome


def _run_children(waiting: list[list[Case]], effort: Effort, outcome: Outcome, *, memory: bool) -> None:
    while waiting:
        order = {
            "batches": [[asdict(case) for case in batch] for batch in waiting],
            "effort": asdict(effort),
            "memory": memory,
        }
        child = subprocess.run(
            [sys.executable, __file__], input=json.dumps(order), capture_output=True, text=True, check=False
        )
        answers = [json.loads(line) for line in child.stdout.splitlines() if line.endswith("}")]
        for batch, answer in zip(waiting, answers, strict=False):
            _note(outcome, batch, answer)
        waiting = waiting[len(answers) :]
        if waiting and child.returncode >= 0:
            raise RuntimeError(f"The fuzzer itself failed: {child.stderr[-2000:]}")
        if waiting and len(waiting[0]) > 1:
            half = len(waiting[0]) // 2
            waiting[:1] = [waiting[0][:half], waiting[0][half:]]
        elif waiting:
            outcome.problems.append((waiting.pop(0)[0], f"the process died: {signal.Signals(-child.returncode).name}"))


def _note(outcome: Outcome, batch: Sequence[Case], answer: dict[str, Any]) -> None:
    outcome.calls += answer["calls"]
    outcome.seconds = max(outcome.seconds, answer["seconds"])
    outcome.memory = max(outcome.memory, answer["memory"])
    outcome.bound += [batch[position] for position in answer["bound"]] if answer["calls"] or answer["problems"] else []
    outcome.problems += [(batch[position], problem) for position, problem in answer["problems"]]


def _tuples(types: tuple[str, ...], effort: Effort) -> list[tuple[int, ...]]:
    """All tuples of values, or each value at least once and then random ones."""
    chance = random.Random(f"{types} {effort.seed}")
    sizes = [len(VALUES[kind]) for kind in types]
    if math.prod(sizes) <= min(effort.rows, MOST_LONG):
        return list(itertools.product(*map(range, sizes)))
    shuffled = [chance.sample(range(size), size) for size in sizes]
    once = [tuple(order[step % len(order)] for order in shuffled) for step in range(max(sizes))]
    drawn = [tuple(chance.randrange(size) for size in sizes) for _ in range(effort.rows)]
    some = list(dict.fromkeys([*_core(types), *once]))
    more = [row for row in dict.fromkeys(drawn) if row not in some]
    room = max(0, MOST_LONG - sum(is_long_row(types, row) for row in some))
    long = [row for row in more if is_long_row(types, row)][:room]
    return [*some, *[*long, *(row for row in more if not is_long_row(types, row))][: max(0, effort.rows - len(some))]]


def is_long_row(types: tuple[str, ...], row: tuple[int, ...]) -> bool:
    """Whether a tuple has a long value."""
    return any(is_long(VALUES[kind][k]) for kind, k in zip(types, row, strict=True))


def _core(types: tuple[str, ...]) -> list[tuple[int, ...]]:
    return list(itertools.product(*([VALUES[kind].index(value) for value in CORE[kind]] for kind in types)))[:100]


def _long_rows(types: tuple[str, ...], effort: Effort) -> list[tuple[int, ...]]:
    """Tuples with long values: what it takes to amplify, and nothing but long ones as far as the types have some."""
    chance = random.Random(f"{types} {effort.seed} long")
    choices = [[k for k, value in enumerate(VALUES[kind]) if is_long(value)] for kind in types]
    if not any(choices):
        return []
    drawn = [
        tuple(chance.choice(long or range(len(VALUES[kind]))) for kind, long in zip(types, choices, strict=True))
        for _ in range(2 * effort.alone)
    ]
    core = [row for row in _core(types) if any(k in long for k, long in zip(row, choices, strict=True))]
    return list(dict.fromkeys([*drawn, *core]))


class _Problem(Exception):
    """Something that must not happen."""


class _Child:
    """The process that makes the calls."""

    def __init__(self, effort: Effort, *, memory: bool) -> None:
        self._effort = effort
        self._examine = self._weigh if memory else self._compare
        self._connect()

    def _connect(self) -> None:
        self._connection = duckdb.connect(":memory:")
        self._tables: dict[tuple[str, ...], tuple[str, int]] = {}
        self._values: set[str] = set()
        for option in ("memory_limit = '1GB'", "TimeZone = 'UTC'", "threads = 1", "enable_progress_bar = false"):
            self._connection.execute(f"SET {option}")
        self._connection.execute("SET temp_directory = ''")  # too much memory is an error, not a file
        self._connection.execute("SET disabled_optimizers = 'common_subexpressions'")

    def answer(self, batch: Sequence[Case]) -> dict[str, Any]:
        """What happened to a batch."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime) + SECONDS_OF_A_BATCH
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
        self._calls, self._seconds, self._memory = 0, 0.0, 0
        self._problems: list[tuple[int, str]] = []
        kinds = self._kinds(list(batch), batch[0].types)
        bound = [position for position, kind in enumerate(kinds) if kind is not None]
        if bound:
            self._halve([(position, batch[position], kinds[position] or "") for position in bound])
        return {
            "bound": bound, "calls": self._calls, "seconds": self._seconds, "memory": self._memory, "problems": self._problems,
        }  # fmt: skip

    def _kinds(self, batch: list[Case], types: tuple[str, ...]) -> list[str | None]:
        """The types of the results; None for what does not bind."""
        tried = ", ".join(f"{case.tried} AS r{position}" for position, case in enumerate(batch))
        columns = ", ".join(f"CAST(NULL AS {kind}) AS c{position}" for position, kind in enumerate(types)) or "1"
        try:
            return [
                row[1]
                for row in self._connection.execute(f"DESCRIBE SELECT {tried} FROM (SELECT {columns})").fetchall()
            ]
        except duckdb.Error:
            if len(batch) == 1:
                return [None]
        half = len(batch) // 2
        return [*self._kinds(batch[:half], types), *self._kinds(batch[half:], types)]

    def _halve(self, part: list[tuple[int, Case, str]]) -> None:
        problem = None
        try:
            self._examine([(case, kind) for _, case, kind in part])
        except _Problem as found:
            problem = str(found)
        except Exception as error:  # what TRY did not catch
            problem = f"{type(error).__name__}: {str(error)[:200]}"
            self._connect()
        if problem is not None and len(part) == 1:
            self._problems.append((part[0][0], problem))
        elif problem is not None:
            self._halve(part[: len(part) // 2])
            self._halve(part[len(part) // 2 :])

    def _select(self, part: list[tuple[Case, str]]) -> str:
        tried = ", ".join(f"{case.tried} AS r{position}" for position, (case, _) in enumerate(part))
        results = "".join(f", hash({_cleaned(f'r{position}', kind)})" for position, (_, kind) in enumerate(part))
        texts = [f"r{position}" for position, (_, kind) in enumerate(part) if kind == "VARCHAR"]
        broken = " OR ".join(f"({text} IS NOT NULL AND TRY(decode(encode({text}))) IS NULL)" for text in texts)
        return f"SELECT i, {broken or 'false'}{results} FROM (SELECT i, {tried} FROM "

    def _compare(self, part: list[tuple[Case, str]]) -> None:
        """The results among other rows, at other positions and alone are the same."""
        select, (table, size) = self._select(part), self._table(part[0][0].types)
        want = self._run(f"{select}{table}0)")
        for shift in self._effort.shifts:
            if self._run(f"{select}{table}{shift})") != want:
                raise _Problem(f"the result depends on the position, moved by {shift}")
        for row in random.Random(select).sample(range(size), min(size, self._effort.alone)):
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE alone AS SELECT * FROM {table}0 WHERE i = {row}")
            if self._run(f"{select}alone)") != {row: want[row]}:
                raise _Problem("the result depends on the other rows")
        self._calls += len(part) * len(want)

    def _weigh(self, part: list[tuple[Case, str]]) -> None:
        """The memory and time of calls with long arguments."""
        select, types = self._select(part), part[0][0].types
        for row in _long_rows(types, self._effort):
            values = "".join(
                f", CAST({VALUES[t][k]} AS {t}) AS c{p}" for p, (t, k) in enumerate(zip(types, row, strict=True))
            )
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE alone AS SELECT 0 AS i{values}")
            before, used = _memory(reset=True), resource.getrusage(resource.RUSAGE_SELF).ru_utime
            self._run(f"{select}alone)")
            memory, seconds = _memory() - before, resource.getrusage(resource.RUSAGE_SELF).ru_utime - used
            if memory > MEMORY_OF_A_CALL + MEMORY_OF_A_QUERY:
                raise _Problem(f"one call takes {memory >> 20} MB")
            self._memory, self._seconds = max(self._memory, memory), max(self._seconds, seconds)

    def _run(self, sql: str) -> dict[int, tuple[int, ...]]:
        found: dict[int, tuple[int, ...]] = {}
        for row, broken, *results in self._connection.execute(sql).fetchall():
            if broken:
                raise _Problem("text that is not UTF-8")
            if found.setdefault(row, tuple(results)) != tuple(results):
                raise _Problem("two results for one tuple")
        return found

    def _table(self, types: tuple[str, ...]) -> tuple[str, int]:
        """Tables of nasty tuples, one for each shift, where fillers come first; and how many tuples there are."""
        if types in self._tables:
            return self._tables[types]
        for name, _ in self._tables.values():  # batches come by their types: the tables of the last are done with
            for shift in (0, *self._effort.shifts):
                self._connection.execute(f"DROP TABLE {name}{shift}")
        self._tables.clear()
        chosen = _tuples(types, self._effort)
        for kind in sorted(set(types) - self._values):
            self._values.add(kind)
            union = " UNION ALL ".join(f"SELECT {k} AS k, CAST({v} AS {kind}) AS v" for k, v in enumerate(VALUES[kind]))
            self._connection.execute(f'CREATE TABLE "{kind}" AS {union}')
        name = "nasty_"
        keys = ", ".join(f"({row}{''.join(f', {key}' for key in picked)})" for row, picked in enumerate(chosen))
        names = "".join(f", k{position}" for position in range(len(types)))
        joins = "".join(f' JOIN "{kind}" AS v{p} ON v{p}.k = n.k{p}' for p, kind in enumerate(types))
        columns = "".join(f", v{p}.v AS c{p}" for p in range(len(types)))
        self._connection.execute(
            f"CREATE TABLE {name}0 AS SELECT n.i{columns} FROM (VALUES {keys}) AS n(i{names}){joins} ORDER BY n.i"
        )
        filler = next((row for row, picked in enumerate(chosen) if not is_long_row(types, picked)), 0)
        for shift in self._effort.shifts:
            fillers = f"SELECT b.* FROM range({shift}) AS f(j) JOIN {name}0 AS b ON b.i = {filler}"
            moved = f"({fillers}) UNION ALL (SELECT * FROM {name}0 ORDER BY i)"
            self._connection.execute(f"CREATE TABLE {name}{shift} AS {moved}")
        self._tables[types] = (name, len(chosen))
        return self._tables[types]


def _cleaned(sql: str, kind: str) -> str:
    """What the writer of expressions lets through to the next step."""
    if kind.endswith("]"):
        return f"CASE WHEN len({sql}) <= {MOST_ELEMENTS} THEN {sql} END"
    if kind in ("VARCHAR", "BLOB"):
        return f"CASE WHEN {'strlen' if kind == 'VARCHAR' else 'octet_length'}({sql}) <= {LONGEST} THEN {sql} END"
    if kind in ("FLOAT", "DOUBLE"):
        return f"CASE WHEN NOT isnan({sql}) THEN {sql} END"
    if kind in _RANGES:
        first, last = _RANGES[kind]
        return f"CASE WHEN {sql} BETWEEN CAST('{first}' AS {kind}) AND CAST('{last}' AS {kind}) THEN {sql} END"
    return sql


def _memory(*, reset: bool = False) -> int:
    """The most memory this process has held since the last reset, in bytes."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    line = next(row for row in Path("/proc/self/status").read_text().splitlines() if row.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def _main() -> None:
    order = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    child = _Child(Effort(**order["effort"]), memory=order["memory"])
    for batch in order["batches"]:
        cases = [Case(case["name"], case["call"], case["guard"], tuple(case["types"])) for case in batch]
        print(json.dumps(child.answer(cases)), flush=True)


if __name__ == "__main__":
    _main()
