"""The pages with proofs name tests that exist, and numbers that are so."""

import re
from pathlib import Path

import pytest

from dphist.mechanisms.voting import calibrate

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "voting.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("page", "letter", "hypotheses"), [("voting", "V", 9), ("adaptive", "H", 7), ("counting", "C", 6)]
)
def test_every_hypothesis_has_tests_that_exist(page: str, letter: str, hypotheses: int) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(test_\w+)`", text))
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(names) > 12
    assert not [name for name in sorted(names) if f"def {name}(" not in sources]
    assert len(re.findall(rf"^\| {letter}\d \|.*`test_", text, re.MULTILINE)) == hypotheses


def test_the_sizes_are_those_of_the_rule() -> None:
    mechanism = calibrate(1.0, 1e-8)
    assert f"a group with {mechanism.count_released_with(0.5):.0f} votes" in PAGE
    assert f"so M = {mechanism.capacity}" in PAGE
