"""Google's dp_accounting: delta at epsilon of one count with each law, from its privacy-loss distributions.

    python thresholds_accounting.py SETTINGS.json

Each setting: law (normal, discrete-gaussian, discrete-laplace), std or scale, epsilons. Prints what it found as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from dp_accounting.pld import privacy_loss_distribution as pld  # type: ignore[import-not-found, import-untyped, unused-ignore]


def measure(setting: dict[str, Any]) -> list[float]:
    """Its pessimistic estimates."""
    scale = setting["scale"]
    made = {
        "normal": lambda: pld.from_gaussian_mechanism(scale, value_discretization_interval=1e-4),
        "discrete-gaussian": lambda: pld.from_discrete_gaussian_mechanism(scale, value_discretization_interval=1e-4),
        "discrete-laplace": lambda: pld.from_discrete_laplace_mechanism(1 / scale, value_discretization_interval=1e-4),
    }[setting["law"]]()
    return [float(made.get_delta_for_epsilon(epsilon)) for epsilon in setting["epsilons"]]


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        asked = json.load(file)
    print(json.dumps([measure(setting) for setting in asked["settings"]]))
