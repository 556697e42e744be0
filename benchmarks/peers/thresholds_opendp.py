"""OpenDP's thresholds for given noise: the smallest that its own privacy map accepts, and what that map says about others.

    python thresholds_opendp.py SETTINGS.json

Each setting: law (laplace, gaussian), scale, groups, delta, threshold. Prints what it found as JSON.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import opendp.prelude as dp

BATCH = 2000


def mechanism(law: str, scale: float, threshold: int) -> Any:
    """Counts of a dictionary, noised and compared with the threshold."""
    domain = dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=int))
    if law == "laplace":
        metric = dp.l01inf_distance(dp.absolute_distance(T=int))
        return dp.m.make_laplace_threshold(domain, metric, scale=scale, threshold=threshold)
    metric = dp.l02inf_distance(dp.absolute_distance(T=int))
    return dp.m.make_gaussian_threshold(domain, metric, scale=scale, threshold=threshold)


def reported(law: str, scale: float, groups: int, threshold: int) -> float:
    """The delta that its map reports for a unit that is new in so many groups."""
    distance = groups if law == "laplace" else math.isqrt(groups - 1) + 1
    return float(mechanism(law, scale, threshold).map((groups, distance, 1))[1])


def measure(setting: dict[str, Any], runs: int) -> dict[str, Any]:
    """Its threshold for the target, its delta at the threshold of the setting, and how often it shows a group of one unit."""
    law, scale, groups = setting["law"], setting["scale"], setting["groups"]
    low, high = 1, 2
    while reported(law, scale, groups, high) > setting["delta"]:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if reported(law, scale, groups, middle) <= setting["delta"]:
            high = middle
        else:
            low = middle
    made = mechanism(law, scale, setting["threshold"])
    ones = {f"k{i}": 1 for i in range(BATCH)}
    shown = sum(len(made(ones)) for _ in range(runs // BATCH))
    return {
        "smallest": high,
        "reported": reported(law, scale, groups, setting["threshold"]),
        "shown": shown,
        "runs": runs // BATCH * BATCH,
    }


if __name__ == "__main__":
    dp.enable_features("contrib")
    with open(sys.argv[1], encoding="utf-8") as file:
        asked = json.load(file)
    print(json.dumps([measure(setting, asked["runs"]) for setting in asked["settings"]]))
