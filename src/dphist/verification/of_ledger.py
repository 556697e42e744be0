"""Compare a published file with the entry of a ledger that paid for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dphist.errors import DphistError
from dphist.ledger import Ledger
from dphist.ledger.chain import BUDGET, Entry
from dphist.ledger.chain import verify as verify_chain
from dphist.ledger.dataset import WORDS, DataSet
from dphist.publish.charge import Receipt, Spend
from dphist.verification.check import Check
from dphist.verification.verified import Findings

_NAME = "ledger"


def check_paid_for(
    ledger: str | Path, head: str | None, receipt: Receipt | None, findings: Findings, metadata: dict[str, Any]
) -> list[Check]:
    """Whether the entry is there, unchanged, in a chain that holds, and paid for what the file states."""
    if receipt is None:
        return [Check(_NAME, False, "the file names no entry, so that nothing shows that this ledger paid for it")]
    with Ledger(ledger) as opened:
        if receipt.dataset not in opened.names():
            return [Check(_NAME, False, "it has no such data set as the file names")]
        entries = opened.entries(receipt.dataset)
    held = [
        Check(found.name, found.passed, found.detail)
        for found in verify_chain(entries, head)
        if found.name != BUDGET  # is about the data set, not about this file: dphist ledger verify
    ]
    if not all(check.passed for check in held):
        return held
    entry = next((entry for entry in entries if entry.sequence == receipt.entry), None)
    if entry is None or entry.hash != receipt.hash:
        return [
            *held,
            Check(_NAME, False, f"entry {receipt.entry:,} of {receipt.dataset!r} is another one, or missing"),
        ]
    if findings.spend is None:  # no plan could be read
        return [*held, Check(_NAME, False, "what the file states cannot be compared, since it contradicts itself")]
    differing = list(_differences(entry, DataSet.from_data(entries[0].body), findings.spend(), findings.told, metadata))
    paid = f"entry {entry.sequence:,} of {entry.dataset!r} paid for it"
    return [
        *held,
        Check(_NAME, not differing, f"{paid}, but says otherwise: {', '.join(differing)}" if differing else paid),
    ]


def _differences(entry: Entry, dataset: DataSet, spend: Spend, told: bool, metadata: dict[str, Any]) -> Iterator[str]:
    """The names of facts that the entry and the file tell differently."""
    body = entry.body
    if entry.kind != "reserve" or body.get("command") != spend.command:
        yield "command"
        return
    if dataset.unit != spend.unit:
        yield f"unit ({dataset.unit})"
    if dataset.protects != spend.protects:
        yield f"what is protected ({WORDS[dataset.protects]})"
    for name, value in spend.facts.items():
        if name == "guarantee":
            if told and body.get(name) != metadata.get(name):
                yield name
        elif name == "mechanism":  # of a choice, all of them
            if set(str(body.get(name)).split(" or ")) != set(value.split(" or ")):
                yield name
        elif not _same(body.get(name), value):
            yield name
    try:
        paid, owed = asdict(entry.cost), asdict(spend.cost(dataset.epsilon))
    except (DphistError, KeyError, TypeError):
        yield "cost"
        return
    yield from (f"cost in {name}" for name in owed if not _same(paid[name], owed[name]))


def _same(found: object, expected: object) -> bool:
    if isinstance(found, int | float) and isinstance(expected, int | float):
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-300)
    return found == expected
