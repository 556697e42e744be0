"""The words that options choose between, for help and completion: nothing is imported to know them.

Some are checked in rooms that take long to load, and are listed there once more; a test compares the two.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

Objective = Literal["release95", "gap", "noise"]
OBJECTIVES: Final[tuple[Objective, ...]] = get_args(Objective)
Noise = Literal["rounded", "discrete"]
NOISES: Final[tuple[Noise, ...]] = get_args(Noise)
Strategy = Literal["one pass", "list", "sketch", "rounds", "election"]
"""The road from records to a release."""
Emphasis = Literal["groups", "balanced", "counts"]
NullKeys = Literal["group", "drop"]
Order = Literal["count", "key"]
ReadAs = Literal["number", "text"]

MECHANISMS: Final = ("best", "adaptive", "voting", "sparse-gaussian", "correlated-gaussian", "laplace")
OF_SELECTIONS: Final = ("best", "adaptive", "voting")
"""The mechanisms that publish keys alone."""
WITHOUT_THRESHOLD: Final = "gaussian"
PROFILED: Final = ("sparse-gaussian", "correlated-gaussian", "laplace", WITHOUT_THRESHOLD)
"""The mechanisms of `dphist profile`."""
ANALYSES: Final = ("exact", "f-dp", "add-the-deltas", "tight", "paper-3.5", "paper-3.3")
METHODS: Final = ("correlated", "from-top", "ranked")
STATISTICS: Final = (
    "max", "min", "range", "median", "quantile", "mean", "std", "support", "mode", "max-k", "is-empty",
)  # fmt: skip
BOUNDS: Final = ("sum", "mean", "rows", "record", "distinct")
"""What `dphist bounds` finds bounds of."""
ACCOUNTANTS: Final = ("basic", "gdp", "zcdp")
PROTECTS: Final = ("unit", "event")
ENCODINGS: Final = ("utf-8", "latin-1", "windows-1252", "utf-16")
"""How the letters of a CSV file may be written."""
