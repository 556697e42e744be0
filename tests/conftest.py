"""What all tests share: the same examples and the same noise in every run, which engines are tested, and in which process."""

import hashlib
import os
import signal
from collections.abc import Generator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import spark_sessions
from dphist.noise.entropy import SystemEntropy
from made_once import made_once

EXPLORE = "DPHIST_EXPLORE" in os.environ
"""Whether examples and noise are new in this run (`make test-explore`)."""

# No deadlines: a busy machine is not a bug. Hypothesis has settings of its own where CI is set: all that matter are set here.
settings.register_profile(
    "dphist", deadline=None, derandomize=not EXPLORE, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("dphist")

MADE_ONCE = {"cli", "ledger", "publish", "sql", "unknown_domain"}
"""Tests of what is done with plans: equal ones are calibrated once in a process, and commands built once."""

OWN_NOISE = {"test_noise_entropy"}
"""Files of tests about the operating system's randomness itself: all others draw their noise from the name of the test."""

ON_SPARK = {
    "test_a_noisy_release_is_written_by_spark_verified_and_removed",
    "test_a_task_that_fails_after_noising_publishes_one_consistent_result_and_is_charged_once",
    "test_bins_are_those_of_the_oracle", "test_case_on_spark",
    "test_counts_by_class_are_the_same_bits_on_spark", "test_difficult_records_are_counted_as_the_oracle_counts_them",
    "test_equals_the_oracle_when_nobody_has_too_many_groups", "test_floats_of_one_unit_change_nothing_for_others",
    "test_no_record_gets_into_the_log_of_the_driver", "test_nothing_is_counted_before_the_charge",
    "test_one_unit_moves_every_measure_by_its_sensitivity", "test_spark_votes_as_numpy_does",
    "test_tasks_draw_from_their_own_entropy", "test_the_command", "test_the_command_line", "test_units_of_every_type",
    "test_who_has_few_values_is_counted_as_sql_counts", "test_without_noise_spark_and_duckdb_release_the_same",
}  # fmt: skip
"""The tests that need a Spark session and run without `--engines spark`. `make test-spark` runs all."""

few_on_spark = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engines", default="", help="duckdb, spark or both, with every example; without it Spark gets a few tests."
    )


def pytest_configure(config: pytest.Config) -> None:
    # A script in the background ignores it, and so would all that tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    spark_sessions.thorough = "spark" in config.getoption("--engines")
    if (given := getattr(config, "workerinput", None)) is not None:
        config.stash[few_on_spark] = given["few_on_spark"]  # workers do not know where their arguments come from
    else:
        everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS and "not long" in config.option.markexpr
        config.stash[few_on_spark] = everything and not config.getoption("--engines")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """What a worker of xdist is told."""
    node.workerinput["few_on_spark"] = node.config.stash[few_on_spark]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """With the noise of its name."""
    _draw_from(item.nodeid if item.path.stem not in OWN_NOISE else None)
    with made_once() if item.path.parent.name in MADE_ONCE else nullcontext():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """What several tests share does not depend on the test that comes first."""
    if fixturedef.scope == "function" or SystemEntropy.words is system_words:
        return (yield)
    before = SystemEntropy.words
    _draw_from(f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param_index', 0)}]")
    try:
        return (yield)
    finally:
        SystemEntropy.words = before  # type: ignore[method-assign]


system_words = SystemEntropy.words


def _draw_from(name: str | None) -> None:
    """Give every draw of this process words that follow from a name; without one, the operating system's."""
    if name is None or EXPLORE:
        SystemEntropy.words = system_words  # type: ignore[method-assign]
        return
    stream = np.random.PCG64(int.from_bytes(hashlib.sha256(name.encode()).digest()))
    SystemEntropy.words = lambda self, count: stream.random_raw(count)  # type: ignore[method-assign]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadgroup`: each file, and everything that needs Spark, goes to one process, in the order of collection.

    A session takes longer to start than most of its tests take, and the fixtures of a file would be made in every process.
    The marker of xdist for this has no effect with pytest 9.2, which keeps names of tests where xdist does not look.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Files(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            path, _, name = nodeid.partition("::")
            return "spark" if "/spark/" in path or "spark" in _parameters(name) else path

    config.option.loadscopereorder = False  # it would count tests
    return Files(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Which tests of which engine are run. In one of several processes Spark comes first, since nothing takes longer."""
    wanted = [name for name in config.getoption("--engines").split(",") if name]
    first: set[str] = set()
    dropped = []
    for item in items:
        engine = _engine(item)
        if wanted and engine is not None and engine not in wanted:
            dropped.append(item)
        elif config.stash[few_on_spark] and engine == "spark" and item.get_closest_marker("cluster") is None:
            name = item.name.partition("[")[0]
            if name not in ON_SPARK or name in first:
                dropped.append(item)
            first.add(name)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        gone = set(map(id, dropped))
        items[:] = [item for item in items if id(item) not in gone]
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _engine(item) != "spark")


def _engine(item: pytest.Item) -> str | None:
    """The engine of a test that is run on each of them, or `spark` for those of Spark alone."""
    if item.path.parent.name == "spark" or item.path.stem.endswith("_spark"):
        return "spark"
    names = _parameters(item.name)
    return next(
        (name for name in ("duckdb", "spark") if name in names and "engine" in getattr(item, "fixturenames", ())), None
    )


def _parameters(name: str) -> list[str]:
    """The parameters in the name of a test."""
    return name.partition("[")[2].removesuffix("]").split("-")


pytest_plugins = ["core_install", "postgres_server"]
