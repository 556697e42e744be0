"""What all tests share: how hypothesis explores."""

import os

from hypothesis import settings

# No deadlines: a busy machine is not a bug. In CI the examples are the same in every run; elsewhere they are new each time.
settings.register_profile("dphist", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("dphist")

pytest_plugins = ["postgres_server"]
