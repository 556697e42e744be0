"""The page about voting names tests that exist, and numbers that are so."""

import re
from pathlib import Path

from dphist.mechanisms.voting import calibrate

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "voting.md").read_text(encoding="utf-8")


def test_every_hypothesis_has_tests_that_exist() -> None:
    names = set(re.findall(r"`(test_\w+)`", PAGE))
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(names) > 15
    assert not [name for name in sorted(names) if f"def {name}(" not in sources]
    assert len(re.findall(r"^\| V\d \|.*`test_", PAGE, re.MULTILINE)) == 8


def test_the_sizes_are_those_of_the_rule() -> None:
    mechanism = calibrate(1.0, 1e-8)
    assert f"a group with {mechanism.count_released_with(0.5):.0f} votes" in PAGE
    assert f"so M = {mechanism.capacity}" in PAGE
