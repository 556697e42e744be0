"""What `help(dphist.…)` says: a line, every argument, what comes back, what goes wrong, and an example that runs."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dphist as dp
from dphist import demo
from dphist.mechanisms import Mechanism
from dphist.run.stream import RunningCounts

PUBLIC = {name: getattr(dp, name) for name in dp.__all__ if not name.startswith("__")}
FUNCTIONS = {name: one for name, one in PUBLIC.items() if inspect.isfunction(one)}
CLASSES = {name: one for name, one in PUBLIC.items() if inspect.isclass(one) and not issubclass(one, Exception)} | {
    "RunningCounts": RunningCounts
}
RETURNED = {
    name: one
    for name, one in CLASSES.items()
    if not issubclass(one, Mechanism) and name not in ("SparkEngine", "DataSet")
}
"""Classes whose methods people call. What mechanisms and engines can do is for those who write one: docs/architecture.md."""

SECTION = re.compile(r"^(Args|Returns|Raises|Example):\n((?:(?: +\S.*)?\n)+)", re.MULTILINE)


def methods(owner: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(owner):
        one = inspect.getattr_static(owner, name)
        function = one.__func__ if isinstance(one, classmethod) else one
        if not name.startswith("_") and inspect.isfunction(function):
            yield name, function


CALLABLES: dict[str, Callable[..., Any]] = FUNCTIONS | {
    f"{name}.{method}": function for name, owner in RETURNED.items() for method, function in methods(owner)
}


def sections(thing: object) -> dict[str, str]:
    return dict(SECTION.findall((inspect.getdoc(thing) or "") + "\n"))


def entries(section: str) -> set[str]:
    """The names that a section explains: those with the least indentation."""
    return set(re.findall(r"^(\w+):", textwrap.dedent(section), re.MULTILINE))


def raises(function: Callable[..., Any]) -> bool:
    """Whether its own lines raise something."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    return any(isinstance(node, ast.Raise) for node in ast.walk(tree))


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_every_callable_says_what_it_takes_gives_and_refuses(name: str) -> None:
    function = CALLABLES[name]
    text, found = inspect.getdoc(function) or "", sections(function)
    line, _, rest = text.partition("\n")
    assert line.endswith((".", "?"))
    assert not rest or rest.startswith("\n")
    signature = inspect.signature(function)
    parameters = set(signature.parameters) - {"self", "cls"}
    told = entries(found.get("Args", ""))
    if "`dphist.plan` takes" in text:
        told |= entries(sections(dp.plan)["Args"])
        parameters |= told & set(sections(dp.plan)["Args"])
    assert parameters <= told
    assert signature.return_annotation in ("None", None) or "Returns" in found
    assert "Raises" in found or not raises(function)
    assert name not in FUNCTIONS or "Raises" in found
    for error in entries(found.get("Raises", "")):
        assert error in dp.__all__
    assert ">>>" in found["Example"]


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_class_has_an_example(name: str) -> None:
    found = sections(CLASSES[name])
    assert ">>>" in found["Example"]
    if "Args" in found:
        assert entries(found["Args"]) == set(inspect.signature(CLASSES[name]).parameters) - {"held"}


def test_a_missing_argument_would_be_found() -> None:
    def wrong(one: int, other: int) -> int:
        """Add.

        Args:
            one: a number.
        """
        return one + other

    assert entries(sections(wrong)["Args"]) == {"one"}
    assert "Returns" not in sections(wrong)


@pytest.fixture(scope="module")
def namespace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Where `dphist demo --data .` was called, and what the examples of methods start from."""
    folder = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        demo.write_tables(".")
        release = dp.release("events.parquet", unit="user_id", by="country", epsilon=1, delta=1e-8, max_groups=1)
        median: Any = {"unit": "person", "column": "age", "lower": 0, "upper": 120, "error": 1, "epsilon": 0.5}
        stream = dp.Continual.start("shown", unit="user", by="item", rounds=7, max_groups=1, epsilon=1, delta=1e-8)
        with dp.Ledger("ledger.db", create=True) as ledger:
            ledger.create(dp.DataSet("visits", 2, 1e-6, "user_id", "gdp"))
            con = dp.connect(tables={"events": "events.parquet"}, unit="user_id")
            budget = "OPTIONS(epsilon = 1, delta = 1e-8)"
            counted = "COUNT(DISTINCT user_id) AS people FROM events GROUP BY country"
            yield {
                "dp": dp,
                "con": con,
                "answer": con.sql(f"SELECT WITH DIFFERENTIAL_PRIVACY {budget} country, {counted}"),
                "release": release,
                "statistic": dp.stat("median", "ages.parquet", **median),
                "running": stream.add("monday.parquet", "monday"),
                "ledger": ledger,
            }


EXAMPLES = {**FUNCTIONS, **CLASSES, "DphistError": dp.DphistError}
FINDER = doctest.DocTestFinder(recurse=False)


def examples() -> Iterator[tuple[str, object]]:
    yield from EXAMPLES.items()
    seen: set[int] = set()
    for name, function in CALLABLES.items():
        if "." in name and id(function) not in seen:  # what several classes inherit runs once
            seen.add(id(function))
            yield name, function


@pytest.mark.parametrize(("name", "thing"), [pytest.param(*one, id=one[0]) for one in examples()])
def test_the_example_runs(name: str, thing: object, namespace: dict[str, Any]) -> None:
    import matplotlib.pyplot as plt

    found = [one for one in FINDER.find(thing, name, globs=dict(namespace)) if one.examples]
    assert found
    lines: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for one in found:
        runner.run(one, out=lines.append, clear_globs=False)
    plt.close("all")
    assert runner.failures == 0, "".join(lines)


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(dp.__file__).parent / "py.typed").exists()
