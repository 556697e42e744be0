"""Where releases meet the ledger: what a command spends, charged before a record is read, confirmed when the result is there.

Why before the first record: a run that fails on one record tells something about it, and whoever could ask for failures free
of charge could ask often. So everything that needs no record is checked first, and what fails after the charge stays paid.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeVar

from pydantic import Field

from dphist.checks import check_whole
from dphist.columns import Unit
from dphist.errors import DphistError, EngineFailure, Infeasible, InvalidParameter, InvalidPlan, UnusableLedger
from dphist.flexible.plan import StatisticPlan
from dphist.interruption import account_for, first_output, held, is_printed
from dphist.mechanisms import GroupMechanism, Mechanism, TruncatedLaplace, epsilon_at
from dphist.mechanisms.base import with_pure_parts
from dphist.planning import Plan, Request
from dphist.planning.describe import guarantee
from dphist.planning.plan import choose
from dphist.planning.top_k import TopKPlan, plan_top_k
from dphist.privacy.composition import PrivacyCost, worst
from dphist.stored import build
from dphist.words import hash_of, printable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from dphist.ledger.dataset import Protects
    from dphist.ledger.ledger import Fits


T = TypeVar("T", bound="DataclassInstance")
R = TypeVar("R")
SMALLEST_SHARE: Final = 64
"""How far below what was asked for an epsilon that fits is looked for."""
MAYBE: Final = "It may have been charged to {}: dphist ledger history tells."
UNPUBLISHED: Final = "Nothing was published"
NOT_RECORDED: Final = "Nothing was recorded in a ledger: keep count of what you release about these people."


@dataclass(frozen=True, slots=True)
class Spend:
    """What a command is about to spend: all of it public.

    cost: by the epsilon of the budget it is charged to. with_epsilon: the same command with another epsilon. instead: an option
    that may cost less, and its cost. with_groups: the same noise and threshold with fewer groups per unit, where possible.
    """

    command: str
    unit: Unit
    epsilon: float
    facts: dict[str, Any]
    cost: Callable[[float], PrivacyCost]
    with_epsilon: Callable[[float], Spend]
    instead: tuple[str, Callable[[float], PrivacyCost]] | None = None
    groups: int = 1
    with_groups: Callable[[int], tuple[float, Callable[[float], PrivacyCost]]] | None = None
    protects: Protects = "unit"


@dataclass(frozen=True, slots=True)
class Receipt:
    """Which entry of which data set paid for a result. Its hash fixes everything before it."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    dataset: Annotated[str, Field(min_length=1)]
    entry: int
    hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

    def __post_init__(self) -> None:
        check_whole("the entry of a ledger", self.entry, 0)

    def to_data(self) -> dict[str, Any]:
        """As metadata has it: the address of the ledger is not told."""
        return asdict(self)

    def __str__(self) -> str:
        return f"Charged to {self.dataset!r}, entry {self.entry:,}, head {self.hash}"


