"""What commands take before they do anything: CPU time, and how many times that of an empty Python and of `import click`.

The best of several runs, of all commands in turn; seconds are those of this machine as it is, ratios are not. Modules are
compiled first, as an installed package has them.

    python benchmarks/startup.py [--runs 10]
"""

from __future__ import annotations

import argparse
import compileall
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Final

import dphist

COMMANDS: Final = {
    "python": ("-c", "pass"),
    "import click": ("-c", "import click"),
    "import numpy": ("-c", "import numpy"),
    "import scipy.special": ("-c", "import scipy.special"),
    "dphist --help": ("-m", "dphist", "--help"),
    "dphist release --help": ("-m", "dphist", "release", "--help"),
    "dphist plan": ("-m", "dphist", "plan", "--epsilon", "1", "--delta", "1e-8"),
}


def seconds(words: tuple[str, ...]) -> float:
    """User and system time of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print one line for each command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    compileall.compile_dir(Path(dphist.__file__).parent, quiet=1)
    measured = [{name: seconds(words) for name, words in COMMANDS.items()} for _ in range(runs)]
    best = {name: min(run[name] for run in measured) for name in COMMANDS}
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, best of {runs}\n")
    print(f"{'':<24}{'CPU s':>7}{'x python':>10}{'x click':>10}")
    for name, least in best.items():
        print(f"{name:<24}{least:>7.3f}{least / best['python']:>10.1f}{least / best['import click']:>10.1f}")


if __name__ == "__main__":
    main()
