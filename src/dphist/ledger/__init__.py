"""Budgets and spends in a database: charged before noise is drawn, append-only, chained. docs/ledger.md."""

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dphist.ledger.chain import Entry
    from dphist.ledger.dataset import DataSet
    from dphist.ledger.ledger import Ledger
    from dphist.ledger.status import Status

__all__ = ["DataSet", "Entry", "Ledger", "Status"]
_FILES: Final = {"DataSet": "dataset", "Entry": "chain", "Ledger": "ledger", "Status": "status"}


def __getattr__(name: str) -> Any:
    """Loaded when it is first asked for: a charge without a ledger needs no database."""
    if name not in _FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_FILES[name]}"), name)
