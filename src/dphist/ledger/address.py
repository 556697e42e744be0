"""Where a ledger is: addresses that can be used, and words about them that give nothing away."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy import exc

from dphist.errors import UnusableLedger

CREATE: Final = "dphist ledger create makes one."


def shown(url: sa.URL) -> str:
    """An address in words. Everything else in it, the query included, may hold a password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    host = url.host or url.query.get("host") or "the local server"
    return f"{host if isinstance(host, str) else host[0]}/{url.database or ''}"


def without_secrets(text: str, url: sa.URL) -> str:
    """A message of a driver without the passwords of the address."""
    for secret in (url.password, url.query.get("password"), url.query.get("sslpassword")):
        if isinstance(secret, str) and secret:
            text = text.replace(secret, "***")
    return text


def hint(reason: str) -> str:
    """What to do about an error of a driver."""
    if "unable to open" in reason:
        return f"check the path; {CREATE}"
    if "readonly" in reason or "read-only" in reason or "permission denied" in reason:
        return "nothing was charged: it cannot be written to."
    if "locked" in reason or "timeout" in reason:
        return "another process held it for too long; try again."
    if "not a database" in reason or "malformed" in reason:
        return "the file is something else or damaged; restore a backup."
    return "check the address, the server and the user's rights."


def parse(address: str | Path, *, create: bool) -> sa.URL:
    """A path is a file of SQLite, which is made only on purpose: a wrong path must not begin an empty ledger."""
    text = str(address)
    if not text:
        raise UnusableLedger("a path or an address of a ledger", "nothing")
    if "://" not in text:
        text = f"sqlite:///{text}"
    try:
        url = sa.make_url(text)
    except (exc.ArgumentError, ValueError):
        raise UnusableLedger("a path, sqlite:// or postgresql:// address", "something else") from None
    if url.get_backend_name() in ("postgresql", "postgres"):
        if "@" in (url.host or ""):  # it is a part of the password
            raise UnusableLedger(
                "an address with one @",
                "more of them",
                "write %40 for one in a password, or keep it in a file (.pgpass).",
            )
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() != "sqlite":
        raise UnusableLedger("a path, sqlite:// or postgresql:// address", url.get_backend_name() + "://")
    if not url.database or url.database == ":memory:":
        raise UnusableLedger("a file", "memory", "a ledger must outlive the process.")
    if url.query or url.database.startswith("file:"):
        raise UnusableLedger(
            "a plain path to the ledger", "options of SQLite or a file: address", "some of them turn locks off."
        )
    path = Path(url.database).resolve()
    if create and not path.parent.is_dir():
        raise UnusableLedger("an existing folder for the ledger", str(path.parent), "create it first.")
    if not create and not path.exists():
        raise UnusableLedger(f"a ledger at {path}", "no file", f"check the path; {CREATE}")
    return url.set(database=str(path))
