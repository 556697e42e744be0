"""The command line. Parses, calls the library, prints."""

from dphist.cli.app import main

__all__ = ["main"]
