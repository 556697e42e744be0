"""Every spending command charges before it reads, and says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import dphist as dp
from dphist.cli.app import app
from dphist.engines.histogram import ContributionBounds, Histogram
from dphist.errors import BudgetExceeded, EngineFailure, InvalidParameter
from dphist.ledger import DataSet, Ledger
from dphist.ledger.accountant import declared_cost, price
from dphist.ledger.charge import NOT_RECORDED
from dphist.ledger.dataset import Protects, recommend
from dphist.noise import entropy as entropy_module
from dphist.planning import Plan
from dphist.planning.spends import spend_of_plan, spend_of_top_k
from dphist.privacy.composition import of_pure
from dphist.privacy.filters import Accountant, amount, value
from dphist.run import job as releasing
from dphist.run import session as session_file
from dphist.run import strategies

USERS = 400
TABLE = pa.table(
    {
        "user": [i % USERS for i in range(2000)],
        "url": [f"u{(i * i) % 7}" for i in range(2000)],
        "age": [i % 90 for i in range(2000)],
    }
)


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """A generous ledger."""
    address = str(tmp_path / "ledger.db")
    with Ledger(address, create=True) as opened:
        opened.create(DataSet("people", 20.0, 1e-3, "user", "gdp"))
        opened.create(DataSet("events", 20.0, 1e-3, "user", "zcdp", "event"))
        opened.create(DataSet("small", 0.5, 1e-6, "user", "gdp"))
        opened.create(DataSet("once", 1.0, 1e-6, "user", "basic"))
    return address


def statuses(address: str, name: str = "people") -> tuple[int, int]:
    with Ledger(address) as opened:
        status = opened.status(name)
        assert all(check.passed for check in opened.verify(name))
        return len(status.spends), len(status.unconfirmed)


def counted() -> pa.Table:
    return pa.table({"url": ["a", "b", "c"], "n": [300, 200, 100]})


COMMANDS: dict[str, Callable[[str, Path], Any]] = {
    "release": lambda at, _: dp.release(
        TABLE, unit="user", by="url", epsilon=1, delta=1e-6, max_groups=5, ledger=at, dataset="people"
    ),
    "release, automatic": lambda at, _: dp.release(
        TABLE, unit="user", by="url", epsilon=1, delta=1e-6, total=True, ledger=at, dataset="people"
    ),
    "select": lambda at, _: dp.select(
        TABLE, unit="user", by="url", epsilon=1, delta=1e-6, ledger=at, dataset="people"
    ),
    "top-k": lambda at, _: dp.top_k(
        TABLE, unit="user", by="url", k=2, epsilon=1, delta=1e-6, method="ranked", ledger=at, dataset="people"
    ),
    "largest": lambda at, _: dp.release_largest(
        counted(), count="n", plan=dp.plan_top_k(k=2, epsilon=1, delta=1e-6, method="from-top"),
        unit="user", ledger=at, dataset="people",
    ),
    "stat": lambda at, _: dp.stat(
        "max", TABLE, unit="user", column="age", lower=0, upper=100, error=10, epsilon=1, ledger=at, dataset="people"
    ),
    "session": lambda at, folder: dp.Session.start(
        folder / "s.json", unit="user", epsilon=1, delta=1e-6, results=5, queries=2, ledger=at, dataset="people"
    ).account,
    "continual": lambda at, folder: dp.Continual.start(
        folder / "stream", unit="user", by="url", rounds=4, max_groups=2, epsilon=1, delta=1e-6, ledger=at, dataset="events"
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_charged_and_names_its_entry(command: str, ledger: str, tmp_path: Path) -> None:
    name = "events" if command == "continual" else "people"
    found = COMMANDS[command](ledger, tmp_path)
    told = found.ledger if command == "session" else found.receipt
    told = told if isinstance(told, dict) else told.to_data()
    assert statuses(ledger, name) == (1, 0)
    with Ledger(ledger) as opened:
        entry = opened.entries(name)[told["entry"]]
    assert told == {"dataset": name, "entry": 1, "hash": entry.hash}
    assert entry.body["cost"]["epsilon"] == 1
    assert entry.body["command"] == command.split(",")[0].replace("largest", "top-k")
    if hasattr(found, "metadata"):
        assert found.metadata()["ledger"] == told


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_drawn_when_the_budget_does_not_allow_it(
    command: str, ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_noise(*_: object, **__: object) -> None:
        raise AssertionError("noise was drawn")

    name = "events" if command == "continual" else "people"
    protects: Protects = "event" if name == "events" else "unit"
    with Ledger(ledger) as opened:
        for share in (0.4e-3, 0.08e-3, 0.0199e-3):
            opened.record(
                name, of_pure(0.0, share), unit="user", protects=protects, note="others", declared={"delta": share}
            )
        before = opened.entries(name)
    monkeypatch.setattr(entropy_module.SystemEntropy, "words", no_noise)
    with pytest.raises(BudgetExceeded, match="its delta is more than what is left"):
        COMMANDS[command](ledger, tmp_path)
    with Ledger(ledger) as opened:
        assert opened.entries(name) == before
    assert not (tmp_path / "s.json").exists()
    assert not (tmp_path / "stream" / "state.arrow").exists()


def test_the_charge_is_durable_before_the_first_noise(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    # Where noise begins; bounding draws random bits before, which nobody sees.
    for owner, name in ((releasing.Work, "from_groups"), (strategies, "decide")):
        original = getattr(owner, name)

        def watched(*arguments: Any, original: Callable[..., Any] = original, **named: Any) -> Any:
            seen.append(statuses(ledger))
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, watched)
    COMMANDS["release"](ledger, Path())
    COMMANDS["release, automatic"](ledger, Path())
    assert seen[:2] == [(1, 1), (2, 1)]
    assert statuses(ledger) == (2, 0)


def test_a_release_that_fails_after_the_charge_stays_spent(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise EngineFailure("noise")

    monkeypatch.setattr("dphist.run.job.Work.from_groups", broken)
    with pytest.raises(EngineFailure):
        COMMANDS["release"](ledger, Path())
    assert statuses(ledger) == (1, 1)


def test_a_mistake_before_the_charge_costs_nothing(ledger: str) -> None:
    with pytest.raises(InvalidParameter):
        dp.release(TABLE, unit="user", by="none", epsilon=1, delta=1e-6, max_groups=5, ledger=ledger, dataset="people")
    assert statuses(ledger) == (0, 0)


def test_a_mistaken_call_with_a_list_costs_nothing(ledger: str) -> None:
    plan = dp.plan_top_k(k=2, epsilon=1, delta=1e-6, method="from-top", max_groups=1)
    taken = pa.table({"count": ["a", "b", "c"], "n": [3, 2, 1]})
    for groups, more, said in (
        (counted(), {}, "bounded to 1 groups"),
        (taken, {"max_groups": 1}, "keys with other names"),
        (counted(), {"max_groups": 1, "entropy": object()}, "unexpected keyword argument 'entropy'"),
    ):
        with pytest.raises((InvalidParameter, TypeError), match=said):
            dp.release_largest(groups, count="n", plan=plan, unit="user", ledger=ledger, dataset="people", **more)
    assert statuses(ledger) == (0, 0)


def sealed(data: dict[str, object]) -> bytes:
    """As whoever edits a session would write it: with a digest computed anew."""
    return session_file._text({name: value for name, value in data.items() if name != "digest"})


def test_a_session_that_is_not_what_was_paid_for_is_refused(ledger: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    kept = {"unit": "user", "delta": 1e-6, "results": 5, "queries": 3}
    dp.Session.start(path, **kept, epsilon=0.5, ledger=ledger, dataset="people")  # type: ignore[arg-type]
    dp.Session(path).query(TABLE, by="url", k=1, ledger=ledger)
    dp.Session(path).query(TABLE, by="url", k=1, ledger=ledger)  # what queries use up is not part of the terms
    dp.Session.start(tmp_path / "rich.json", **kept, epsilon=5)  # type: ignore[arg-type]
    data, rich = (json.loads((tmp_path / name).read_text()) for name in ("s.json", "rich.json"))
    with pytest.raises(InvalidParameter, match="one that names no entry"):
        dp.Session(tmp_path / "rich.json").query(TABLE, by="url", k=1, ledger=ledger)
    rich["account"]["ledger"] = data["account"]["ledger"]
    path.write_bytes(sealed(rich))
    with pytest.raises(InvalidParameter, match="a session as entry 1 of 'people' paid for, got another one"):
        dp.Session(path).query(TABLE, by="url", k=1, ledger=ledger)
    for receipt, said in (
        ({"dataset": "people", "entry": 1, "hash": "0" * 64}, "got another one"),
        ({"dataset": "people", "entry": 9, "hash": "0" * 64}, "is it this ledger"),
        ({"entry": 1}, "a valid dataset"),
    ):
        data["account"]["ledger"] = receipt
        path.write_bytes(sealed(data))
        with pytest.raises(InvalidParameter, match=said):
            dp.Session(path).query(TABLE, by="url", k=1, ledger=ledger)


def test_a_stream_that_is_not_what_was_paid_for_is_refused(ledger: str, tmp_path: Path) -> None:
    kept = {"unit": "user", "by": "url", "rounds": 4, "max_groups": 2, "delta": 1e-6}
    paid = dp.Continual.start(tmp_path / "paid", **kept, epsilon=0.5, ledger=ledger, dataset="events")  # type: ignore[arg-type]
    paid.add(TABLE, "monday", ledger=ledger)
    paid.add(TABLE, "tuesday", ledger=ledger)
    rich = dp.Continual.start(tmp_path / "rich", **kept, epsilon=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="one that names no entry"):
        rich.add(TABLE, "monday", ledger=ledger)
    state = rich._state()
    forged = replace(state, settings={**state.settings, "ledger": paid.receipt})
    with (tmp_path / "rich" / "state.arrow").open("wb") as sink:
        forged.save(sink)
    histogram = Histogram(pa.table({"url": ["a"]}), np.array([5]), ContributionBounds(2))
    said = "a stream as entry 1 of 'events' paid for, got another one"
    with pytest.raises(InvalidParameter, match=said):
        rich.add(TABLE, "monday", ledger=ledger)
    with pytest.raises(InvalidParameter, match=said):
        rich.add_histogram(histogram, "monday", ledger=ledger)


def test_python_charges_only_what_it_is_told_to(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """DPHIST_LEDGER and DPHIST_DATASET are for the command line: a library that spends because of them would surprise."""
    monkeypatch.setenv("DPHIST_LEDGER", ledger)
    monkeypatch.setenv("DPHIST_DATASET", "people")
    assert dp.release(TABLE, unit="user", by="url", epsilon=1, delta=1e-6, max_groups=5).receipt is None
    assert statuses(ledger) == (0, 0)


def test_a_ledger_and_a_data_set_belong_together(ledger: str) -> None:
    for given in ({"ledger": ledger}, {"dataset": "people"}):
        with pytest.raises(InvalidParameter, match="a ledger and a data set together"):
            dp.release(TABLE, unit="user", by="url", epsilon=1, delta=1e-6, max_groups=5, **given)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="a data set of this ledger"):
        dp.release(TABLE, unit="user", by="url", epsilon=1, delta=1e-6, max_groups=5, ledger=ledger, dataset="none")
    with pytest.raises(InvalidParameter, match="the unit 'user'"):
        dp.release(TABLE, unit="age", by="url", epsilon=1, delta=1e-6, max_groups=5, ledger=ledger, dataset="people")


def test_a_refusal_says_what_fits_and_it_does(ledger: str) -> None:
    plan = dp.plan(epsilon=1, delta=1e-8, max_groups=20)
    with pytest.raises(BudgetExceeded) as problem:
        dp.release(TABLE, unit="user", by="url", plan=plan, ledger=ledger, dataset="small")
    words = str(problem.value)
    epsilon = float(words.split("epsilon ")[1].split(" fits")[0])
    groups = int(words.split("--max-groups ")[1].split(" fits")[0])
    assert 0.3 < epsilon < 1
    assert 1 <= groups < 20
    with Ledger(ledger) as opened:
        dataset, left = opened.left("small")
    smaller = spend_of_plan(dp.plan(epsilon=epsilon, delta=1e-8, max_groups=20), "user")
    assert amount(price(smaller.event, 0.5), "gdp").within(left)
    larger = spend_of_plan(dp.plan(epsilon=epsilon * 1.05, delta=1e-8, max_groups=20), "user")
    assert not amount(price(larger.event, 0.5), "gdp").within(left)
    assert dataset.name == "small"


def test_a_refusal_where_no_epsilon_fits_and_where_the_choice_is_what_costs(ledger: str) -> None:
    with pytest.raises(BudgetExceeded, match="its delta is more than what is left"):
        dp.top_k(
            TABLE, unit="user", by="url", k=2, epsilon=1, delta=0.01, method="ranked", ledger=ledger, dataset="small"
        )
    with pytest.raises(BudgetExceeded, match="not even a 64th of epsilon fits"):
        dp.release(
            TABLE,
            unit="user",
            by="url",
            epsilon=20,
            delta=1e-8,
            max_groups=1,
            mechanism="laplace",
            ledger=ledger,
            dataset="small",
        )
    with pytest.raises(BudgetExceeded, match="with --mechanism adaptive it fits as it is"):
        dp.release(TABLE, unit="user", by="url", epsilon=0.4, delta=1e-8, ledger=ledger, dataset="small")


def test_a_release_of_the_whole_budget_fits_a_basic_ledger_exactly(ledger: str) -> None:
    dp.release(TABLE, unit="user", by="url", epsilon=1, delta=1e-6, max_groups=5, ledger=ledger, dataset="once")
    with pytest.raises(BudgetExceeded):
        dp.release(TABLE, unit="user", by="url", epsilon=1e-6, delta=1e-9, max_groups=5, ledger=ledger, dataset="once")


def test_every_branch_of_a_choice_is_paid_for() -> None:
    plan = dp.plan(epsilon=1, delta=1e-8, total=True)
    whole = price(plan.event, 1.0)
    pure = [plan.request.choice_epsilon, 0.05]
    for branch in (plan.mechanism, *plan.alternatives):
        one = price(branch.event(plan.request.mechanism_epsilon), 1.0)
        assert whole.mu**2 >= one.mu**2 + sum(1.25 * e**2 for e in pure)
        assert whole.rho_delta >= one.rho_delta
    assert (whole.epsilon, whole.delta) == (1.0, 1e-8)
    decided = Plan(plan.request, plan.mechanism)
    assert price(decided.event, 1.0).mu < whole.mu


def test_top_k_plans_are_made_anew_with_their_own_options() -> None:
    for method, groups in (("from-top", 3), ("ranked", None)):
        plan = dp.plan_top_k(k=3, epsilon=1, delta=1e-6, method=method, max_groups=groups)  # type: ignore[arg-type]
        spend = spend_of_top_k(plan, "user")
        assert spend.plan.with_epsilon(1.0).event == spend.event


@pytest.mark.parametrize(("releases", "expected"), [(1, "basic"), (2, "gdp"), (100, "gdp")])
def test_the_recommendation(releases: int, expected: str) -> None:
    found = recommend(1.0, 1e-6, releases)
    assert found.accountant == expected
    assert found.noise_std["gdp"] < found.noise_std["zcdp"]
    assert "recommended" in str(found)


# --- The command line -------------------------------------------------------------------------------------------------


def invoke(*words: str, env: dict[str, str] | None = None) -> str:
    done = CliRunner().invoke(app, list(words), env=env, catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


@pytest.fixture
def parquet(tmp_path: Path) -> str:
    pq.write_table(TABLE, tmp_path / "events.parquet")
    return str(tmp_path / "events.parquet")


def test_the_life_of_a_ledger(tmp_path: Path, parquet: str) -> None:
    env = {"DPHIST_LEDGER": str(tmp_path / "l.db"), "DPHIST_DATASET": "people"}
    budget = ["--epsilon", "2", "--delta", "1e-6", "--unit", "user"]
    with pytest.raises(InvalidParameter, match="--accountant or --expect-releases"):
        invoke("ledger", "create", *budget, env=env)
    out = invoke("ledger", "create", *budget, "--expect-releases", "20", env=env)
    assert "gdp     noise std" in out
    assert "accountant gdp" in out
    assert "nothing is spent yet" in out
    release = ["release", parquet, "--unit", "user", "--by", "url", "--epsilon", "0.5", "--delta", "1e-8"]
    release += ["--max-groups", "5", "-o", str(tmp_path / "out.parquet")]
    dry = invoke(*release, "--dry-run", env=env)
    assert "It fits into what is left of 'people'. Nothing was charged." in dry
    assert "Charged to 'people', entry 1" in invoke(*release, "--report", str(tmp_path / "r.html"), env=env)
    larger = [word if word != "0.5" else "4" for word in release]
    with pytest.raises(BudgetExceeded, match=r"epsilon 2\.\d+ fits"):
        invoke(*larger, "--mechanism", "sparse-gaussian", "--overwrite", env=env)
    told = json.loads((tmp_path / "out.parquet.dphist.json").read_text())["ledger"]
    shown, _, carried = (tmp_path / "r.html").read_text().rpartition('id="metadata"')
    assert "ledger" not in shown  # a reader of the page has no ledger to look into
    assert told["hash"] in carried  # but `dphist verify --ledger` has
    assert "Charged to 'people', entry 3" in invoke(
        "top-k", parquet, "--unit", "user", "--by", "url", "--k", "2", "--epsilon", "0.2", "--delta", "1e-8",
        "--method", "ranked", env=env,
    )  # fmt: skip
    assert "Charged to 'people', entry 5" in invoke(
        "stat", "is-empty", parquet, "--unit", "user", "--epsilon", "0.1", "--delta", "1e-8", env=env
    )
    assert "Charged to 'people', entry 7" in invoke(
        "session", "start", str(tmp_path / "s.json"), "--unit", "user", "--epsilon", "0.1", "--delta", "1e-8",
        "--results", "5", "--queries", "2", env=env,
    )  # fmt: skip
    invoke("session", "query", str(tmp_path / "s.json"), parquet, "--by", "url", "--k", "2", env=env)
    protected = ["--unit", "user", "--protects", "unit"]
    for spend in (["--epsilon", "0.01"], ["--rho", "0.0001", "--delta", "1e-10", "--convert-at", "1e-9"]):
        out = invoke("ledger", "record", *spend, *protected, "--note", "survey", env=env)
        assert "as a guarantee for adding or removing\nall records of one user." in out
        assert "exceeded" not in out
    shown = invoke("ledger", "show", env=env)
    assert "more like the last one (record) fit" in shown
    assert "[#" in shown
    data = json.loads(invoke("ledger", "show", "--json", env=env))
    assert data[0]["spends"] == 6
    assert set(data[0]["comparison"]) == {"basic", "gdp", "zcdp", "pld"}
    history = " ".join(invoke("ledger", "history", env=env).split())  # a table may break a sentence
    assert "the result of entry 1 was written to out.parquet" in history
    assert "the result of entry 3 was returned; where it was written, if at all, is not known here" in history
    assert "the result of entry 7 was written to s.json" in history
    assert "survey" in history
    assert len(json.loads(invoke("ledger", "history", "--json", env=env))) == 11
    verified = invoke("ledger", "verify", "--head", told["hash"], env=env)
    assert "is entry 1" in verified
    assert all(check["passed"] for check in json.loads(invoke("ledger", "verify", "--json", env=env)))
    exported = json.loads(invoke("ledger", "export", env=env))
    assert exported["head"] == data[0]["head"]
    assert "Head: " in invoke("ledger", "export", "-o", str(tmp_path / "e.json"), env=env)
    assert json.loads((tmp_path / "e.json").read_text())["entries"] == exported["entries"]


def test_history_tells_of_crashes_and_clocks(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(ledger) as opened:
        monkeypatch.setattr("dphist.ledger.ledger._now", lambda: "2001-01-01T00:00:00.000000+00:00")
        opened.reserve("people", of_pure(0.1), unit="user", command="release", facts={"mechanism": "laplace"})
    out = " ".join(invoke("ledger", "history", "--ledger", ledger, "--dataset", "people").split())
    assert "Never confirmed: it may have been cut short. Counted" in out
    assert "The clock was behind the entry before it" in out
    assert "kept elsewhere: --against FILE, --head HASH" in invoke(
        "ledger", "verify", "--ledger", ledger, "--dataset", "people"
    )
    shown = invoke("ledger", "show", "--ledger", ledger)
    assert "people:" in shown
    assert "once:" in shown


def test_reading_needs_no_name_where_there_is_one_data_set(tmp_path: Path) -> None:
    address = str(tmp_path / "one.db")
    with Ledger(address, create=True) as opened:
        with pytest.raises(InvalidParameter, match="no data sets yet"):
            invoke("ledger", "history", "--ledger", address)
        opened.create(DataSet("only", 1.0, 1e-6, "user", "basic"))
    assert "epsilon 1" in invoke("ledger", "history", "--ledger", address)
    assert "ok" in invoke("ledger", "verify", "--ledger", address)
    assert json.loads(invoke("ledger", "export", "--ledger", address))["dataset"] == "only"


def test_a_changed_ledger_is_exit_code_1_and_bad_calls_are_told(ledger: str) -> None:
    done = CliRunner().invoke(app, ["ledger", "verify", "--ledger", ledger, "--dataset", "people", "--head", "f" * 64])
    assert done.exit_code == 1
    assert "FAIL  head" in done.output
    recording = ["ledger", "record", "--ledger", ledger, "--dataset", "people", "--note", "x", "--unit", "user"]
    recording += ["--protects", "unit"]
    for words, said in (
        (["ledger", "show"], "--ledger ADDRESS"),
        (["ledger", "history", "--ledger", ledger], "--dataset NAME"),
        (recording, "--epsilon or --rho"),
        ([*recording, "--rho", "1", "--delta", "1e-9"], "--convert-at in"),
        ([*recording, "--epsilon", "1", "--convert-at", "1e-9"], "beside --rho only"),
        ([*recording, "--epsilon", "1", "--delta", "2"], "--delta in"),
        ([*recording, "--epsilon", "1e9"], "--delta 1 says that everything was told"),
        ([*recording, "--rho=-1"], "--epsilon or --rho in"),
        ([*recording[:-1], "row", "--epsilon", "1"], "one of unit, event"),
        ([*recording[:-4], "--unit", "device", *recording[-2:], "--epsilon", "1"], "the unit 'user'"),
    ):
        with pytest.raises(InvalidParameter, match=said):
            invoke(*words)
    for left_out in ("--unit", "--protects"):
        at = recording.index(left_out)
        done = CliRunner().invoke(app, [*recording[:at], *recording[at + 2 :], "--epsilon", "1"])
        assert done.exit_code == 2
        assert f"Missing option '{left_out}'" in done.output


def test_a_spend_elsewhere_beyond_the_budget_is_recorded_and_told(ledger: str) -> None:
    at = ["--ledger", ledger, "--dataset", "small"]
    out = invoke(
        "ledger", "record", *at, "--note", "a table without noise", "--unit", "user", "--protects", "unit",
        "--epsilon", "0", "--delta", "1",
    )  # fmt: skip
    assert "The budget of 'small' is exceeded. Nothing more will be charged to it." in out
    done = CliRunner().invoke(app, ["ledger", "verify", *at])
    assert done.exit_code == 3
    assert "ok    chain" in done.output
    assert "FAIL  budget  exceeded by recorded spends" in done.output


@pytest.mark.parametrize(("accountant", "delta"), [("zcdp", 1e-7), ("gdp", 1.01e-7), ("basic", 1.01e-7)])
def test_the_delta_of_a_rho_is_charged_by_every_accountant(accountant: Accountant, delta: float) -> None:
    cost, declared = declared_cost(None, 1e-7, 0.01, 1e-9)
    charged = value(amount(cost, accountant).delta)
    assert delta <= charged < delta * (1 + 1e-9)
    assert declared == {"rho": 0.01, "delta": 1e-7, "convert_at": 1e-9}


def test_without_a_ledger_commands_say_so(tmp_path: Path, parquet: str) -> None:
    budget = ["--unit", "user", "--epsilon", "1", "--delta", "1e-6"]
    for words in (
        ["release", parquet, *budget, "--by", "url", "--max-groups", "5", "-o", str(tmp_path / "out.csv")],
        ["top-k", parquet, *budget, "--by", "url", "--k", "2", "--method", "ranked"],
        ["stat", "is-empty", parquet, *budget],
        ["session", "start", str(tmp_path / "s.json"), *budget, "--results", "5", "--queries", "2"],
        ["continual", "start", str(tmp_path / "c"), *budget, "--by", "url", "--rounds", "2", "--max-groups", "1"],
    ):
        assert NOT_RECORDED in invoke(*words, env={"DPHIST_LEDGER": None, "DPHIST_DATASET": None})  # type: ignore[dict-item]


def test_a_stream_is_charged_to_events_on_the_command_line(ledger: str, tmp_path: Path, parquet: str) -> None:
    words = ["continual", "start", str(tmp_path / "c"), "--unit", "user", "--by", "url", "--rounds", "2"]
    words += ["--max-groups", "1", "--epsilon", "1", "--delta", "1e-6", "--ledger", ledger]
    with pytest.raises(InvalidParameter, match="a data set of its own"):
        invoke(*words, "--dataset", "people")
    assert "Charged to 'events', entry 1" in invoke(*words, "--dataset", "events")
    assert dp.Continual(tmp_path / "c").receipt is not None
    add = ["continual", "add", str(tmp_path / "c"), parquet, "--batch", "monday"]
    invoke(*add, "--ledger", ledger)
    other = str(tmp_path / "other.db")
    Ledger(other, create=True).close()
    with pytest.raises(InvalidParameter, match="is it this ledger"):
        invoke(*add[:-1], "tuesday", "--ledger", other)
