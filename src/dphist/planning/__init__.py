"""Choose and compare mechanisms for a budget. No data is touched."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dphist.planning.plan import Plan
    from dphist.planning.plan import plan as plan_for
    from dphist.planning.request import Request

__all__ = ["Plan", "Request", "plan_for"]


def __getattr__(name: str) -> Any:
    """Loaded when it is first asked for: the command line reads `options`, which needs no numbers."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dphist.planning.plan import Plan, plan
    from dphist.planning.request import Request

    globals().update(Plan=Plan, Request=Request, plan_for=plan)
    return globals()[name]
