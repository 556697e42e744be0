"""Statements that are ready to run. They are explained, checked and charged together, and run one after the other."""

from __future__ import annotations

import datetime as dt
import shlex
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from dphist.columns import quote_identifier
from dphist.engines.base import Progress
from dphist.engines.query import PerformanceSettings
from dphist.engines.relations import Combine, Filter, Fold, Join, Matching, Relation, Scan, Select, Values, owner
from dphist.engines.source import Files
from dphist.errors import BudgetExceeded, DphistError, InvalidParameter
from dphist.ledger.charge import UNPUBLISHED, Charge, open_charge, telling
from dphist.run.job import Job
from dphist.run.release import Answer, Release
from dphist.run.strategies import explain
from dphist.sql.expressions import in_statement
from dphist.sql.names import Table
from dphist.sql.options import in_words_of_sql
from dphist.sql.outer import Attach, compute
from dphist.sql.parse import located
from dphist.sql.published import published_table
from dphist.sql.translate import PrivateSelect


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One statement that is proved private: its private SELECTs with their jobs, and the outer query."""

    text: str
    privates: tuple[PrivateSelect, ...]
    jobs: tuple[Job, ...]
    outer: str
    public: tuple[Table, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """Statements that are proved private and planned. No record has been read."""

    statements: tuple[Statement, ...]
    ledger: str | Path | None
    dataset: str | None
    attach: Attach
    settings: PerformanceSettings
    text: str = ""

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The releases that the statements need, in order."""
        return tuple(job for one in self.statements for job in one.jobs)

    def explain(self) -> str:
        """The same releases as commands, what engines run, and why each step is private."""
        several = len(self.statements) > 1
        with self._located():
            return "\n".join(
                _explain_statement(one.text, one.privates, one.jobs, one.outer, number if several else None)
                for number, one in enumerate(self.statements, 1)
            )

    def check(self) -> None:
        """Check schemas and budgets as `run` does. Reads no record and charges nothing."""
        self._check_sources()
        with ExitStack() as stack:
            self._charges(stack)

    def _check_sources(self) -> None:
        with self._located():
            for job in self.jobs:
                job.check_source()

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Give refusals of an engine, which knows the types of columns, their places in the text."""
        try:
            yield
        except InvalidParameter as problem:
            said = in_words_of_sql(problem) if isinstance(problem, BudgetExceeded) else problem
            privates = (private for one in self.statements for private in one.privates)
            places = {text: place for private in privates for text, place in private.places.items()}
            raise located(in_statement(said, self.text, places), self.text, problem.place) from None

    def _charges(self, stack: ExitStack) -> list[Charge | None]:
        """Open a charge for each job, and check each charge and their sum. Every later error says what all of them cost."""
        ledger, dataset = self.ledger, self.dataset
        charges: list[Charge | None] = []
        for job in self.jobs:
            with self._located():
                charge = open_charge(ledger, dataset, job.spend)
            if charge is not None:
                stack.callback(charge.close)
            charges.append(charge)
        stack.enter_context(telling(lambda: _aftermath(charges)))
        if ledger is not None and dataset is not None and len(charges) > 1:
            from dphist.ledger import Ledger

            with Ledger(ledger) as opened:
                budget, left = opened.left(dataset)
            amounts = [budget.amount(budget.price(job.spend().event)) for job in self.jobs]
            whole = amounts[0]
            for amount in amounts[1:]:
                whole += amount
            if not whole.within(left):
                expected = f"spends that fit together into what is left of {dataset!r}: {budget.words(left)}"
                hint = "ask for less in each SELECT, or run them apart; nothing was charged and nothing released."
                raise BudgetExceeded(expected, budget.words(whole), hint)
        return charges

    def run(
        self,
        *,
        progress: Progress | None = None,
        write: Callable[[Sequence[Answer]], str | Path | None] | None = None,
    ) -> tuple[Answer, ...]:
        """Charge, read, add noise, and compute the answers; one for each statement.

        write: writes the answers before the charges are confirmed, and returns the name of the first file, if any.
        An error after the first charge has the private tables that are paid for as `releases`.
        """
        if len(self.jobs) > 1:  # types that do not fit are refused before the first charge
            self._check_sources()
        with ExitStack() as stack:
            charges = iter(found := self._charges(stack))
            answers: list[Answer] = []
            releases: list[Release] = []
            try:
                for statement in self.statements:
                    done = len(releases)
                    for job in statement.jobs:
                        charge = next(charges)
                        with self._located():
                            release = job.run(progress=progress, charge=charge)
                        releases.append(release if charge is None else replace(release, receipt=charge.receipt))
                        stack.enter_context(releases[-1])
                    answers.append(self._answer(statement, releases[done:]))
                output = None if write is None else write(answers)
            except DphistError as problem:
                paid = tuple(replace(release, held=release.table) for release in releases)
                problem.releases = paid  # type: ignore[attr-defined]
                if paid:
                    problem.aftermath = _aftermath(found).replace(UNPUBLISHED, "The private tables may be published")
                raise
            for charge in found:
                if charge is not None:
                    charge.confirm(output)
        return tuple(answers)

    def _answer(self, statement: Statement, releases: Sequence[Release]) -> Answer:
        pairs = zip(statement.privates, releases, strict=True)
        held = [replace(release, held=release.table) for release in releases]
        released = {private.table: published_table(private, release) for private, release in pairs}
        table = compute(statement.outer, released, statement.public, self.attach, self.settings)
        inputs = tuple(dict.fromkeys(path for release in releases for path in release.inputs))
        return Answer(table, statement.text, statement.outer, tuple(held), dt.datetime.now(dt.UTC), inputs)


def _aftermath(charges: Sequence[Charge | None]) -> str:
    """What a script that failed has cost, in words; nothing before the first charge."""
    return " ".join(words for charge in charges if charge is not None and (words := charge.aftermath()))


def _explain_statement(
    text: str, privates: Sequence[PrivateSelect], jobs: Sequence[Job], outer: str, number: int | None
) -> str:
    """Everything about one statement. Reads schemas and no record."""
    parts = [] if number is None else [f"Statement {number}\n\n{textwrap.indent(text, '  ')}"]
    for place, (private, job) in enumerate(zip(privates, jobs, strict=True), 1):
        if len(privates) > 1:
            parts.append(f"Private SELECT {place}, the table {private.table}")
        parts.append("The same release as a command:\n" + textwrap.indent(_command_of(private, job), "  "))
        parts.append("The rows that are counted, and whose they are:\n" + "\n".join(_lines(private.relation)))
        parts.append(explain(job, partial(_without_names, unnamed=private.unnamed)).rstrip())
    parts.append("After that, from the published table alone, which costs nothing:\n" + textwrap.indent(outer, "  "))
    return "\n\n".join(parts) + "\n"


def _without_names(sql: str, unnamed: Mapping[str, str]) -> str:
    """SQL of an engine with the names of explanations (`Relating.unnamed`)."""
    for column, name in unnamed.items():
        sql = sql.replace(quote_identifier(column), quote_identifier(name))
    return sql


def _command_of(private: PrivateSelect, job: Job) -> str:
    """The command of a release. ROWS.parquet stands for rows of several tables."""
    words = ["dphist", "select" if private.keys_only else "release"]
    words += _paths(private.command_source.source) if private.command_source is not None else ["ROWS.parquet"]
    words += ["--unit", private.unit]
    for key in private.by:
        words += ["--by", key]
    if private.where is not None:
        words += ["--where", private.where]
    request = job.plan.request
    words += ["--epsilon", _number(request.epsilon), "--delta", _number(request.delta)]
    for name, value in private.options.items():
        words += _flag(name, request.max_groups if name == "max_groups" else value)
    if private.public_keys is not None:
        words += ["--keys", "KEYS.parquet"]
    words += ["-o", "out.parquet"]
    note = "\n# ROWS.parquet stands for the rows below; they are not written down"
    return " ".join(map(shlex.quote, words)) + (note if private.command_source is None else "")


def _paths(source: object) -> list[str]:
    if isinstance(source, Files):
        return [str(path) for path in source.paths]
    return [str(source)] if isinstance(source, str | Path) else ["TABLE"]


def _flag(name: str, value: Any) -> list[str]:
    """An option of a release as words of its command."""
    if not isinstance(value, dict):
        return [f"--{name.replace('_', '-')}", str(value)]
    words = []
    for column, given in value.items():
        parts = [
            ",".join(map(_number, part)) if isinstance(part, list) else part if isinstance(part, str) else _number(part)
            for part in (given if isinstance(given, tuple) else (given,))
        ]
        texts = parts[:-1] if parts[-2:] == ["auto", "auto"] else parts
        words += [f"--{name.removesuffix('s')}", f"{column}{'=' if name == 'weights' else ':'}{':'.join(texts)}"]
    return words


def _number(value: float) -> str:
    """The shortest text that is read as the same number."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def _lines(relation: Relation, depth: int = 1) -> Iterator[str]:
    """A tree as indented lines. Each says why its rows are somebody's."""
    found = owner(relation)
    whose = "public" if found.public else f"each row belongs to one {found.kind}"
    yield f"{'  ' * depth}{_words(relation)}: {whose}{_reason(relation)}"
    for child in _children(relation):
        yield from _lines(child, depth + 1)


