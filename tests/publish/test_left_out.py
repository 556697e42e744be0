"""Counts that leave units out say so in one sentence, the same everywhere; and a chance has one size in all of a report."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dphist as dp
from command_line import dphist
from dphist.planning.describe import in_some_groups
from dphist.run.release import Published
from dphist.run.strategies import strategy_of
from dphist.words import enough

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}
VISITS = pa.table({"user": [i // 2 for i in range(1200)], "item": [f"i{i % 3}" for i in range(1200)]})
STATEMENT = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 2)"
    " item, COUNT(DISTINCT user) AS people FROM visits GROUP BY item"
)


def everywhere(published: Published) -> dict[str, str]:
    """What each kind of reader sees, in one line each."""
    import matplotlib.pyplot as plt

    title = published.plot().get_title(loc="left")
    plt.close("all")
    shown = {
        "notebook": html.unescape(published._repr_html_()),
        "plot": title,
        "report": html.unescape(re.sub(r"<[^>]+>", " ", published.html())),
        "text": published.summary(),
        "Markdown": published.summary(markdown=True).replace("\\", ""),
    }
    return {name: " ".join(text.split()) for name, text in shown.items()}


def of_a_stream(folder: Path) -> Published:
    stream = dp.Continual.start(folder / "stream", unit="user", by="item", rounds=7, max_groups=2, **BUDGET)
    return stream.add(VISITS, "monday")


@pytest.mark.parametrize(
    "options",
    [
        {"max_groups": 1},
        {"max_groups": 2, "sums": {"user": (0, 9)}},
        {"sketch": 9},
        {"sparsity": 9},
        {"keys": ["i0", "i1"], "max_groups": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("level", [None, 0.9])
def test_a_release_says_it_everywhere(options: dict[str, Any], level: float | None) -> None:
    release = dp.release(VISITS, unit="user", by="item", intervals=level, **BUDGET, **options)
    assert release.left_out()
    places = everywhere(release)
    for name, text in places.items():
        assert release.left_out() in text, name
    assert release.left_out() in release.metadata()["summary"]  # which the terminal prints
    if level is not None:
        told = (
            "Each interval covers what would stand there without noise with 90 % probability. Whom a count leaves out"
        )
        assert all(told in places[name] for name in ("report", "text", "Markdown"))


@pytest.mark.parametrize(
    "options",
    [{"mechanism": "adaptive"}, {"mechanism": "voting"}, {"keys": ["i0", "i1"]}, {"keys": ["i0"], "max_groups": 1}],
    ids=str,
)
def test_counts_of_all_units_say_nothing_of_it(options: dict[str, Any]) -> None:
    release = dp.release(VISITS, unit="user", by="item", intervals=0.9, **BUDGET, **options)
    assert release.left_out() == ""
    for name, text in everywhere(release).items():
        assert "missing from some" not in text, name
        assert "leaves out" not in text, name


def test_lists_streams_and_answers_say_it_everywhere(tmp_path: Path) -> None:
    answer = dp.connect({"visits": VISITS}, unit="user").sql(STATEMENT)
    largest = dp.top_k(VISITS, unit="user", by="item", k=2, method="from-top", max_groups=2, **BUDGET)
    for published in (answer, largest, of_a_stream(tmp_path)):
        assert in_some_groups(2) in published.left_out()
        if isinstance(published, dp.Answer):  # whose columns have any names
            shown = published.summary()
            assert published.left_out() in " ".join(shown.split())
            assert published.left_out() in published._repr_html_()
            continue
        for name, text in everywhere(published).items():
            assert published.left_out() in text, name
    assert dp.top_k(VISITS, unit="user", by="item", k=2, **BUDGET).left_out() == ""
    assert dp.top_k(VISITS, unit="user", by="item", k=2, method="ranked", **BUDGET).left_out() == ""


def test_commands_say_it(tmp_path: Path) -> None:
    pq.write_table(VISITS, tmp_path / "visits.parquet")
    common = ["--epsilon", "1", "--delta", "1e-6"]
    by = [str(tmp_path / "visits.parquet"), "--unit", "user", "--by", "item"]
    for words in (
        ["release", *by, "--max-groups", "2", *common, "-o", str(tmp_path / "out.parquet")],
        ["top-k", *by, "--k", "2", "--method", "from-top", "--max-groups", "2", *common],
        ["sql", STATEMENT, "--table", str(tmp_path / "visits.parquet"), "--unit", "user"],
    ):
        done = dphist(*words)
        assert done.returncode == 0, done.stderr
        assert f"A count is of {in_some_groups(2)}." in " ".join(done.stdout.split()), words[0]


@pytest.mark.parametrize(
    "options",
    [{"max_groups": 1}, {"max_groups": 7, "mechanism": "laplace"}, {"mechanism": "adaptive"}, {"mechanism": "voting"}],
    ids=str,
)
def test_a_report_says_one_size_for_each_chance(options: dict[str, Any]) -> None:
    """Whole units, since nobody is a part of one: as many in sentences, pictures and the appendix."""
    release = dp.release(VISITS, unit="user", by="item", **BUDGET, **options)
    page = everywhere(release)["report"]
    for chance, words in ((0.5, "50 %"), (0.95, "95 %")):
        size = enough(release.plan.mechanism.count_released_with(chance))
        told = re.findall(rf"(?<![\w.]){words} (?:probability )?(?:at|if it has) ([\d.,]+\d)", page)
        told += re.findall(rf"one of ([\d.,]+\d)(?: units(?: that are in no other)? is shown)? with {words}", page)
        assert len(told) >= (2 if options.get("mechanism") == "adaptive" else 3), (words, told)
        assert set(told) == {size}, words


def test_all_plans_either_count_all_units_or_say_whom_they_leave_out() -> None:
    options: dict[str, Any]
    for options in ({}, {"keys": 3}, {"keys": 3, "max_groups": 3}, {"keys_only": True}, {"keys": 1}):
        assert strategy_of(dp.plan(**BUDGET, **options)).left_out == ""
    assert "sketch" in strategy_of(dp.plan(sketch=9, **BUDGET)).left_out
