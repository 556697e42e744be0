"""`dphist`, and `python -m dphist`."""

from dphist.cli import main as main_of_commands


def main() -> None:
    """The command, as a process of its own."""
    main_of_commands(last=True)


if __name__ == "__main__":
    main()
