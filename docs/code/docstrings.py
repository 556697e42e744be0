"""Docstrings as mkdocstrings wants them: examples that run, in a section that is shown as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
_BARE = re.compile(r"\n\n((?:>>>).*?)(?=\n\n|\Z)", re.DOTALL)


class Examples(griffe.Extension):
    """`Example:` becomes the section `Examples:`, and so do examples without a heading."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for everything that is loaded."""
        if obj.docstring is not None:
            text = _EXAMPLE.sub("Examples:", obj.docstring.value)
            obj.docstring.value = _BARE.sub(
                lambda found: "\n\nExamples:\n    " + found[1].replace("\n", "\n    "), text
            )
