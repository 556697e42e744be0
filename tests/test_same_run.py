"""Two runs of the tests are one run: examples and noise follow from the names of the tests, with CI set or not."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from dphist.noise.entropy import SystemEntropy


@pytest.mark.skipif("DPHIST_EXPLORE" in os.environ, reason="a run that explores has new examples")
def test_examples_are_the_same_in_every_run() -> None:
    assert settings().derandomize
    assert settings().deadline is None
    assert settings().max_examples == 50


@pytest.mark.skipif("DPHIST_EXPLORE" in os.environ, reason="a run that explores has new noise")
def test_noise_follows_from_the_name_of_the_test() -> None:
    assert SystemEntropy().words(2).tolist() == [16726237829462780899, 15050056877918870955]
