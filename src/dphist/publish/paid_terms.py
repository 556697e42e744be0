"""What a session or a stream was paid for: its terms, hashed into the entry that paid, compared where the ledger is at hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dphist.errors import InvalidParameter
from dphist.publish.charge import Receipt


def terms_hash(terms: Mapping[str, Any]) -> str:
    """SHA-256 over the terms as canonical JSON. They are public."""
    text = json.dumps(terms, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def check_paid(
    ledger: str | Path | None, receipt: Mapping[str, Any] | None, terms: Mapping[str, Any], what: str
) -> None:
    """Refuse `what` (a session, a stream) unless the entry it names is in the ledger and paid for these terms.

    Without a ledger nothing is compared.
    """
    if ledger is None:
        return
    if receipt is None:
        raise InvalidParameter(
            f"a {what} that this ledger paid for",
            "one that names no entry",
            "it was started without a ledger; use it without --ledger and DPHIST_LEDGER.",
        )
    from dphist.ledger import Ledger

    try:
        named = Receipt(**receipt)
    except TypeError:
        raise InvalidParameter(f"a {what} that names its entry", "a damaged name") from None
    with Ledger(ledger) as opened:
        entry = opened.entry(named.dataset, named.entry)
    if entry.hash != named.hash or entry.body.get("terms") != terms_hash(terms):
        raise InvalidParameter(
            f"a {what} as entry {entry.sequence:,} of {entry.dataset!r} paid for",
            "another one",
            "the file was changed, or belongs to another ledger.",
        )
