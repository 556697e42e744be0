"""Several ranked lists from one budget, each paying only for what it returned."""

from dphist.session.session import Session

__all__ = ["Session"]
