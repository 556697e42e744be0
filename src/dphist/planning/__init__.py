"""Choose and compare mechanisms for a budget. No data is touched."""

from dphist.planning.plan import Plan, plan
from dphist.planning.plan import plan as plan_for
from dphist.planning.request import Request

__all__ = ["Plan", "Request", "plan", "plan_for"]
