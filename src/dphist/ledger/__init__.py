"""Budgets and spends in a database: charged before noise is drawn, append-only, chained. docs/ledger.md."""

from dphist.ledger.chain import Entry
from dphist.ledger.dataset import DataSet
from dphist.ledger.ledger import Ledger
from dphist.ledger.status import Status

__all__ = ["DataSet", "Entry", "Ledger", "Status"]
