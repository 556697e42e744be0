"""Thresholds and profiles side by side with OpenDP and Google's libraries, for the same parameters.

    python benchmarks/thresholds.py            our numbers
    python benchmarks/thresholds.py --peers    also theirs, installed by pip into environments of their own under build/

The tables: how much Lemma 2b of docs/adaptive.md lowers thresholds; the smallest threshold for given Laplace or Gaussian noise
and a target delta for groups of one unit; what OpenDP reports as delta beside what its mechanism does, counted over many runs;
delta at epsilon of one count beside dp_accounting.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from release import PEERS, Peer, install, version_of
from scipy.special import ndtri

from dphist.audit.judge import lower_bound
from dphist.audit.laws import hockey_stick, masses, reach_of
from dphist.mechanisms import DiscreteGaussianThreshold, LaplaceThreshold
from dphist.mechanisms.adaptive import calibrate
from dphist.mechanisms.tuning import Tuning
from dphist.noise import DiscreteGaussian, DiscreteLaplace, Law, RoundedGaussian
from dphist.planning import plan_for
from dphist.privacy.adaptive import combined_std
from dphist.privacy.gaussian import delta_gaussian

OPENDP = Peer("opendp", ("opendp[polars]",), ("thresholds_opendp.py",))
PYDP = Peer("pydp", ("python-dp", "pyarrow"), ("thresholds_pydp.py",))
ACCOUNTING = Peer("accounting", ("dp-accounting",), ("thresholds_accounting.py",))

ALPHA = 1e-6
RUNS = 1_000_000


def ask(peer: Peer, question: dict[str, Any]) -> Any:
    """Let a peer's script answer, in its own environment; a text is why it did not."""
    python, failure = install(peer)
    if failure is not None:
        return failure
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "settings.json"
        path.write_text(json.dumps(question))
        done = subprocess.run([python, str(PEERS / peer.command[0]), str(path)], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip().splitlines()[-1][:100]


def table(head: Sequence[str], rows: Iterator[Sequence[object]]) -> None:
    """Print Markdown."""
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(f'{cell:.5g}' if isinstance(cell, float) else str(cell) for cell in row)} |")
    print(flush=True)


def ours(law: str, scale: float, groups: int, threshold: int) -> float:
    """Our delta for a unit that is alone in so many groups."""
    if law == "laplace":
        return LaplaceThreshold(groups, scale, float(threshold)).delta_infinity()
    return DiscreteGaussianThreshold(groups, scale, float(threshold)).delta_infinity()


def smallest(law: str, scale: float, groups: int, delta: float) -> int:
    """Our smallest whole threshold: a group is shown when its noisy count is strictly above it."""
    return next(t for t in range(1, 10**6) if ours(law, scale, groups, t) <= delta)


def true_chance(law: str, scale: float, groups: int, least: int) -> float:
    """The chance that one of some groups of one unit reaches at least `least`, by the law of the noise."""
    noise = DiscreteLaplace(Fraction(scale)) if law == "laplace" else DiscreteGaussian(Fraction(scale) ** 2)
    x = np.arange(least - 1, least - 1 + 40 * reach_of(noise))
    return -math.expm1(groups * math.log1p(-float(masses(noise, x).sum())))


def thresholds_for_noise(peers: bool) -> None:
    """Given noise, given delta: which threshold."""
    settings: list[dict[str, Any]] = [
        {"law": law, "scale": scale, "groups": groups, "delta": delta, "threshold": 5}
        for law, scale in (("laplace", 1.0), ("laplace", 10.0), ("gaussian", 2.0), ("gaussian", 16.0))
        for groups, delta in ((1, 1e-5), (10, 1e-8))
    ]
    found = ask(OPENDP, {"settings": settings, "runs": 2000}) if peers else "not asked"

    def rows() -> Iterator[Sequence[object]]:
        for number, s in enumerate(settings):
            noise = (s["law"], s["scale"], s["groups"])
            our = smallest(*noise, s["delta"])
            row: list[object] = [*noise, s["delta"], f"> {our}", ours(*noise, our)]
            if isinstance(found, str):
                yield [*row, found, "–"]
                continue
            theirs = found[number]["smallest"]
            yield [*row, f">= {theirs}", true_chance(*noise, theirs)]

    print("The smallest threshold for given noise (scale, or std), and the true delta there\n")
    table(("law", "scale", "groups", "target", "dphist", "its delta", "OpenDP", "its true delta"), rows())