class Charge:
    """One spend on its way: `check` early, call it before the first record is read, `confirm` when the result is there."""

    def __init__(self, address: str | Path, dataset: str, spend: Spend) -> None:
        from dphist.ledger import Ledger

        self._spend = spend
        self._dataset = dataset
        self.receipt: Receipt | None = None
        self._published: str | None = None
        self._asked = False
        self._ledger = Ledger(address)
        try:
            self._composed = self._ledger.dataset(dataset).epsilon
        except BaseException:
            self._ledger.close()
            raise

    def check(self) -> None:
        """Refuse what does not fit before anything is read."""
        spend = self._spend
        cost = spend.cost(self._composed)
        self._ledger.check(self._dataset, cost, unit=spend.unit, protects=spend.protects, advise=self._advise)

    def __call__(self) -> None:
        """Charge, once. When this returns, the spend is on disk, whatever happens next."""
        assert self.receipt is None, "a source is read once for a charge"
        spend, now = self._spend, dt.datetime.now(dt.UTC)
        with held():
            self._asked = True
            try:
                entry = self._ledger.reserve(
                    self._dataset,
                    spend.cost(self._composed),
                    unit=spend.unit,
                    protects=spend.protects,
                    command=spend.command,
                    facts=spend.facts,
                    advise=self._advise,
                )
            except UnusableLedger:  # a connection that is lost while it is charged leaves open whether it was
                self._asked = self._may_be_there(now)
                raise
            except DphistError:
                self._asked = False
                raise
            self.receipt = Receipt(self._dataset, entry.sequence, entry.hash)

    def _may_be_there(self, since: dt.datetime) -> bool:
        """Whether the ledger has an entry that may be ours, or cannot be asked."""
        try:
            entries = self._ledger.entries(self._dataset)
        except DphistError:
            return True
        command = self._spend.command
        late = [entry for entry in entries if entry.time >= since.isoformat(timespec="microseconds")]
        return any(entry.kind == "reserve" and entry.body.get("command") == command for entry in late)

    def confirm(self, output: str | Path | None = None) -> None:
        """Say that the result is written, of which only the name of the file is kept; or without one, that it is returned."""
        assert self.receipt is not None
        with held():
            self._published = None if output is None else Path(output).name
            self._ledger.commit(self._dataset, self.receipt.entry, output=self._published)

    def aftermath(self) -> str:
        """What a run that fails now has spent all the same; nothing before the charge."""
        if self.receipt is None:
            return MAYBE.format(ascii(self._dataset)) if self._asked else ""
        if self._spend.command in ("session", "continual") and self._published is not None:
            return f"{self.receipt}. {printable(self._published)} is there, and can be used."
        return stays_charged(self.receipt, self._published or first_output())

    def close(self) -> None:
        """Close the connection to the ledger."""
        self._ledger.close()

    def _advise(self, fits: Fits) -> Iterator[str]:
        """The largest epsilon, and the most groups, that fit: searched with the accountant of the ledger."""
        if (found := _largest_epsilon(self._spend, fits, self._composed)) is not None:
            yield f"with the same delta, epsilon {found:.3g} fits"
        else:
            yield f"with the same delta, not even a {SMALLEST_SHARE}th of epsilon fits"
        if self._spend.instead is not None and fits(self._spend.instead[1](self._composed)):
            yield f"with {self._spend.instead[0]} it fits as it is"
        if (groups := _most_groups(self._spend, fits, self._composed)) is not None:
            most, epsilon = groups
            yield f"with the same noise and threshold, --max-groups {most} fits (epsilon {epsilon:.3g})"


def open_charge(ledger: str | Path | None, dataset: str | None, spend: Callable[[], Spend]) -> Charge | None:
    """The charge for a ledger and a data set, checked; None if neither is given. One without the other is a mistake."""
    if ledger is None and dataset is None:
        return None
    if ledger is None or dataset is None:
        missing, variable = ("a ledger", "DPHIST_LEDGER") if ledger is None else ("a data set", "DPHIST_DATASET")
        hint = f"--ledger ADDRESS --dataset NAME, or set {variable}."
        raise InvalidParameter("a ledger and a data set together", f"none as {missing}", hint)
    charge = Charge(ledger, dataset, spend())
    try:
        charge.check()
    except BaseException:
        charge.close()
        raise
    return charge


@contextmanager
def charging(ledger: str | Path | None, dataset: str | None, spend: Callable[[], Spend]) -> Iterator[Charge | None]:
    """`open_charge`, closed at the end; without a ledger there is nothing to call. What fails in between says what it cost."""
    charge = open_charge(ledger, dataset, spend)
    if charge is None:
        yield None
        return
    try:
        with telling(charge.aftermath):
            yield charge
    finally:
        charge.close()


@contextmanager
def telling(aftermath: Callable[[], str]) -> Iterator[None]:
    """Let whatever goes wrong in the block, or ends the process, end with the words of `aftermath`, if it has any by then."""
    account_for(aftermath)
    try:
        yield
    except DphistError as problem:
        problem.aftermath = problem.aftermath or aftermath()
        raise
    except KeyboardInterrupt as problem:
        if words := aftermath():
            problem.args = (words,)
        raise
    except Exception as problem:  # GeneratorExit and SystemExit are no failures
        if not (words := aftermath()):
            raise
        reason = (problem.strerror if isinstance(problem, OSError) else None) or type(problem).__name__
        failure = EngineFailure("a run that reaches its end", f"the reason was: {reason}.")
        failure.aftermath = words
        raise failure from problem


