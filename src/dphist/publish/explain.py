"""Why a release is private, step by step, in words: rendered from the job that would run."""

from __future__ import annotations

import textwrap

from dphist.planning.describe import guarantee
from dphist.planning.summary import thresholded
from dphist.publish.release import Job, bounds_of, estimand


def explain(job: Job) -> str:
    """The SQL, the plan and each step's privacy argument."""
    steps = [
        ("Plan", "Chosen from public parameters alone; no record is read for it.", str(job.plan)),
        ("Bound and count", _bounding(job), job.engine.explain(job.query, bounds_of(job.plan))),
        ("Noise", _noise(job), ""),
        ("Threshold", _threshold(job), ""),
        ("Publish", _publishing(job), ""),
    ]
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
    words = (
        f"Each unit keeps a uniformly random choice of at most {most:,} of its groups. The choice depends on the unit's own"
        " records and fresh randomness only, so adding or removing a unit changes nothing for the others: each group's count"
        f" changes by at most one, in at most {most:,} groups."
    )
    if job.plan.aggregates:
        words += (
            " Every unit's value in a group is clamped to public bounds, recentred and rounded to whole steps: sums are exact"
            " integers, and one unit moves each by at most its public sensitivity."
        )
    return words


def _noise(job: Job) -> str:
    words = guarantee(job.plan.request, job.plan.mechanism)
    return (
        "Every remaining count gets noise from a cryptographic generator, drawn on a lattice so that no digit of the result can"
        f" tell the inputs apart. {words[:1].upper() + words[1:]}"
    )


def _threshold(job: Job) -> str:
    mechanism = thresholded(job.plan.mechanism)
    if mechanism is None:
        return "The groups are a public list: there is nothing to hide, and all of them are released."
    return (
        "Which groups exist is itself private. A group is released only if its noisy count is strictly above"
        f" {mechanism.threshold:g}; a group that exists because of one unit passes with probability at most"
        f" {mechanism.delta_infinity():.3g}, which is part of delta."
    )


def _publishing(job: Job) -> str:
    return (
        "Sums, means, standard errors, intervals and the order of rows are computed from noisy values alone, which cannot"
        f" weaken the guarantee. A count estimates {estimand(job.plan)}."
    )
