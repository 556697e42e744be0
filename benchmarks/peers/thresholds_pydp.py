"""Google's group selection through PyDP: its thresholds for a budget, and the noise it adds.

    python thresholds_pydp.py SETTINGS.json

Each setting: law (laplace, gaussian), epsilon, delta, groups. Prints what it found as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
from typing import Any

from pydp.algorithms.partition_selection import (  # type: ignore[import-not-found, unused-ignore]
    create_partition_strategy,
)


def measure(setting: dict[str, Any], runs: int) -> dict[str, Any]:
    """The threshold, the standard deviation of the noise over many draws, and the chance that one unit is shown."""
    made = create_partition_strategy(setting["law"], setting["epsilon"], setting["delta"], setting["groups"])
    count = 10**6
    noise = [made.noised_value_if_should_keep(count) - count for _ in range(runs)]
    return {"threshold": made.threshold, "noise": statistics.pstdev(noise), "shown": made.probability_of_keep(1)}


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        asked = json.load(file)
    print(json.dumps([measure(setting, asked["draws"]) for setting in asked["settings"]]))
