"""Plant every mutant, or those whose names hold one of some words: `python tests/mutants/run.py [word ...]`."""

from __future__ import annotations

import sys
import time

from catalogue import MUTANTS

from mutants import try_all


def main(words: list[str]) -> int:
    """0 if all were killed."""
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words)]
    began = time.monotonic()
    verdicts = try_all(chosen)
    alive = [verdict for verdict in verdicts if not verdict.killed]
    for verdict in verdicts:
        state = "killed " if verdict.killed else "SURVIVED"
        print(f"  {state}  {verdict.seconds:6.1f} s  {verdict.mutant.name}: {verdict.mutant.breaks}")
    for verdict in alive:
        print(
            f"\n{verdict.mutant.name} ({verdict.mutant.file}) survived {' '.join(verdict.mutant.tests)}:\n{verdict.output}"
        )
    print(f"\n{len(verdicts) - len(alive)} of {len(verdicts)} mutants killed in {time.monotonic() - began:.0f} s")
    return 1 if alive or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
