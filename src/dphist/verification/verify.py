"""Check a published file against its own plan: what anyone can check without the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dphist.errors import DphistError, InvalidParameter
from dphist.publish.digests import DIGEST, FILE, TABLE, digest_of, table_digest
from dphist.publish.files import sha256
from dphist.verification import claims
from dphist.verification.check import Check, skipped
from dphist.verification.of_lists import check_running, check_top_k
from dphist.verification.of_release import check_release
from dphist.verification.stored import Stored, open_stored
from dphist.verification.verified import Findings, Loaded

NOT_KNOWN: Final = (
    "Not known: whether the table came from the data by this mechanism, whether somebody edited the file and computed"
    " its digests anew, and what else was released about these people."
)

_KINDS: Final[dict[str, Callable[[Loaded], Findings]]] = {
    "dphist-release": check_release,
    "dphist-top-k": check_top_k,
    "dphist-continual-release": check_running,
}


def verify(path: str | Path, *, ledger: str | Path | None = None, head: str | None = None) -> list[Check]:
    """Re-check metadata, plan, guarantee and table of a published file against each other.

    Reads only what was published. A check has passed, failed, or was not made since there was nothing to compare with.

    Args:
        path: a file that `release`, `top-k` or `continual` wrote, or a folder that Spark wrote.
        ledger: compare the file with the entry of this ledger that paid for it.
        head: a hash that was noted earlier and must still be in the ledger's chain.

    Returns:
        What was looked at, each with a name, an outcome and a sentence.

    Raises:
        DphistError: if the file cannot be read or is none of dphist's.
    """
    if head is not None and ledger is None:
        raise InvalidParameter("a ledger with the head", "none", "it is looked for in a chain: --ledger ADDRESS.")
    stored = open_stored(Path(path))
    metadata = stored.metadata
    check = _KINDS.get(str(metadata.get("format")))
    if check is None:
        raise InvalidParameter(
            "a file written by dphist release, top-k or continual", ascii(metadata.get("format"))[:60]
        )
    version = claims.check_version(metadata)
    keys = metadata.get("by")
    table = stored.table(keys if isinstance(keys, list) else ())
    found = [*_check_file(stored), *_check_agreement(stored), *_check_digests(stored, table, version)]
    findings = _findings(check, Loaded(table, metadata, stored.kind == "parquet", stored.is_folder))
    return [*found, *findings.checks, *_check_ledger(ledger, head, metadata, findings)]


def _findings(check: Callable[[Loaded], Findings], loaded: Loaded) -> Findings:
    """The checks of this kind of file. Anyone may have made it, so that whatever they stumble over is a failed check."""
    try:
        with np.errstate(all="ignore"):
            return check(loaded)
    except Exception as problem:  # a hostile file must not end the process that looks at it
        said = str(problem) if isinstance(problem, DphistError) else f"could not be checked ({type(problem).__name__})"
        return Findings([Check("content", False, said)])


def _check_file(stored: Stored) -> Iterator[Check]:
    if stored.is_folder:
        return
    if stored.beside is None:
        yield skipped("file", "no digest to compare with")
        return
    written = stored.beside.get(FILE)
    if not isinstance(written, dict) or set(written) != {"name", "sha256"} or not isinstance(written["name"], str):
        yield Check("file", False, "the metadata beside it does not say which file it belongs to")
        return
    same = written["sha256"] == sha256(stored.path)
    yield Check("file", same, "is the one that was written" if same else "was changed after it was written")


def _check_agreement(stored: Stored) -> Iterator[Check]:
    """Metadata inside a file and beside it say the same, but for the digest of the file."""
    if stored.kind != "parquet" and not stored.is_folder:
        return
    if stored.inside is None:
        yield Check("metadata", False, "is beside the file and no longer inside it")
    elif stored.beside is not None:
        inside, beside = (
            {name: value for name, value in data.items() if name not in (FILE, DIGEST)}
            for data in (stored.inside, stored.beside)
        )
        same = inside == beside and FILE not in stored.inside
        yield Check("metadata", same, "inside the file and beside it are the same" if same else "they differ")
    elif not stored.is_folder:
        yield skipped("metadata", "is inside the file, and none is beside it to compare with")


def _check_digests(stored: Stored, table: pa.Table, version: int) -> Iterator[Check]:
    """Of the metadata over itself, and of the table in it."""
    held = [data for data in (stored.inside, stored.beside) if data is not None]
    if version == 1:
        yield skipped("digest", "metadata of version 1 has none: whoever edited it left no trace")
    else:
        same = all(data.get(DIGEST) == digest_of(data) for data in held)
        yield Check("digest", same, "is that of the metadata" if same else "the metadata was changed")
    if stored.kind != "parquet" and not stored.is_folder:
        return  # the digest of the file is that of the table
    written = stored.metadata.get(TABLE)
    if version == 1:
        yield skipped("table", "metadata of version 1 has no digest of its content")
    elif stored.is_folder and written is None:
        yield skipped("table", "Spark wrote it in parts, without a digest of their content")
    else:
        same = isinstance(written, dict) and written == {"sha256": table_digest(table)}
        yield Check("table", same, "has the content that was written" if same else "its content was changed")


def _check_ledger(
    ledger: str | Path | None, head: str | None, metadata: dict[str, Any], findings: Findings
) -> Iterator[Check]:
    try:
        receipt = claims.receipt_of_file(metadata)
    except DphistError as problem:
        yield Check("ledger", False, str(problem))
        return
    if ledger is not None:
        from dphist.verification.of_ledger import check_paid_for

        yield from check_paid_for(ledger, head, receipt, findings, metadata)
    elif receipt is not None:
        named = f"entry {receipt.entry:,} of {receipt.dataset!a}"
        yield skipped("ledger", f"{named} should have paid for it; --ledger ADDRESS compares")
