"""How many examples a test gets: a few in every run, all cases in `make test-long`, more of properties in `make test-fuzz`."""

import os
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

MORE = 20 if "DPHIST_THOROUGH" in os.environ else 1


def examples(few: int, *quiet: HealthCheck) -> settings:
    """For a property whose examples are expensive."""
    return settings(max_examples=few * MORE, deadline=None, suppress_health_check=quiet)


def some(cases: Sequence[Any], count: int) -> list[Any]:
    """Cases of a parametrized test: so many of them, spread evenly, in every run; the others in `make test-long`.

    A case of several arguments is a tuple or a `pytest.param`.
    """
    last = len(cases) - 1
    kept = {round(place * last / max(count - 1, 1)) for place in range(count)}
    return [case if place in kept else _long(case) for place, case in enumerate(cases)]


def _long(case: Any) -> Any:
    if hasattr(case, "marks"):
        return pytest.param(*case.values, marks=[*case.marks, pytest.mark.long], id=case.id)
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)
