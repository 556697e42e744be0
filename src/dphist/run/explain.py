"""Why a release is private, step by step, in words: rendered from the job that would run."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from dphist.planning.counted import estimand
from dphist.planning.describe import guarantee
from dphist.run.job import Job, bounds_of

Step = tuple[str, str, str]


def explain(job: Job, shown: Callable[[str], str] = str) -> str:
    """The SQL, the plan and each step's privacy argument. shown: the SQL as readers may see it."""
    steps = explain_rounds(job) if job.plan.request.unbounded else _explain_one_pass(job)
    return render([(name, words, shown(block)) for name, words, block in steps])


def _explain_one_pass(job: Job) -> list[Step]:
    return [
        ("Plan", _CHOSEN, job.plan.describe(job.selection.unit)),
        ("Bound and count", _bounding(job), _sql(job)),
        ("Noise", _noise(job), ""),
        ("Threshold", _threshold(job), ""),
        *_totals(job),
        ("Publish", _publishing(job), ""),
    ]


def _sql(job: Job) -> str:
    """What the engine executes. Reads the schema of the source and no record."""
    with job.engine.open(job.source, job.query, seed=0) as records:
        return records.explain_pairs() if job.plan.request.unbounded else records.explain(bounds_of(job.plan))


def render(steps: list[Step]) -> str:
    """Steps as numbered paragraphs."""
    parts = []
    for number, (name, words, block) in enumerate(steps, 1):
        parts.append(f"{number}. {name}\n{textwrap.fill(words, 100, initial_indent='   ', subsequent_indent='   ')}")
        if block:
            parts.append(textwrap.indent(block, "     "))
    return "\n\n".join(parts) + "\n"


def _bounding(job: Job) -> str:
    most = job.plan.request.groups_per_unit
    if job.plan.request.sketch is not None:
        return (
            f"Units are put into blocks by a hash of the unit, so that one more unit moves no other. Each block is counted and"
            f" merged into {job.plan.request.sketch:,} counters by subtracting the next largest count; one unit moves all"
            " counters by at most one, all in the same direction."
        )
    if job.plan.request.keys == 1:
        words = "Each unit is counted once. What it adds depends on its own records only: adding or removing it adds one, or"
        words += " takes one away."
        return words + (_CLAMPED if job.plan.measures else "")
    words = (
        f"Each unit keeps a uniformly random choice of at most {most:,} of its groups. The choice depends on the unit's own"
        " records and fresh randomness only, so adding or removing a unit changes nothing for the others: each group's count"
        f" changes by at most one, in at most {most:,} groups."
    )
    return words + (_CLAMPED if job.plan.measures else "")


def _noise(job: Job) -> str:
    words = guarantee(job.plan.request, job.plan.mechanism, job.selection.unit)
    return (
        "Every remaining count gets noise from a cryptographic generator, drawn on a lattice so that no digit of the result can"
        f" tell the inputs apart. {words[:1].upper() + words[1:]}"
    )


def _threshold(job: Job) -> str:
    mechanism = job.plan.mechanism
    if mechanism.threshold is None:
        return "Which groups there are is public: there is nothing to hide, and all of them are released."
    return (
        "Which groups exist is itself private. A group is released only if its noisy count is strictly above"
        f" {mechanism.threshold:g}; a group that exists because of one unit passes with probability at most"
        f" {mechanism.delta_infinity():.3g}, which is part of delta."
    )


def _totals(job: Job) -> list[Step]:
    """The step in which units are counted by themselves; none if the plan has no total."""
    request = job.plan.request
    if request.total_scale is None:
        return []
    noise = f"discrete Laplace noise of epsilon = {1 / request.total_scale:g}"
    words = f"The number of units gets {noise}: one unit changes it by one."
    if request.other:
        words = (
            "When the released keys are known, and public, each unit is either in some of these groups or in none, by all of"
            f" its own records. Both numbers get {noise}: one unit changes one of them, by one. Their sum is the total."
        )
    return [("Totals", words, "")]


def _publishing(job: Job) -> str:
    if job.plan.request.keys_only:
        return "The selected keys are published in their own order, and nothing else."
    words = (
        "Sums, means, standard errors, intervals and the order of rows are computed from noisy values alone, which cannot"
        f" weaken the guarantee. A count estimates {estimand(job.plan)}."
    )
    if job.plan.mechanism.hides_small_counts:
        words += " It is estimated given that the group was released; the plain noisy count stands beside it."
    return words


def explain_rounds(job: Job) -> list[Step]:
    """The rounds of the adaptive release, and the choice before them."""
    steps: list[Step] = [("Plan", _CHOSEN, job.plan.describe(job.selection.unit))]
    steps.append(("Pairs", _PAIRS, _sql(job)))
    request = job.plan.request
    if request.undecided:
        steps.append(("Choice", _CHOICE.format(epsilon=request.choice_epsilon, left=request.mechanism_epsilon), ""))
    for mechanism in (job.plan.mechanism, *job.plan.alternatives):
        if mechanism.in_rounds:
            steps += [(name, words, "") for name, words in mechanism.steps()]
            words = guarantee(request, mechanism, job.selection.unit)
            steps.append(("Together", f"All of it is one proof: {words}", ""))
    return [*steps, *_totals(job), ("Publish", _publishing(job), "")]


_CHOSEN = "Chosen from public parameters alone; no record is read for it."
_CLAMPED = (
    " Every unit's value in a group is clamped to public bounds, recentred and rounded to whole steps: sums are exact"
    " integers, and one unit moves each by at most its public sensitivity."
)
_PAIRS = (
    "The different pairs of unit and group are written down once, in a private temporary table. Each unit draws one random"
    " sample of its groups, by a keyed hash of the unit and the group: adding or removing a unit changes no other sample."
)
_CHOICE = (
    "How many units are in how many groups is counted in public buckets, each unit in one, with discrete Laplace noise of"
    " epsilon = {epsilon:g}. The mechanism that this histogram predicts to release most groups runs with the remaining"
    " epsilon = {left:g} and all of delta: a pure epsilon adds up with any other guarantee."
)