def _children(relation: Relation) -> list[Relation]:
    names = ("child", "listed", "left", "right")
    return [getattr(relation, name) for name in names if hasattr(relation, name)]


def _words(relation: Relation) -> str:
    match relation:
        case Scan():
            return f"table {relation.table}"
        case Values():
            return f"{len(relation.rows)} listed rows"
        case Select():
            computed = [f"{one.text} AS {name}" for name, one in relation.computed.items()]
            return f"columns {', '.join([*relation.kept, *computed])}"
        case Filter():
            return f"rows where {relation.condition.text}"
        case Join():
            pairs = " and ".join(f"{one} = {other}" for one, other in relation.pairs) or "every pair"
            return f"{relation.kind} join on {pairs}"
        case Matching():
            return f"rows whose {relation.column} is {'not ' if relation.negated else ''}in a list"
        case Combine():
            return relation.kind
        case Fold():
            return f"groups by {', '.join(relation.keys)}"


def _reason(relation: Relation) -> str:
    if owner(relation).public:
        return ""
    match relation:
        case Scan():
            return ", as declared"
        case Filter():
            return "; a row stays or goes by itself"
        case Matching() if owner(relation.listed).public:
            return "; a row stays or goes by itself and by a public list"
        case Matching():
            return "; a row stays or goes by what its own unit has in the list"
        case Select():
            return "; the unit is carried unchanged, the rest is computed from the same row"
        case Join() if owner(relation.left).public or owner(relation.right).public:
            return "; beside it stand public rows"
        case Join():
            return "; beside it stand rows of the same unit"
        case Combine():
            return "; equal rows are of equal units"
        case Fold():
            return "; a group holds rows of one unit"
        case _:
            return ""
