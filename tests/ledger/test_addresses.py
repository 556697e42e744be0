"""Addresses of ledgers that nobody can use: one error, and no password in it, nor in what it was raised from."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dphist.errors import DphistError, MissingExtra, UnusableLedger
from dphist.ledger import Ledger

SECRET = "hunter2secret"
QUERIES = (
    f"password={SECRET}",
    f"password=a&password={SECRET}",
    f"sslpassword={SECRET}",
    f"passwd={SECRET}",
    f"options=-cx%3D{SECRET}",
)


def _told(address: object) -> str:
    """What a program prints that does not catch the error, its causes and contexts included."""
    with pytest.raises(DphistError) as caught, Ledger(address) as opened:  # type: ignore[arg-type]
        opened.names()
    assert isinstance(caught.value, UnusableLedger | MissingExtra)
    return "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "scheme",
    ["postgresql", "postgres", "postgresql+psycopg", "postgresql+psycopg2", "postgresql+nothing", "mysql+pymysql",
     "oracle", "sqlite",
     "sqlite+nothing", "sqlite+aiosqlite", "duckdb", "https", "jdbc:postgresql", "a+b+c", "+", "", "POSTGRESQL"],
)  # fmt: skip
def test_drivers_that_are_not_there_tell_no_password(scheme: str) -> None:
    told = _told(f"{scheme}://user:{SECRET}@127.0.0.1:1/name")
    assert SECRET not in told


@pytest.mark.parametrize(
    "before", ["", "p%40", "p@", "%", "%zz", "p%25", "é", "'", '"', " ", "\n", "\udcff", ":", "/", "?", "#"]
)
@pytest.mark.parametrize("behind", ["", "@", "%", "/x", "?x", "#x", ":x"])
def test_odd_passwords_are_not_told(before: str, behind: str) -> None:
    assert SECRET not in _told(f"postgresql://user:{before}{SECRET}{behind}@127.0.0.1:1/name")


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("port", ["1", "port", "99999", "-1", ""])
def test_passwords_in_a_query_are_not_told(query: str, port: str) -> None:
    assert SECRET not in _told(
        f"postgresql://user@127.0.0.1:{port or 1}/name?{query}&sslmode={'odd' if not port else 'disable'}"
    )


@given(st.text(st.characters(exclude_characters="/?#"), max_size=20), st.text(max_size=20))
def test_any_address_is_used_or_refused_without_its_password(odd: str, behind: str) -> None:
    assert SECRET not in _told(f"postgresql://{odd}:{SECRET}{odd}@127.0.0.1:1/{behind}")


@pytest.mark.parametrize(
    "address", ["a\0b", "sqlite:///a\0b", "sqlite:///a%00b", "postgresql://u@h/a\0b", Path("a\0b"), "", " ", "\n"]
)
def test_nothing_and_a_nul_are_no_address(address: object) -> None:
    assert "Expected a path or an address of a ledger, got" in _told(address)


@pytest.mark.parametrize(
    "address",
    ["/dev/null", "/dev/zero", "/", ".", "x" * 300, "x/" * 3_000, "\udcff.db", "sqlite://host/x", "sqlite://", "a://"],
)
def test_what_is_no_file_is_no_ledger(address: str) -> None:
    assert "Expected" in _told(address)


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """As a variable of the environment that is not UTF-8 has them."""
    with Ledger(tmp_path / "ledger.db", create=True) as opened, pytest.raises(UnusableLedger, match="names in UTF-8"):
        opened.dataset("events\udcff")
