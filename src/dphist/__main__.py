"""`dphist`, and `python -m dphist`."""

import os

from dphist.cli import main as main_of_commands
from dphist.privacy import special


def main() -> None:
    """The command, as a process of its own."""
    special.hurry()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # it would look through all packages for them
    main_of_commands(last=True)


if __name__ == "__main__":
    main()
