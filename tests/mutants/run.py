"""Plant every mutant, those whose names hold one of some words, or three of the quick ones.

python tests/mutants/run.py [--some | word ...]
"""

from __future__ import annotations

import os
import random
import sys
import time

from catalogue import MUTANTS

from mutants import Mutant, try_all

SOME = 3


def chosen(words: list[str]) -> list[Mutant]:
    """Those that are asked for."""
    if words == ["--some"]:
        quick = [mutant for mutant in MUTANTS if not any("spark" in test for test in mutant.tests)]
        if "DPHIST_EXPLORE" in os.environ:
            return random.SystemRandom().sample(quick, SOME)
        return quick[:: len(quick) // SOME + 1]
    return [mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words)]


def main(words: list[str]) -> int:
    """0 if all were killed."""
    began, number, alive = time.monotonic(), 0, 0
    for number, verdict in enumerate(try_all(chosen(words)), 1):  # noqa: B007 - it is told at the end
        mutant, state = verdict.mutant, "killed" if verdict.killed else "SURVIVED"
        print(f"  {state:<8}  {verdict.seconds:5.1f} s  {mutant.name}: {mutant.breaks}", flush=True)
        if not verdict.killed:
            alive += 1
            print(f"{mutant.file} survived {' '.join(mutant.tests)}:\n{verdict.output}")
    print(f"{number - alive} of {number} mutants killed in {time.monotonic() - began:.0f} s")
    return 1 if alive or not number else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
