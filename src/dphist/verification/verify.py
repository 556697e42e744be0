"""Checks a published file against its own plan and the ledger that paid for it. Nobody needs the data for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from dphist.checks import Check
from dphist.columns import unit_in_words
from dphist.errors import DphistError, InvalidParameter
from dphist.files.digests import DIGEST, FILE, TABLE, VERSION, digest_of, table_digest
from dphist.files.formats import sha256, sidecar
from dphist.files.stored import check_version
from dphist.planning.spends import Spend
from dphist.run.record import Charged
from dphist.show.page import is_as_written
from dphist.verification.claims import (
    Findings,
    check_answer,
    check_release,
    check_running,
    check_top_k,
    excerpt,
    same,
)
from dphist.verification.state import ANOTHER, EDITED, INTACT, PAID, UNPAID, UNSEALED, Checks, State, check_head, worst
from dphist.verification.stored import Stored, open_stored, strange_in
from dphist.verification.tables import skipped
from dphist.words import canonical

if TYPE_CHECKING:
    from dphist.ledger import DataSet, Entry

_TINY: Final = 1e-300
"""Smaller numbers lose digits, so two versions of a numerical library may differ by more than the last digits."""

KINDS: Final[dict[str, Callable[[Stored, pa.Table], Findings]]] = {
    "dphist-answer": check_answer,
    "dphist-release": check_release,
    "dphist-top-k": check_top_k,
    "dphist-continual-release": check_running,
}


_Payment = tuple[list[Check], State]
"""The checks of a ledger, and the state that follows."""


def verify(path: str | Path, *, ledger: str | Path | None = None, head: str | None = None) -> Checks:
    """Check metadata, plan, guarantee and table of a published file against each other, without the data.

    Reads only what was published. A check has passed, failed, or was not made since there was nothing to compare with.
    The file is read in this process: for files of strangers use the command `dphist verify`, which reads each in a process
    of its own with limits on time and memory, since a damaged Parquet file can end its reader.

    Args:
        path: a file or an HTML report that `release`, `select`, `sql`, `top-k` or `continual` wrote, or a folder of Spark.
        ledger: compare the file with the entry of this ledger that paid for it.
        head: a hash that was noted earlier and must still be in the ledger's chain.

    Returns:
        What was looked at, each with a name, an outcome and a sentence; `state` says what follows for the file.

    Raises:
        DphistError: the file cannot be read, or is none of dphist's.

    Example:
        >>> release.write("checked.parquet")
        >>> [check.state for check in dp.verify("checked.parquet") if check.name == "guarantee"]
        ['passed']
        >>> dp.verify("checked.parquet").state
        'intact'
    """
    check_head(ledger, head)
    stored = open_stored(Path(path))
    metadata = stored.metadata
    kind, version, keys = (metadata.get(name) for name in ("format", "version", "by"))
    if str(kind) not in KINDS:
        raise InvalidParameter("a file written by dphist release, sql, top-k or continual", ascii(kind)[:60])
    check_version(version, VERSION, "metadata", "verify it with that one, or publish it anew")
    table = stored.table(keys if isinstance(keys, list) else ())
    findings = _check_content(KINDS[str(kind)], stored, table)
    content = [
        _check_file(stored),
        *_check_agreement(stored),
        *_check_digests(stored, table),
        *findings.checks,
    ]
    paid = findings.paid or [(metadata, findings)]
    entries = [canonical(told["ledger"]) for told, _ in paid if told.get("ledger")]
    if len(set(entries)) < len(entries):
        content.append(Check("entries", False, "two tables of it name one entry, which paid once"))
    payments = [_payment(ledger, head, told, found) for told, found in paid]
    states = [state for _, state in payments]
    if any(check.failed for check in content):
        states.append(EDITED)
    elif stored.is_folder or not (stored.is_page or stored.beside is not None):
        # Only a page and metadata beside a file have a digest of all bytes. The table's digest does not cover statistics and
        # names, by which other readers may show another table.
        states.append(UNSEALED)
    # A stream publishes a table after every round under one entry, and an answer's private tables may lie beside it.
    paid_for = canonical([kind, metadata.get("round")])
    named = {f"{entry} {paid_for} {name}": told for entry in entries for name, told in _contents(table).items()}
    return Checks([*content, *(check for checks, _ in payments for check in checks)], worst(states), named)


def _contents(table: pa.Table) -> dict[str, str]:
    """The digest of every column of numbers, which is the same in all formats; a page has none."""
    numbers = [one for one in table.schema if pa.types.is_integer(one.type) or pa.types.is_floating(one.type)]
    columns = {one.name: table[one.name].cast(pa.float64(), safe=False) for one in numbers}
    return {name: table_digest(pa.table({name: column})) for name, column in columns.items()}


def _check_content(check: Callable[[Stored, pa.Table], Findings], stored: Stored, table: pa.Table) -> Findings:
    """The findings of the checks for this command's files. Anyone may have made the file, so any error is a failed check."""
    try:
        with np.errstate(all="ignore"):
            return check(stored, table)
    except Exception as problem:  # a hostile file must not end the process that looks at it
        words = str(problem) if isinstance(problem, DphistError) else f"could not be checked ({type(problem).__name__})"
        return Findings([Check("content", False, words)])


