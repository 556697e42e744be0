"""Figures in the docs come from committed scripts; pages name the script and the commit it was run at."""

from __future__ import annotations

import math
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from dphist.privacy.gaussian import delta_gaussian
from pages import PAGES, ROOT

sys.path.append(str(ROOT / "benchmarks"))
from thresholds import lost_groups, lowered_thresholds

SCRIPT = re.compile(r"`(?:python )?((?:benchmarks|tests/walkthrough)/\w+\.py)[^`]*`")
COMMIT = re.compile(r"commits? `[0-9a-f]{7,}`")
NUMBER = re.compile(r"[*~<>≥≤±+−-]*\s*\d[\d,. ×^·/±()%smkMGB-]*\**")
COMPARED = {
    "adaptive.md": "Why bars",  # below
    "choose/epsilon.md": "Epsilon",  # a formula
    "noise.md": "Why a discrete Gaussian must not be used with continuous formulas",  # below
    "results.md": "The numbers of section 6|Figure 3b: 10 groups|The numbers in the text",  # tests/papers/test_papers.py
}
"""Sections whose tables a test compares with the code."""
TOLD = ("results", "spark", "noise", "ledger", "unknown-domain", "read")


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
    """And that of bars."""
    page = (ROOT / "docs" / "adaptive.md").read_text(encoding="utf-8")
    for row in (*lowered_thresholds(), *lost_groups()):
        assert f"| {' | '.join(row)} |" in page


def test_every_table_of_figures_names_its_commit_or_is_compared() -> None:
    """A section with two rows of two numbers says at which commit they were printed."""
    silent = set()
    for page in PAGES:
        name = str(page.relative_to(ROOT)).removeprefix("docs/")
        for section in re.split(r"(?m)^(?=#{1,2} )", page.read_text(encoding="utf-8")):
            for part in re.split(r"(?m)^(?=#{3} )", section):
                rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("|")]
                figures = [row for row in rows if sum(bool(NUMBER.fullmatch(cell.strip())) for cell in row) > 1]
                title = part.splitlines()[0].strip("# ") if part.strip() else ""
                known = COMMIT.search(section) or title in COMPARED.get(name, "").split("|")
                if len(figures) > 1 and not known:
                    silent.add((name, title))
    assert silent == set()


def test_the_table_of_discrete_noise_is_what_its_law_says() -> None:
    page = (ROOT / "docs" / "noise.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.e-]+) \| ([\d.e-]+) \| ([\d.]+) \|$", page, re.MULTILINE)
    assert len(rows) == 4
    for std, epsilon, continuous, true, ratio in rows:
        near, wanted = float(std), float(epsilon)
        weights = [math.exp(-(x**2) / (2 * near**2)) for x in range(-400, 401)]
        whole = sum(weights)
        discrete = sum(max(0.0, one - math.exp(wanted) * other) for one, other in pairwise(weights)) / whole
        plain = float(delta_gaussian(1 / near, wanted))
        for shown, value in ((continuous, plain), (true, discrete), (ratio, discrete / plain)):
            digits = len(shown.partition("e")[0].replace(".", "").lstrip("0"))
            assert float(f"{value:.{digits}g}") == float(shown)