def reported_and_true(peers: bool) -> None:
    """What OpenDP reports and what it does."""
    if not peers:
        return
    settings: list[dict[str, Any]] = [
        {"law": law, "scale": scale, "groups": 1, "delta": 0.1, "threshold": threshold}
        for law, scale, threshold in (
            ("laplace", 1.0, 3), ("laplace", 2.0, 5), ("laplace", 5.0, 10), ("gaussian", 1.0, 3), ("gaussian", 2.0, 5),
            ("gaussian", 5.0, 10),
        )
    ]  # fmt: skip
    found = ask(OPENDP, {"settings": settings, "runs": RUNS})
    if isinstance(found, str):
        print(f"OpenDP: {found}\n")
        return

    def rows() -> Iterator[Sequence[object]]:
        for s, answer in zip(settings, found, strict=True):
            noise = (s["law"], s["scale"], 1)
            seen = answer["shown"] / answer["runs"]
            low = lower_bound(answer["shown"], answer["runs"], ALPHA)
            yield (
                s["law"], s["scale"], s["threshold"], answer["reported"], seen, low,
                true_chance(*noise, s["threshold"]), true_chance(*noise, s["threshold"] + 1),
                "too small" if low > answer["reported"] else "not refuted",
            )  # fmt: skip

    print(f"A group of one unit, {version_of(OPENDP)}: the delta it reports, and how often it shows the group\n")
    head = ("law", "scale", "threshold", "reported", f"shown in {RUNS:,}", f"at least (1 - {ALPHA:g})")
    table((*head, "P(noisy >= T)", "P(noisy > T)", "reported delta"), rows())


def selection(peers: bool) -> None:
    """Google's group selection for a budget beside ours."""
    settings: list[dict[str, Any]] = [
        {"law": law, "epsilon": 1.0, "delta": delta, "groups": groups}
        for law in ("laplace", "gaussian")
        for groups, delta in ((1, 1e-5), (10, 1e-8), (100, 1e-8))
    ]
    found = ask(PYDP, {"settings": settings, "draws": 20_000}) if peers else "not asked"

    def rows() -> Iterator[Sequence[object]]:
        for number, s in enumerate(settings):
            name = "laplace" if s["law"] == "laplace" else "sparse-gaussian"
            made: Any = plan_for(
                epsilon=1.0, delta=s["delta"], max_groups=s["groups"], mechanism=name, objective="gap"
            ).mechanism
            row: list[object] = [s["law"], s["groups"], s["delta"], made.noise_std, made.threshold]
            if isinstance(found, str):
                yield [*row, found, "–", "–"]
                continue
            theirs = found[number]
            yield [*row, theirs["noise"], theirs["threshold"], theirs["shown"]]

    print("Selection of groups at epsilon = 1 (Google's spends the budget on keys alone; ours includes the counts)\n")
    head = ("law", "groups", "delta", "our noise std", "our threshold", "Google's noise std", "its threshold")
    table((*head, "P(one unit shown)"), rows())