def _check_file(stored: Stored) -> Check:
    if stored.is_folder:
        strange = strange_in(stored.path)
        words = (
            f"the folder has {excerpt(strange[0])}, which is no part of the table" if strange else "only parts of it"
        )
        return Check("file", not strange, words)
    if stored.is_page:
        unchanged = is_as_written(stored.path, stored.metadata)
    elif stored.beside is None:
        return skipped("file", f"no digest of its bytes: {sidecar(stored.path).name} has it, and is not there")
    else:
        written = stored.beside.get(FILE)
        if not isinstance(written, dict) or set(written) != {"name", "sha256"} or not isinstance(written["name"], str):
            return Check("file", False, "the metadata beside it does not say which file it belongs to")
        unchanged = written["sha256"] == sha256(stored.path)
    return Check("file", unchanged, f"{'is the one that was' if unchanged else 'was changed after it was'} written")


def _check_agreement(stored: Stored) -> Iterator[Check]:
    """Whether metadata inside a file and beside it are equal, but for the digest of the file."""
    if not (stored.is_typed or stored.is_folder):
        return
    if stored.inside is None:
        yield Check("metadata", False, "is beside the file and no longer inside it")
    elif stored.beside is not None:
        inside, beside = (
            {name: value for name, value in data.items() if name not in (FILE, DIGEST)}
            for data in (stored.inside, stored.beside)
        )
        agree = inside == beside and FILE not in stored.inside
        yield Check("metadata", agree, "inside the file and beside it are the same" if agree else "they differ")
    elif not stored.is_folder:
        yield skipped("metadata", "is inside the file, and none is beside it to compare with")


def _check_digests(stored: Stored, table: pa.Table) -> Iterator[Check]:
    """Check the digest of the metadata, and that of the table in the metadata."""
    held = all(data.get(DIGEST) == digest_of(data) for data in (stored.inside, stored.beside) if data is not None)
    yield Check("digest", held, "is that of the metadata" if held else "the metadata was changed")
    if not (stored.is_typed or stored.is_folder):
        return  # the digest of the file is that of the table
    written = stored.metadata.get(TABLE)
    if stored.is_folder and written is None:
        yield skipped("table", "Spark wrote it in parts, without a digest of their content")
    else:
        held = isinstance(written, dict) and written == {"sha256": table_digest(table)}
        yield Check("table", held, "has the content that was written" if held else "its content was changed")


def _payment(ledger: str | Path | None, head: str | None, metadata: dict[str, Any], findings: Findings) -> _Payment:
    """Check that the ledger has the entry unchanged, that its chain holds, and that the entry paid for the file's claims."""
    try:
        receipt = Charged.read(metadata).ledger
    except DphistError as problem:
        return [Check("ledger", False, str(problem))], EDITED
    if ledger is None:
        if receipt is None:
            return [], INTACT
        entry_name = f"entry {receipt.entry:,} of {receipt.dataset!a}"
        return [skipped("ledger", f"{entry_name} should have paid for it; --ledger ADDRESS compares")], INTACT
    if receipt is None:
        words = "the file names no entry, so that nothing shows that this ledger paid for it"
        return [Check("ledger", False, words)], UNPAID
    from dphist.ledger import DataSet, Ledger
    from dphist.ledger.chain import BUDGET
    from dphist.ledger.chain import verify as verify_chain

    with Ledger(ledger) as opened:
        if receipt.dataset not in opened.names():
            return [Check("ledger", False, f"it has no data set {receipt.dataset!a}, which the file names")], ANOTHER
        entries = opened.entries(receipt.dataset)
    # The budget is about the data set, not about this file: dphist ledger verify.
    chain = [check for check in verify_chain(entries, head) if check.name != BUDGET]
    if not all(check.passed for check in chain):
        return chain, UNPAID
    entry = next((entry for entry in entries if entry.sequence == receipt.entry), None)
    if entry is None or entry.hash != receipt.hash:
        words = f"entry {receipt.entry:,} of {receipt.dataset!a} is another one, or missing"
        return [*chain, Check("ledger", False, words)], ANOTHER
    if findings.spend is None:  # no plan could be read
        words = "what the file states cannot be compared, since it contradicts itself"
        return [*chain, Check("ledger", False, words)], EDITED
    dataset = DataSet.from_data(entries[0].body)
    spend = findings.spend()
    if "guarantee" in spend.facts:
        worded = (metadata if findings.same_words else entry.body).get("guarantee")
        spend = replace(spend, facts={**spend.facts, "guarantee": worded})
    differing = ", ".join(_differences(entry, dataset, spend))
    paid = f"entry {entry.sequence:,} of {entry.dataset!a} paid for it"
    said = Check("ledger", not differing, f"{paid}, but says otherwise: {differing}" if differing else paid)
    return [*chain, said], EDITED if differing else PAID


def _differences(entry: Entry, dataset: DataSet, spend: Spend) -> Iterator[str]:
    """The names of facts that differ between the entry and the file."""
    from dphist.ledger.dataset import WORDS

    body = entry.body
    if entry.kind != "reserve" or body.get("command") != spend.command:
        yield "command"
        return
    if dataset.unit != spend.unit:
        yield f"unit ({unit_in_words(dataset.unit)})"
    if dataset.protects != spend.protects:
        yield f"what is protected ({WORDS[dataset.protects]})"
    for name, value in spend.facts.items():
        if name == "mechanism":  # a choice names all its mechanisms, in any order
            agree = set(str(body.get(name)).split(" or ")) == set(value.split(" or "))
        else:
            agree = same(body.get(name), value, _TINY)
        if not agree:
            yield name
    try:
        paid, owed = asdict(entry.cost), asdict(dataset.price(spend.event))
    except (DphistError, KeyError, TypeError):
        yield "cost"
        return
    yield from (f"cost in {name}" for name in owed if not same(paid[name], owed[name], _TINY))
