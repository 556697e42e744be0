"""What is stated about the counts after a round of a stream."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from dphist.engines.query import parse_key
from dphist.mechanisms import ContinualCounts
from dphist.planning.sentence import sentence
from dphist.publish.digests import VERSION
from dphist.version import __version__

PROTECTED: Final = "what one unit adds in one round"


def stream_guarantee(made: ContinualCounts, settings: Mapping[str, Any]) -> str:
    """The guarantee of all rounds together, in one sentence."""
    return f"over all rounds, {sentence(made, settings['epsilon'], settings['delta'], PROTECTED)}"


def describe_stream(
    made: ContinualCounts, settings: Mapping[str, Any], round_: int, created: dt.datetime
) -> dict[str, Any]:
    """Round, mechanism, guarantee, version and time: public parameters only."""
    return {
        "format": "dphist-continual-release",
        "version": VERSION,
        "dphist": __version__,
        "created": created.isoformat(timespec="seconds"),
        "unit": settings["unit"],
        "by": [parse_key(name).name for name in settings["by"]],
        "keys": list(settings["by"]),
        "where": settings["where"],
        "null_keys": settings["null_keys"],
        "round": round_,
        "epsilon": settings["epsilon"],
        "delta": settings["delta"],
        "mechanism": asdict(made),
        "guarantee": stream_guarantee(made, settings),
        "assumption": made.assumption,
        "ledger": settings.get("ledger"),
    }
