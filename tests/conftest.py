"""What all tests share: how hypothesis explores, and which engines are tested."""

import os
from collections import defaultdict

import pytest
from hypothesis import settings

import spark_sessions

# No deadlines: a busy machine is not a bug. In CI the examples are the same in every run; elsewhere they are new each time.
settings.register_profile("dphist", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("dphist")

MOST_ON_SPARK = 2
"""Of a test with more sets of parameters, Spark runs so many of them, unless it is asked for by name."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engines", default="", help="duckdb, spark or both, with every example; without it Spark gets fewer."
    )


def pytest_configure(config: pytest.Config) -> None:
    spark_sessions.thorough = "spark" in config.getoption("--engines")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything that needs Spark runs in one process: a session takes longer to start than most of its tests take."""
    wanted = [name for name in config.getoption("--engines").split(",") if name]
    on_spark: dict[str, list[pytest.Item]] = defaultdict(list)
    dropped = []
    for item in items:
        engine = _engine(item)
        if engine == "spark":
            item.add_marker(pytest.mark.xdist_group("spark"))
            if "engine" in getattr(item, "fixturenames", ()):
                on_spark[item.nodeid.partition("[")[0]].append(item)
        if wanted and engine is not None and engine not in wanted:
            dropped.append(item)
    if not wanted:
        for variants in on_spark.values():
            kept = {round(i * (len(variants) - 1) / (MOST_ON_SPARK - 1)) for i in range(MOST_ON_SPARK)}
            dropped += [item for i, item in enumerate(variants) if len(variants) > MOST_ON_SPARK and i not in kept]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        gone = set(map(id, dropped))
        items[:] = [item for item in items if id(item) not in gone]


def _engine(item: pytest.Item) -> str | None:
    """The engine of a test that is run on each of them, or `spark` for those of Spark alone."""
    if item.path.parent.name == "spark" or item.path.stem.endswith("_spark"):
        return "spark"
    names = item.name.partition("[")[2].removesuffix("]").split("-")
    return next(
        (name for name in ("duckdb", "spark") if name in names and "engine" in getattr(item, "fixturenames", ())), None
    )


pytest_plugins = ["postgres_server"]
