"""Every command: where it is and one line about it. `dphist --help` loads none of them."""

from __future__ import annotations

from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A function or an application in a module of this package, and what it is for."""

    place: str
    words: str


COMMANDS: Final = {
    "Start": {
        "demo": Entry("demo:command", "A private table of made-up data, beside the truth."),
    },
    "Publish": {
        "release": Entry("release:command", "Counts, sums and more per group, safe to publish."),
        "sql": Entry("sql:command", "The same in SQL, as in BigQuery; without a statement a shell."),
        "select": Entry("select:command", "Which groups exist: keys without counts."),
        "top-k": Entry("lists:top_k", "The groups with the most people."),
        "stat": Entry("stat:command", "One number, such as a median, with a promised error."),
        "session": Entry("lists:sessions", "Many ranked lists from one budget."),
        "continual": Entry("lists:streams", "Running counts over a stream of batches."),
    },
    "Prepare": {
        "plan": Entry("plan:command", "Mechanism, noise and threshold for a budget. Touches no data."),
        "profile": Entry("profile:command", "Epsilon and delta of a mechanism that is already chosen."),
        "bounds": Entry("bounds:command", "Private bounds of a column, for sums and means to come."),
        "ledger": Entry("ledger:app", "Budgets, and what was spent of them."),
    },
    "Check": {
        "verify": Entry("release:verify_command", "A published file against its plan, without the data."),
        "audit": Entry("audit:command", "Try to break every guarantee."),
        "explain": Entry("explain:command", "The theorem behind a citation, or what a word means."),
    },
}
"""By part of the help, in their order."""
