"""Figures in the docs come from committed scripts; pages name the script and the commit it was run at."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from pages import PAGES, ROOT

sys.path.append(str(ROOT / "benchmarks"))
from thresholds import lowered_thresholds

SCRIPT = re.compile(r"`(?:python )?((?:benchmarks|tests/walkthrough)/\w+\.py)[^`]*`")
COMMIT = re.compile(r"commit `[0-9a-f]{7,}`")
TOLD = ("results", "spark", "noise", "ledger", "unknown-domain")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if SCRIPT.search(page.read_text(encoding="utf-8"))], ids=lambda page: page.stem
)
def test_a_table_that_a_script_printed_names_its_commit(page: Path) -> None:
    """Scripts exist; where a paragraph that names one is followed by a table, or tells results, the commit is there."""
    paragraphs = page.read_text(encoding="utf-8").split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        in_prose = "\n".join(line for line in paragraph.splitlines() if not line.startswith("|"))
        for script in SCRIPT.findall(in_prose):
            assert (ROOT / script).is_file()
            before_table = "\n".join(paragraphs[number : number + 2]).count("\n|") > 2
            if before_table or page.stem in TOLD:
                assert COMMIT.search(paragraph), f"{page}: at which commit did {script} print this?"


def test_the_gain_of_lemma_2b_is_that_of_the_plans() -> None:
    page = (ROOT / "docs" / "adaptive.md").read_text(encoding="utf-8")
    for row in lowered_thresholds():
        assert f"| {' | '.join(row)} |" in page
