"""`dphist explain`."""

from __future__ import annotations

from typing import Annotated

from dphist.cli.options import argument
from dphist.cli.output import say


def command(
    citation: Annotated[
        list[str] | None,
        argument("CITATION", "A citation as plans and files print it, a page, a paper, a mechanism or a word."),
    ] = None,
) -> None:
    """Read the theorem behind a citation, or what a word means. Without one: list what can be read.

    Example: dphist explain adaptive Theorem 1
    """
    from dphist.explanations import explain

    say(explain(" ".join(citation or ())))
