"""Options: declared once, checked strictly, refused in our own words."""

import inspect
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pyarrow as pa
import pytest

import dphist as dp
from dphist.aggregates import SIZES
from dphist.aggregates.measures import Of
from dphist.engines import query
from dphist.ledger import dataset
from dphist.mechanisms import counts
from dphist.planning import choices, options, top_k
from dphist.planning import flexible as statistics
from dphist.planning import statistics as flexible
from dphist.planning.options import BudgetOptions, PlanOptions, ReleaseOptions, StatisticOptions
from dphist.privacy import correlated_gaussian as csh
from dphist.privacy import filters
from dphist.privacy import sparse_gaussian as gshm
from dphist.run import table

TABLE = pa.table({"user": ["SECRET1", "SECRET2"], "url": ["SECRET3", "SECRET4"]})
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-8}
KINDS = [PlanOptions, BudgetOptions, ReleaseOptions, StatisticOptions]
FUNCTIONS = [(dp.plan, PlanOptions), (dp.release, ReleaseOptions), (dp.stat, StatisticOptions)]


@pytest.mark.parametrize(("function", "kind"), FUNCTIONS)
def test_signatures_are_spelled_out_as_declared(function: Callable[..., Any], kind: type) -> None:
    parameters = inspect.signature(function).parameters
    assert not any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    types = get_type_hints(kind)
    model = options.model(kind).model_fields
    assert list(model) == list(options.declarations(kind))
    for name, declared in options.declarations(kind).items():
        assert parameters[name].annotation == types[name]
        assert model[name].is_required() == declared.required == (parameters[name].default is inspect.Parameter.empty)
        assert declared.required or parameters[name].default == model[name].default == declared.option.default
        assert model[name].description == declared.option.help


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_has_help_words_and_a_default_of_its_type(kind: type) -> None:
    for name, declared in options.declarations(kind).items():
        assert declared.option.help
        assert declared.type is object or declared.expected, name
        if not declared.required:
            assert declared.option.default is None or isinstance(declared.option.default, bool | int | float | str)
    required = {name: _example(one.type) for name, one in options.declarations(kind).items() if one.required}
    defaults = {name: one.option.default for name, one in options.declarations(kind).items() if not one.required}
    options.model(kind).model_validate({**required, **defaults})


def _example(kind: Any) -> object:
    return 1.0 if kind is float else "x"


def test_declarations_agree_with_what_they_are_passed_to() -> None:
    """These live where `dphist --help` does not go: engines, tables and statistics."""
    assert get_args(choices.NullKeys) == get_args(query.NullKeys)
    assert get_args(choices.Order) == table.ORDERS
    assert get_args(choices.ReadAs) == flexible.READ_AS
    assert get_args(choices.Emphasis) == counts.EMPHASES
    assert (*gshm.ANALYSES, *csh.ANALYSES) == choices.ANALYSES
    assert top_k.METHODS == choices.METHODS
    assert statistics.NAMES == choices.STATISTICS
    assert tuple(SIZES) == get_args(Of) == choices.BOUNDS
    assert filters.ACCOUNTANTS == choices.ACCOUNTANTS
    assert dataset.PROTECTS == choices.PROTECTS
    taken = inspect.signature(flexible.plan_statistic).parameters
    assert [name for name in taken if name != "name"] == list(StatisticOptions.__annotations__)
    for name, declared in options.declarations(StatisticOptions).items():
        assert declared.required or taken[name].default == declared.option.default


def test_a_typo_names_the_nearest_parameter() -> None:
    with pytest.raises(dp.InvalidParameter, match=r"a parameter of plan, got epsilom. Hint: did you mean epsilon\?"):
        dp.plan(epsilom=1, delta=1e-8)  # type: ignore[call-arg]
    with pytest.raises(dp.InvalidParameter, match=r"a parameter of release, got epsilom. Hint: did you mean epsilon\?"):
        dp.release(TABLE, unit="user", by="url", epsilom=1, delta=1e-8)  # type: ignore[call-arg]
    with pytest.raises(dp.InvalidParameter, match=r"did you mean ledger\?"):
        dp.release(TABLE, unit="user", by="url", ledgr="x", **BUDGET)  # type: ignore[call-arg]
    with pytest.raises(dp.InvalidParameter, match=r"a parameter of stat, got lowr. Hint: did you mean lower\?"):
        dp.stat("max", TABLE, unit="user", epsilon=1, lowr=1)  # type: ignore[call-arg]
    with pytest.raises(dp.InvalidParameter, match="Hint: there are epsilon, delta, max_groups"):
        dp.plan(zzz=1, **BUDGET)  # type: ignore[call-arg]


