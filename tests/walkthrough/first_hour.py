"""The first hour of a newcomer, as a script: the wheel in an empty environment without extras, then one command after another.

    python tests/walkthrough/first_hour.py

prints every command, what it said last, and how long it took. Noise differs from run to run; what must hold of the words and
files of each step is in `STEPS`.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath

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
        done = _run([self.program, *step.words.split()], self.folder)
        self.times.append((step.words, time.perf_counter() - start))
        check(step, done.returncode, done.stdout + done.stderr, self.folder)
        return done.stdout + done.stderr


def _run(command: list[str | Path], folder: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, input=given, capture_output=True, text=True, encoding="utf-8", cwd=folder, check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DPHIST"))},
    )  # fmt: skip


def check(step: Step, code: int, printed: str, folder: Path) -> None:
    """Everything that a command must do."""
    assert code == (2 if step.mistake else 0), f"dphist {step.words}\n{printed}"
    assert "Traceback" not in printed, printed
    for word in step.says:
        assert word in printed, f"dphist {step.words}: no {word!r} in\n{printed}"
    for name in step.writes:
        assert (folder / name).stat().st_size > 0, name


ONE_PROCESS = """
import contextlib, io, json, sys
from dphist.cli import main
for words in json.load(sys.stdin):
    said, code = io.StringIO(), 0
    sys.argv = ["dphist", *words]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    print(json.dumps([code, said.getvalue()]))
"""


def hurry(folder: Path, program: Path) -> list[Step]:
    """The same steps with one start of Python for all of them but the first."""
    own_table(folder)
    Walk(program, folder).take(STEPS[0])
    words = json.dumps([step.words.split() for step in STEPS[1:]])
    done = _run([program.with_name("python"), "-I", "-c", ONE_PROCESS], folder, words)
    assert done.returncode == 0, done.stderr
    for step, line in zip(STEPS[1:], done.stdout.splitlines(), strict=True):
        code, printed = json.loads(line)
        check(step, code, printed, folder)
    return list(STEPS)


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


def put_together(wheel: Path, folder: Path) -> Path:
    """The same from what this environment has: the wheel is unpacked, and all that it requires is linked."""
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--python", str(scripts / "python"), "install", "--no-deps", "--no-compile"]
    subprocess.run([*pip, "--quiet", "--disable-pip-version-check", str(wheel)], check=True, capture_output=True)
    (site,) = folder.rglob("site-packages")
    (own,) = importlib.metadata.distributions(name="dphist", path=[str(site)])
    waiting, linked = _required(own), {"dphist"}
    while waiting:
        name = waiting.pop()
        if name not in linked:
            linked.add(name)
            needed = importlib.metadata.distribution(name)
            waiting |= _required(needed)
            _link(needed, site)
    return scripts / "dphist"


def _required(one: importlib.metadata.Distribution) -> set[str]:
    """Names of what it needs here, without extras."""
    from packaging.requirements import Requirement

    asked = [Requirement(line) for line in one.requires or ()]
    return {
        re.sub(r"[-_.]+", "-", need.name).lower()
        for need in asked
        if need.marker is None or need.marker.evaluate({"extra": ""})
    }


def _link(one: importlib.metadata.Distribution, site: Path) -> None:
    """All that it put into the folder of packages."""
    for file in one.files or ():
        top = PurePath(file).parts[0]
        if top not in ("..", "__pycache__") and not (site / top).exists():
            (site / top).symlink_to(Path(str(one.locate_file(top))).resolve())


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