def profiles(peers: bool) -> None:
    """delta at epsilon of one count, enumerated by us, estimated by dp_accounting."""
    epsilons = [0.1, 0.5, 1.0, 2.0]
    laws: dict[str, tuple[float, Law]] = {
        "normal": (3.0, RoundedGaussian(Fraction(3), 10)),
        "discrete-gaussian": (1.0, DiscreteGaussian(Fraction(1))),
        "discrete-laplace": (2.0, DiscreteLaplace(Fraction(2))),
    }
    settings = [{"law": name, "scale": scale, "epsilons": epsilons} for name, (scale, _) in laws.items()]
    found = ask(ACCOUNTING, {"settings": settings}) if peers else "not asked"

    def rows() -> Iterator[Sequence[object]]:
        for number, (name, (scale, law)) in enumerate(laws.items()):
            step = 1 << (law.lattice_bits if isinstance(law, RoundedGaussian) else 0)
            x = np.arange(-reach_of(law), reach_of(law) + step + 1)
            p, q = masses(law, x - step), masses(law, x)
            for place, epsilon in enumerate(epsilons):
                formula = float(delta_gaussian(1 / scale, epsilon)) if name == "normal" else "–"
                theirs = found if isinstance(found, str) else found[number][place]
                yield name, scale, epsilon, hockey_stick(p, q, epsilon), formula, theirs

    print("delta at epsilon of one count that moves by 1\n")
    table(("law", "scale", "epsilon", "enumerated", "our formula", "dp_accounting"), rows())


def lowered(groups: int, epsilon: float, *, moving: bool = True) -> list[float]:
    """By which share the threshold of the rounds is lower than that of Lemma 2a, at delta = 1e-8 and 1e-5.

    moving: with the rounds as they are; otherwise with one weight for all groups of a unit in all rounds, which is no bound.
    """
    shares = []
    for delta in (1e-8, 1e-5):
        made = calibrate(epsilon, delta, tuning=Tuning(most_groups=groups, early_share=0.0))
        infinity, std = made.delta_infinity(), combined_std(made.tuning.fractions, made.round_stds)
        full = 1 + std * float(ndtri(math.exp(math.log1p(-infinity) / groups)))
        m = np.arange(1, groups + 1)
        shared = float(np.max(1 / np.sqrt(m) - std * ndtri(infinity / m)))
        shares.append(1 - (made.threshold if moving else shared) / full)
    return shares


def lost_groups() -> Iterator[list[str]]:
    """The rows of the other table in docs/adaptive.md: which share of groups is lost, by their weight."""
    often = calibrate(1.0, 1e-8).count_released_with(0.95)
    for words, early in (("without bars", 0.0), ("with bars", 0.02)):
        made = calibrate(1.0, 1e-8, tuning=Tuning(early_share=early))
        lost = [made.share_lost(size * often) for size in (1, 1.25, 1.5, 2, 3, 8)]
        yield [words, *("0" if share < 1e-12 else f"{share:.0e}" for share in lost)]


def lowered_thresholds() -> Iterator[list[str]]:
    """The rows of the table in docs/adaptive.md."""
    for words, groups, moving in (
        ("D0 = 300", 300, True),
        ("D0 = 100", 100, True),
        ("weights that do not move, D0 = 300 (no bound for the rounds)", 300, False),
    ):
        found = [lowered(groups, epsilon, moving=moving) for epsilon in (0.5, 1, 3, 10)]
        yield [words, *(" / ".join(f"{100 * share:.1f} %" for share in cell) for cell in found)]


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", action="store_true", help="ask other libraries (installs them under build/)")
    peers = parser.parse_args().peers
    if peers:
        print("peers: " + ", ".join(version_of(peer) for peer in (OPENDP, PYDP, ACCOUNTING)) + "\n")
    table(("lower threshold than by *a*, δ = 1e-8 / 1e-5", "ε = 0.5", "1", "3", "10"), lowered_thresholds())
    table(("weight / n95", "1", "1.25", "1.5", "2", "3", "8"), lost_groups())
    thresholds_for_noise(peers)
    reported_and_true(peers)
    selection(peers)
    profiles(peers)


if __name__ == "__main__":
    main()
