"""How many examples a property gets: a few in every run, twenty times as many in `make test-fuzz`."""

import os

from hypothesis import HealthCheck, settings

MORE = 20 if "DPHIST_THOROUGH" in os.environ else 1


def examples(few: int, *quiet: HealthCheck) -> settings:
    """For a property whose examples are expensive."""
    return settings(max_examples=few * MORE, deadline=None, suppress_health_check=quiet)
