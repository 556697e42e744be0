"""Statements that are ready to run: checked and charged together, run one after the other."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dphist.engines.base import Progress
from dphist.engines.query import PerformanceSettings
from dphist.errors import BudgetExceeded, DphistError, InvalidParameter
from dphist.publish.answer import Answer
from dphist.publish.charge import UNPUBLISHED, Charge, open_charge, telling
from dphist.publish.result import Release
from dphist.publish.run import Job
from dphist.sql.explain import explain_statement
from dphist.sql.expressions import in_statement
from dphist.sql.options import in_words_of_sql
from dphist.sql.outer import Attach, compute, published_table
from dphist.sql.parse import located
from dphist.sql.tables import Table
from dphist.sql.translate import PrivateSelect


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One statement, read and proved: its private SELECTs with their jobs, and what is computed from them."""

    text: str
    privates: tuple[PrivateSelect, ...]
    jobs: tuple[Job, ...]
    outer: str
    public: tuple[Table, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """Statements that are read, proved and planned; no record has been read."""

    statements: tuple[Statement, ...]
    ledger: str | Path | None
    dataset: str | None
    attach: Attach
    settings: PerformanceSettings
    text: str = ""

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The releases that it needs, in order."""
        return tuple(job for one in self.statements for job in one.jobs)

    def explain(self) -> str:
        """The same releases as commands, what engines run, and why each step is private."""
        several = len(self.statements) > 1
        with self._located():
            return "\n".join(
                explain_statement(one.text, one.privates, one.jobs, one.outer, number if several else None)
                for number, one in enumerate(self.statements, 1)
            )

    def check(self) -> None:
        """Refuse by schema and by budget what would be refused later; reads no record and charges nothing."""
        self._check_sources()
        with ExitStack() as stack:
            self._charges(stack)

    def _check_sources(self) -> None:
        with self._located():
            for job in self.jobs:
                job.check_source()

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Engines know the types of columns, and say which relation does not fit them: show it in the text."""
        try:
            yield
        except InvalidParameter as problem:
            said = in_words_of_sql(problem) if isinstance(problem, BudgetExceeded) else problem
            privates = (private for one in self.statements for private in one.privates)
            places = {text: place for private in privates for text, place in private.places.items()}
            raise located(in_statement(said, self.text, places), self.text, problem.place) from None

    def _charges(self, stack: ExitStack) -> list[Charge | None]:
        """One for each job, all of them checked: alone, and together. What fails from here on says what all of them cost."""
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

        write: gets the answers before the charges are confirmed, and gives the name of the file that it wrote, if any.
        If something fails, the error has the private tables that were paid for as `releases`.
        """
        if len(self.jobs) > 1:  # none is charged for if the types of another do not fit
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
    """What the charges of a script say about themselves; nothing before the first."""
    return " ".join(words for charge in charges if charge is not None and (words := charge.aftermath()))