def test_what_is_missing_is_named() -> None:
    with pytest.raises(dp.InvalidParameter, match=r"Expected epsilon, got none\. Hint: Privacy budget"):
        dp.plan(delta=1e-8)  # type: ignore[call-arg]
    with pytest.raises(dp.InvalidParameter, match="Expected delta, got none"):
        dp.release(TABLE, unit="user", by="url", epsilon=1)
    with pytest.raises(dp.InvalidParameter, match="Expected by, got none"):
        dp.select(TABLE, unit="user", **BUDGET)
    with pytest.raises(dp.InvalidParameter, match="Expected epsilon, got none"):
        dp.stat("max", TABLE, unit="user")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": "1"}, "Expected epsilon to be a number, got '1'."),
        ({"epsilon": True}, "Expected epsilon to be a number, got True."),
        ({"epsilon": None}, "Expected epsilon to be a number, got None."),
        ({"epsilon": 10**400}, "Expected epsilon to be a number, got int."),
        ({"max_groups": 2.5}, "Expected max_groups to be a whole number, got 2.5."),
        ({"max_groups": "ten"}, "Expected max_groups to be a whole number, got 'ten'."),
        ({"max_groups": True}, "Expected max_groups to be a whole number, got True."),
        ({"sparsity": 3.0}, "Expected sparsity to be a whole number, got 3.0."),
        ({"keys": 2.5}, "of a table, give their number."),
        ({"keys": True}, "Expected keys to be a whole number, got True."),
        ({"total": 1}, "Expected total to be true or false, got 1."),
        ({"sums": ["likes"]}, "such as {'likes': (0, 1)}, or 'auto', got list."),
        ({"sums": {"likes": (0, "1")}}, "such as {'likes': (0, 1)}, or 'auto', got '1'."),
        ({"means": {"likes": (0, 1, 2)}}, "such as {'likes': (0, 1)}, or 'auto', got tuple."),
        ({"weights": {"sum_likes": "a"}}, "such as {'sum_likes': 0.5}, got 'a'."),
        ({"mechanism": 1}, "Expected mechanism to be text, got 1."),
        ({"analysis": 1}, "Expected analysis to be text, got 1."),
        ({"objective": "fun"}, "Expected objective to be one of release95, gap, noise, got 'fun'."),
    ],
)
def test_a_wrong_type_is_refused_in_our_words(change: dict[str, Any], message: str) -> None:
    with pytest.raises(dp.InvalidParameter) as caught:
        dp.plan(**{**BUDGET, **change})
    assert str(caught.value).endswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unit": 3}, "Expected unit to be a column, an expression or a list of them, got 3."),
        ({"by": TABLE["url"]}, "Expected by to be a column or a list of columns, got ChunkedArray."),
        ({"by": [TABLE["url"]]}, "Expected by to be a column or a list of columns, got list."),
        ({"unit": TABLE["user"]}, "Expected unit to be a column, an expression or a list of them, got ChunkedArray."),
        ({"null_keys": "keep"}, "Expected null_keys to be one of group, drop, got 'keep'."),
        ({"order": "random"}, "Expected order to be one of count, key, got 'random'."),
        ({"intervals": "0.9"}, "Expected intervals to be a number, got '0.9'."),
        ({"integers": "yes"}, "Expected integers to be true or false, got 'yes'."),
        ({"plan": 5}, "Expected a plan, or the path of a saved one, got int."),
    ],
)
def test_release_refuses_wrong_types_without_quoting_data(change: dict[str, Any], message: str) -> None:
    budget = {} if "plan" in change else BUDGET
    with pytest.raises(dp.InvalidParameter) as caught:
        dp.release(TABLE, **{"unit": "user", "by": "url", **budget, **change})
    assert str(caught.value) == message
    assert "SECRET" not in str(caught.value)


def test_statistics_are_asked_for_strictly() -> None:
    with pytest.raises(dp.InvalidParameter, match="Expected lower to be a number, got '0'"):
        dp.stat("max", TABLE, unit="user", column="url", epsilon=1, lower="0")  # type: ignore[arg-type]
    with pytest.raises(dp.InvalidParameter, match="Expected read_as to be one of number, text, got 'date'"):
        dp.stat("mode", TABLE, unit="user", column="url", epsilon=1, read_as="date")  # type: ignore[arg-type]


def test_values_are_checked_and_not_converted() -> None:
    """A whole epsilon stays one in a saved plan; bounds may be a list, and keys whatever can be iterated."""
    plan = dp.plan(epsilon=1, delta=1e-8, max_groups=10, sums={"likes": [0, 1]})  # type: ignore[dict-item]
    assert isinstance(plan.request.epsilon, int)
    assert plan == dp.plan(epsilon=1, delta=1e-8, max_groups=10, sums={"likes": (0, 1)})
    for keys in ({"a", "b"}, np.array(["a", "b", "a"]), pa.array(["a", "b"]), iter("ab")):
        assert dp.plan(epsilon=1, delta=1e-8, keys=keys).request.keys == 2


def test_a_plan_stands_for_the_budget() -> None:
    plan = dp.plan(epsilon=1, delta=1e-8, max_groups=2)
    with pytest.raises(dp.InvalidParameter, match="leave out low_threshold, sparse: the plan says it"):
        dp.release(TABLE, unit="user", by="url", plan=plan, sparse=False, low_threshold=1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", "1"),
        ("epsilon", True),
        ("max_groups", 10.0),
        ("max_groups", "10"),
        ("low_threshold", 1.0),
        ("total", 0),
        ("mechanism", None),
        ("aggregates", {}),
        ("aggregates", [{"kind": "sum", "column": 3, "lower": 0, "upper": 1}]),
        ("aggregates", [{"kind": "sum", "column": "likes", "lower": "0", "upper": 1}]),
        ("surprise", 1),
    ],
)
def test_stored_requests_are_read_strictly(tmp_path: Path, name: str, value: object) -> None:
    path = tmp_path / "plan.json"
    dp.plan(epsilon=1, delta=1e-8, max_groups=10, sums={"likes": (0, 1)}).save(path)
    data = json.loads(path.read_text())
    data["request"][name] = value
    path.write_text(json.dumps(data))
    with pytest.raises(
        dp.InvalidPlan, match=rf"Expected a valid (request\.{name}|\w+ in an aggregate).* in .*plan.json, got"
    ):
        dp.Plan.load(path)


def test_stored_values_are_checked_by_the_request(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    dp.plan(epsilon=1, delta=1e-8, max_groups=10).save(path)
    data = json.loads(path.read_text())
    for value, told in ((math.nan, "one readable JSON object"), (-1, "a finite epsilon > 0")):
        data["request"]["epsilon"] = value
        path.write_text(json.dumps(data))
        with pytest.raises(dp.InvalidPlan, match=rf"Expected {told} in .*plan.json, got something else"):
            dp.Plan.load(path)
