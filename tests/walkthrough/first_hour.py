"""The first hour of a newcomer, as a script: the wheel in an empty environment without extras, then one command after another.

    python tests/walkthrough/first_hour.py

prints every command, what it said last, and how long it took. Noise differs from run to run; what must hold of the words and
files of each step is in `STEPS`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUDGET = "--epsilon 1 --delta 1e-6"
LEDGER = "--ledger ledger.db --dataset visits"


@dataclass(frozen=True, slots=True)
class Step:
    """One command, the words it must print, the files it must leave; a mistake ends with code 2 and says what to do."""

    words: str
    says: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    mistake: bool = False


STEPS = (
    Step("--help", ("release", "demo", "explain")),
    Step("demo --no-open", ("Report: ",), ("dphist-demo.html",)),
    Step("demo --data .", ("events.parquet",), ("events.parquet", "ages.parquet")),
    # Their own file: exported from a spreadsheet, with a mark at its start and semicolons.
    Step(f"release visits.csv --unit person --by page {BUDGET} -o pages.csv", ("--delimiter",), mistake=True),
    Step(
        "plan --epsilon 1 --delta 1e-6 --max-groups 2 --save plan.json", ("guarantee", "dphist explain"), ("plan.json",)
    ),
    Step("explain KKWZ24 Theorem 5.4", ("Theorem 5.4",)),
    Step("release visits.csv --delimiter ; --unit person --by page --plan plan.json --dry-run", ("plan",)),
    Step(
        "release visits.csv --delimiter ; --unit person --by page --plan plan.json -o pages.csv --report pages.html",
        ("start", "pages.csv"),
        ("pages.csv", "pages.html"),
    ),
    Step(
        f"ledger create {LEDGER} --unit person --epsilon 2 --delta 1e-5 --expect-releases 5",
        ("visits",),
        ("ledger.db",),
    ),
    Step(
        f"release visits.csv --delimiter ; --unit person --by page --sum minutes:0:30 --type minutes=double --epsilon 0.5"
        f" --delta 1e-6 --max-groups 2 -o minutes.parquet --report minutes.html {LEDGER}",
        ("start", "minutes.parquet"),
        ("minutes.parquet", "minutes.html"),
    ),
    Step("ledger show --ledger ledger.db", ("visits",)),
    Step("verify minutes.parquet --ledger ledger.db", ("guarantee",)),
    Step("verify pages.csv", ("guarantee",)),
    Step(f"release visits.csv --delimiter ; --unit persn --by page {BUDGET} -o typo.csv", ("person",), mistake=True),
)


@dataclass(slots=True)
class Walk:
    """An installed package and a folder to work in; every command is noted with its time."""

    program: Path
    folder: Path
    times: list[tuple[str, float]] = field(default_factory=list)

    def take(self, step: Step) -> str:
        """Run a command, look at everything it must do, and return what it printed."""
        start = time.perf_counter()
        done = subprocess.run(
            [self.program, *step.words.split()],
            capture_output=True, text=True, encoding="utf-8", cwd=self.folder, check=False,
            env={name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DPHIST"))},
        )  # fmt: skip
        self.times.append((step.words, time.perf_counter() - start))
        printed = done.stdout + done.stderr
        assert done.returncode == (2 if step.mistake else 0), f"dphist {step.words}\n{printed}"
        assert "Traceback" not in printed, printed
        for word in step.says:
            assert word in printed, f"dphist {step.words}: no {word!r} in\n{printed}"
        for name in step.writes:
            assert (self.folder / name).stat().st_size > 0, name
        return printed


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist of this checkout."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def install(wheel: Path, folder: Path) -> Path:
    """The program in a new environment that has the wheel, what it depends on and nothing else."""
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--python", str(scripts / "python"), "install"]
    options = ["--quiet", "--disable-pip-version-check", "--no-compile", "-c", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, *options, str(wheel)], check=True, capture_output=True, text=True)
    return scripts / "dphist"


def own_table(folder: Path) -> None:
    """What a spreadsheet exports: a mark of the encoding, semicolons, quotes where they are needed."""
    pages = ("start", "news", "shop; all offers", "jobs")
    rows = [f'person-{i % 3000};"{pages[(i * i + i // 3000) % 4]}";{i % 37}\r\n' for i in range(6_000)]
    (folder / "visits.csv").write_bytes(("\ufeffperson;page;minutes\r\n" + "".join(rows)).encode())


def walk(folder: Path, program: Path) -> Iterator[tuple[Step, str]]:
    """All steps in order."""
    own_table(folder)
    here = Walk(program, folder)
    for step in STEPS:
        yield step, here.take(step)


def main(say: Callable[[str], object] = print) -> None:
    """Take the walk and print it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        program = install(build(folder / "dist")[0], folder / "venv")
        say(f"built and installed in {time.perf_counter() - start:.0f} s\n")
        work = folder / "work"
        work.mkdir()
        begun = time.perf_counter()
        for step, printed in walk(work, program):
            say(f"$ dphist {step.words}\n  {printed.strip().splitlines()[-1]}")
        say(f"\n{len(STEPS)} commands in {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
