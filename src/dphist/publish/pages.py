"""A report as a page that carries the metadata of its table, sealed with the rest of the page: `dphist verify` reads it.

The numbers in a page are rounded and may be the first of many, so that they are not compared with the plan: the digest of the
page covers them as they are.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

from dphist.publish.digests import FILE, seal
from dphist.report.page import as_json

PAGES: Final = (".html", ".htm")
"""How names of pages end."""

_BEGIN: Final = '<script type="application/json" id="metadata">'
_CLOSE: Final = "</script>"
_END: Final = "</body></html>\n"


def with_metadata(page: str, metadata: dict[str, Any]) -> str:
    """A page with the metadata as its last part, where the digest of all before is."""
    digest = hashlib.sha256(page.encode()).hexdigest()
    record = seal({**metadata, FILE: {"sha256": digest}})
    return f"{page.removesuffix(_END)}{_BEGIN}{as_json(record)}{_CLOSE}{_END}"


def metadata_in(page: bytes) -> bytes | None:
    """What stands where a page has its metadata; None if there is no such place."""
    _, begin, after = page.rpartition(_BEGIN.encode())
    return after.partition(_CLOSE.encode())[0] if begin else None


def is_as_written(path: Path, metadata: dict[str, Any]) -> bool:
    """Whether a page with this metadata has every byte with which it was written."""
    page = path.read_bytes()
    before = page.rpartition(_BEGIN.encode())[0] + _END.encode()
    return with_metadata(before.decode("utf-8", "replace"), metadata).encode() == page