def stays_charged(receipt: Receipt, published: str | None = None) -> str:
    """What is said where a run fails after its charge."""
    told = "What was printed may be published" if is_printed() else UNPUBLISHED
    if published is not None:
        told = f"{printable(published)} is written and may be published"
    return f"{receipt}. The charge stays, as records may have been read. {told}; another run is charged again."


def paid(charge: Charge | None, check: Callable[[], object], run: Callable[[], T]) -> T:
    """Check, charge, run, confirm; the result names the entry. `check` reads no record. Without a charge just run."""
    if charge is None:
        return run()
    check()
    charge()
    found = replace(run(), receipt=charge.receipt)
    charge.confirm()
    return found


def paid_run(charge: Charge | None, source: AbstractContextManager[R], run: Callable[[R], T]) -> T:
    """Open a source, by which it is checked, charge, run, confirm; the result names the entry. Without a charge just run."""
    with source as records:
        if charge is None:
            return run(records)
        charge()
        result = replace(run(records), receipt=charge.receipt)
    charge.confirm()
    return result


def receipt_of(charge: Charge | None) -> dict[str, Any] | None:
    """Charge now, and give what the result will say about it: for what is drawn from later, bit by bit."""
    if charge is None:
        return None
    charge()
    assert charge.receipt is not None
    return charge.receipt.to_data()


def _largest_epsilon(spend: Spend, fits: Fits, composed: float) -> float | None:
    """The largest epsilon found, to about 4 %, rounded down to what is printed."""

    def holds(epsilon: float) -> bool:
        try:
            return fits(spend.with_epsilon(epsilon).cost(composed))
        except (Infeasible, InvalidPlan):
            return False

    low, high = spend.epsilon / 2, spend.epsilon
    while not holds(low):
        low, high = low / 2, low
        if low < spend.epsilon / SMALLEST_SHARE:
            return None
    while high > low * 1.04:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holds(middle) else (low, middle)
    shown = float(f"{low * 0.996:.3g}")  # at most what was found, with three digits
    return shown if holds(shown) else low


def _most_groups(spend: Spend, fits: Fits, composed: float) -> tuple[int, float] | None:
    """The most groups per unit that fit with the same noise, and their epsilon."""
    if spend.with_groups is None:
        return None
    low, high = 0, spend.groups
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(spend.with_groups(middle)[1](composed)) else (low, middle)
    return None if low == 0 else (low, spend.with_groups(low)[0])


def spend_of_plan(plan: Plan, unit: Unit) -> Spend:
    """A release. Where the data chooses the mechanism, every branch is paid for, and the choice too."""
    request = plan.request
    branches = plan.branches

    def cost(composed: float) -> PrivacyCost:
        pure = [request.choice_epsilon] if request.choice != "given" else []
        pure += [1 / request.total_scale] if request.total_scale is not None else []
        pure += [request.bounds_epsilon / len(request.sized) for _ in request.sized]
        epsilon = request.mechanism_epsilon
        main = worst(branch.cost(epsilon, composed) for branch in branches)
        whole = with_pure_parts(request.with_cost_of_trees(main, composed), pure, composed)
        # What the plan states is proved as a whole, without the rounding of its parts.
        own = request.with_trees(main.delta)
        stated = own if request.choice == "given" else max(own, request.delta)
        return replace(whole, epsilon=plan.epsilon, delta=stated)

    mechanism = plan.mechanism
    alone = len(branches) == 1 and request.total_scale is None and not request.sized
    facts = {
        "mechanism": " or ".join(dict.fromkeys(branch.name for branch in branches)),
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "max_groups": request.max_groups,
        "guarantee": guarantee(request, mechanism, unit),
    }
    return Spend(
        command="select" if request.keys_only else "release",
        unit=unit,
        epsilon=plan.epsilon,
        facts=facts,
        cost=cost,
        with_epsilon=lambda epsilon: spend_of_plan(choose(replace(request, epsilon=epsilon)), unit),
        instead=_instead(request, mechanism),
        groups=mechanism.max_groups,
        with_groups=_fewer(mechanism, plan.delta) if alone and mechanism.with_groups(1) is not None else None,
    )


