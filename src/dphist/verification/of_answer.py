"""Check a file of `dphist sql`: the claims of every private table that it is computed from, and what it says of itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from dphist.checks import Check
from dphist.publish.record import AnswerRecord
from dphist.verification import claims
from dphist.verification.claims import Findings, skipped
from dphist.verification.of_release import check_claims
from dphist.verification.stored import Stored

_TABLE: Final = re.compile(r'FROM "(private_[0-9]+_*)"')
_TEXT: Final = re.compile(r"'(?:[^']|'')*'")


def check_answer(stored: Stored, table: pa.Table) -> Findings:
    """The guarantees of its private tables, computed anew. Its own rows follow from tables that are not in the file."""
    metadata = stored.metadata
    try:
        record = AnswerRecord.read(metadata)
        parts = [check_claims(*one).findings() for one in zip(record.releases, metadata["releases"], strict=True)]
        if table.num_columns:
            record = record.model_copy(update={"columns": tuple(table.column_names)})
        expected = {**record.to_data(), "releases": metadata["releases"]}
    except claims.UNREADABLE as problem:
        return claims.unreadable(problem, "the metadata lacks what it should say")
    checks = [*_named(parts), *claims.compare(metadata, expected), _check_tables(record.outer, len(parts))]
    checks.append(skipped("rows", "are computed from private tables that are not in this file"))
    return Findings(checks, paid=list(zip(metadata["releases"], parts, strict=True)))


def _check_tables(outer: str, releases: int) -> Check:
    """Whether the outer query reads as many private tables as are described: none is left out, none is added."""
    read = len(set(_TABLE.findall(_TEXT.sub("''", outer))))
    words = f"the outer query reads {read}, and {releases} are described" if read != releases else "all are described"
    return Check("tables", read == releases, words)


def _named(parts: list[Findings]) -> Iterator[Check]:
    """The checks of each private table, with its number where there are several."""
    for number, part in enumerate(parts, 1):
        for check in part.checks:
            name = check.name if len(parts) == 1 else f"{check.name} {number}"
            yield Check(name, check.passed, check.detail)
