"""Events are data: stored and read back to the same bits, and priced by one accountant in every way of adding up."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any, get_args

import pytest

import dphist as dp
from dphist.errors import InvalidParameter
from dphist.files import stored
from dphist.ledger import DataSet
from dphist.ledger.accountant import price
from dphist.mechanisms import SparseGaussian
from dphist.planning.spends import Calibrated, spend_of_plan
from dphist.privacy import events
from dphist.privacy.composition import mu_of_pure, mu_of_range, of_pure, rho_of_pure
from dphist.privacy.events import (
    ApproximateEvent,
    ChoiceEvent,
    ComposedEvent,
    ConcentratedEvent,
    Event,
    GaussianEvent,
    ProfileEvent,
    PureEvent,
    RepeatedEvent,
    WholeEvent,
    WorstOfEvent,
)
from dphist.run.bounds import spend_of_bounds
from dphist.words import canonical

PLANS: dict[str, dict[str, Any]] = {
    "gaussian": {"max_groups": 10},
    "laplace with sums": {"max_groups": 3, "mechanism": "laplace", "sums": {"x": (0, 1)}},
    "discrete": {"max_groups": 3, "noise": "discrete"},
    "correlated": {"sparsity": 20},
    "a choice, a total, bounds and trees": {"total": True, "sums": {"y": "auto"}, "medians": {"x": (0, 10)}},
    "listed": {"keys": 50, "total": True},
}
LEAVES: dict[str, Event] = {
    "gaussian": GaussianEvent(0.3),
    "concentrated": ConcentratedEvent(0.1),
    "choice": ChoiceEvent(0.2),
    "approximate": ApproximateEvent(PureEvent(0.5), 1e-9, 2.0**-100),
    "worst": WorstOfEvent((PureEvent(0.1), GaussianEvent(0.2))),
    "profile": ProfileEvent(0.1, 1e-9, 1e-10, ConcentratedEvent(0.01, RepeatedEvent((ChoiceEvent(0.1),), 3))),
}


def read_again(event: Event) -> Event:
    """As a ledger would: canonical JSON, read by the reader of what anyone may have written."""
    return events.from_data(stored.parse(canonical({"event": event.to_data()}).encode(), "an entry")["event"])


@pytest.mark.parametrize("options", PLANS.values(), ids=PLANS)
def test_the_event_of_a_plan_is_stored_and_priced_without_its_mechanism(options: dict[str, Any]) -> None:
    event = dp.plan(epsilon=1, delta=1e-8, **options).event
    again = read_again(event)
    assert again == event
    assert hash(again) == hash(event)
    assert price(again, 2.0) == price(event, 2.0)


@pytest.mark.parametrize("event", LEAVES.values(), ids=LEAVES)
def test_every_event_is_read_back_to_the_same_bits(event: Event) -> None:
    assert read_again(event) == event


def test_every_kind_of_event_was_stored() -> None:
    text = json.dumps([dp.plan(epsilon=1, delta=1e-8, **options).event.to_data() for options in PLANS.values()])
    text += json.dumps([event.to_data() for event in LEAVES.values()])
    assert [kind.__name__ for kind in get_args(Event) if f'"{kind.__name__}"' not in text] == []


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"kind": "Gaussian", "mu": 1.0},
        {"kind": ["GaussianEvent"], "mu": 1.0},
        {"kind": "GaussianEvent"},
        {"kind": "GaussianEvent", "mu": 1.0, "delta": 0.0},
        {"kind": "GaussianEvent", "mu": "1"},
        {"kind": "GaussianEvent", "mu": True},
        {"kind": "GaussianEvent", "mu": -1.0},
        {"kind": "GaussianEvent", "mu": 1e141},
        {"kind": "GaussianEvent", "mu": None},
        {"kind": "GaussianEvent", "mu": [{"kind": "PureEvent", "epsilon": 1.0}]},
        {"kind": "ComposedEvent", "events": []},
        {"kind": "ComposedEvent", "events": 1},
        {"kind": "ComposedEvent", "events": [1]},
        {"kind": "ComposedEvent", "events": {"kind": "PureEvent", "epsilon": 1.0}},
        {"kind": "ApproximateEvent", "event": None, "delta": 0.0, "sampler_error": 0.0},
        {"kind": "ApproximateEvent", "event": [{"kind": "PureEvent", "epsilon": 1.0}], "delta": 0.0, "sampler_error": 0.0},
        {"kind": "RepeatedEvent", "events": [{"kind": "PureEvent", "epsilon": 1.0}], "times": 1.5},
        {"kind": "RepeatedEvent", "events": [{"kind": "PureEvent", "epsilon": 1.0}], "times": 0},
    ],
)  # fmt: skip
def test_what_is_no_event_is_refused(data: object) -> None:
    with pytest.raises(InvalidParameter):
        events.from_data(data)


def test_prices_are_the_formulas() -> None:
    assert price(PureEvent(0.5)) == of_pure(0.5)
    gaussian = price(GaussianEvent(0.3))
    assert (gaussian.mu, gaussian.mu_delta, gaussian.rho_delta) == (0.3, 0.0, 0.0)
    assert gaussian.rho == pytest.approx(0.045, rel=1e-9)
    assert price(ChoiceEvent(0.5)) == replace(of_pure(0.5), mu=mu_of_range(0.5))
    twice = price(RepeatedEvent((PureEvent(0.1), PureEvent(0.2)), 2))
    assert twice.epsilon == pytest.approx(0.6)
    assert twice.rho == pytest.approx(2 * (rho_of_pure(0.1) + rho_of_pure(0.2)))
    assert twice.mu == pytest.approx(math.sqrt(2) * math.hypot(mu_of_pure(0.1), mu_of_pure(0.2)))
    both = price(ComposedEvent((PureEvent(0.1), GaussianEvent(0.3))))
    assert both.mu == pytest.approx(math.hypot(mu_of_pure(0.1), 0.3))
    worst = price(WorstOfEvent((PureEvent(0.1), ApproximateEvent(GaussianEvent(0.3), 1e-9))))
    assert (worst.mu, worst.mu_delta) == (0.3, 1e-9)
    known = price(ConcentratedEvent(1.0, PureEvent(0.5)))
    assert known == of_pure(0.5)  # the smaller of two rhos
    assert price(ConcentratedEvent(0.01, PureEvent(0.5))) == replace(of_pure(0.5), rho=0.01)


def test_where_nothing_is_proved_no_budget_pays() -> None:
    """A bad event for certain: (0, 1), until a profile says more."""
    gaussian, concentrated = price(GaussianEvent(0.3)), price(ConcentratedEvent(0.1))
    assert (gaussian.epsilon, gaussian.delta) == (concentrated.epsilon, concentrated.delta) == (0.0, 1.0)
    assert (concentrated.mu, concentrated.mu_delta) == (0.0, 1.0)
    assert (concentrated.rho, concentrated.rho_delta) == (0.1, 0.0)
    profile = price(ProfileEvent(0.5, 2e-9, 1e-9, ConcentratedEvent(0.1)))
    assert (profile.epsilon, profile.delta, profile.rho, profile.rho_delta) == (0.5, 2e-9, 0.1, 0.0)
    assert (profile.mu, profile.mu_delta) == (mu_of_pure(0.5), math.nextafter(1e-9, 1))
    alone = price(ProfileEvent(0.5, 2e-9, 1e-9))
    assert (alone.rho, alone.rho_delta) == (rho_of_pure(0.5), math.nextafter(1e-9, 1))


def test_the_sampler_is_paid_at_the_epsilon_of_the_budget() -> None:
    event = ApproximateEvent(GaussianEvent(0.3), 0.0, 2.0**-60)
    small, large = price(event, 0.5), price(event, 20.0)
    assert small.mu_delta == pytest.approx((1 + math.exp(0.5)) * 2.0**-60, rel=1e-12)
    assert large.mu_delta == pytest.approx((1 + math.exp(20)) * 2.0**-60, rel=1e-12)
    dataset = DataSet("people", 0.5, 1e-6, "user", "gdp")
    assert dataset.price(event) == small


def test_a_whole_keeps_what_it_is_proved_with() -> None:
    event = WholeEvent(ComposedEvent((PureEvent(0.5), PureEvent(0.5))), 1.0, 0.0)
    parts = price(event.event)
    assert parts.epsilon > 1.0
    assert price(event) == replace(parts, epsilon=1.0, delta=0.0)


def test_a_spend_holds_no_function() -> None:
    """What is spent is a plan and facts; another epsilon is another plan."""
    mechanism = dp.plan_top_k(k=3, epsilon=1, delta=1e-6).mechanism
    calibrated = Calibrated(mechanism, 1.0, 1e-6)
    assert calibrated.with_epsilon(1.0) == calibrated
    assert calibrated.with_epsilon(0.5).event != calibrated.event
    assert spend_of_bounds(0.5, "user").plan.with_epsilon(0.25).event == PureEvent(0.25)
    plan = dp.plan(epsilon=1, delta=1e-8, max_groups=10)
    assert plan.with_epsilon(0.5) == dp.plan(epsilon=0.5, delta=1e-8, max_groups=10)
    assert spend_of_plan(plan, "user").event == plan.event
    assert isinstance(plan.mechanism, SparseGaussian)
    assert plan.event.event == plan.mechanism.event(1.0)