def _instead(request: Request, mechanism: GroupMechanism) -> tuple[str, Callable[[float], PrivacyCost]] | None:
    """Laplace noise adds up badly. Without a choice its branches are not paid for; on a public list there is another noise."""
    name = ""
    if request.choice == "law":
        name = "adaptive"
    elif not request.thresholded and mechanism.splits_epsilon and request.delta > 0:
        name = "sparse-gaussian"
    other = replace(request, choice="given", mechanism=name or request.mechanism)
    return (f"--mechanism {name}", lambda composed: spend_of_plan(choose(other), "").cost(composed)) if name else None


def _fewer(mechanism: GroupMechanism, delta: float) -> Callable[[int], tuple[float, Callable[[float], PrivacyCost]]]:
    def with_groups(groups: int) -> tuple[float, Callable[[float], PrivacyCost]]:
        other = mechanism.with_groups(groups)
        assert other is not None
        epsilon = epsilon_at(other, delta)
        return epsilon, lambda composed: other.cost(epsilon, composed)

    return with_groups


def spend_of_mechanism(
    command: str,
    mechanism: Mechanism,
    epsilon: float,
    *,
    unit: Unit,
    calibrate: Callable[[float], Mechanism],
    facts: dict[str, Any],
    protects: Protects = "unit",
) -> Spend:
    """Anything that is one calibrated mechanism; `calibrate` makes it for another epsilon."""
    return Spend(
        command=command,
        unit=unit,
        epsilon=epsilon,
        facts={"mechanism": mechanism.name, "epsilon": epsilon, **facts},
        cost=lambda composed: mechanism.cost(epsilon, composed),
        with_epsilon=lambda other: spend_of_mechanism(
            command, calibrate(other), other, unit=unit, calibrate=calibrate, facts=facts, protects=protects
        ),
        protects=protects,
    )


def spend_of_top_k(plan: TopKPlan, unit: Unit) -> Spend:
    """The largest groups."""

    def calibrate(epsilon: float) -> Mechanism:
        shortlist = plan.needed - 1 if plan.method == "ranked" else None
        return plan_top_k(
            k=plan.k, epsilon=epsilon, delta=plan.delta, method=plan.method,
            max_groups=plan.max_groups, shortlist=shortlist,
        ).mechanism  # fmt: skip

    facts = {"delta": plan.delta, "k": plan.k, "method": plan.method, "guarantee": plan.guarantee_for(unit)}
    return spend_of_mechanism("top-k", plan.mechanism, plan.epsilon, unit=unit, calibrate=calibrate, facts=facts)


def spend_of_statistic(plan: StatisticPlan, unit: Unit) -> Spend:
    """One private number."""

    def calibrate(epsilon: float) -> Mechanism:
        return TruncatedLaplace.for_budget(epsilon, plan.delta, plan.mechanism.max_groups)

    facts = {"delta": plan.delta, "statistic": plan.statistic, "guarantee": plan.privacy(unit)}
    return spend_of_mechanism("stat", plan.mechanism, plan.epsilon, unit=unit, calibrate=calibrate, facts=facts)


def terms_hash(terms: Mapping[str, Any]) -> str:
    """SHA-256 over the terms as canonical JSON. They are public."""
    return hash_of(terms)


def check_paid(
    ledger: str | Path | None, receipt: Mapping[str, Any] | None, terms: Mapping[str, Any], what: str
) -> None:
    """Refuse `what` (a session, a stream) unless the entry it names is in the ledger and paid for these terms.

    Without a ledger nothing is compared.
    """
    if ledger is None:
        return
    if receipt is None:
        hint = "it was started without a ledger; use it without --ledger and DPHIST_LEDGER."
        raise InvalidParameter(f"a {what} that this ledger paid for", "one that names no entry", hint)
    from dphist.ledger import Ledger

    named = build(Receipt, receipt, f"the {what}")
    with Ledger(ledger) as opened:
        entry = opened.entry(named.dataset, named.entry)
    if entry.hash != named.hash or entry.body.get("terms") != terms_hash(terms):
        expected = f"a {what} as entry {entry.sequence:,} of {entry.dataset!r} paid for"
        raise InvalidParameter(expected, "another one", "the file was changed, or belongs to another ledger.")
