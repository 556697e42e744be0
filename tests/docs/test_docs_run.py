"""Every command and every Python block of README and docs runs, in the order of its page, on the files of `dphist demo --data`.

SQL runs on the connection `con` of its page; a page without one has it parsed. `-- refused: words` says that dphist refuses it.

A page has a folder of its own. What a page mentions and the demo does not write must come from an earlier command of that
page. Parsed only, against the real options: what a comment `# not run: reason` marks, and what `PARSED` names.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from options_of_commands import parse

import pages
from command_line import dphist
from dphist.demo import write_tables
from dphist.errors import InvalidParameter
from dphist.sql.parse import parse as parse_sql
from pages import PAGES, ROOT, Block, Command

PARSED: dict[str, Callable[[tuple[str, ...]], bool]] = {
    "it takes minutes; tests/audit runs it": lambda words: words[1] == "audit",
    "it needs a cluster; tests/spark runs it": lambda words: "spark" in words,
    "it needs a terminal; tests/cli/test_shell.py runs it": lambda words: (
        words[1] == "sql" and words[2].startswith("--")
    ),
    "it needs a server; tests/ledger runs it": lambda words: any(word.startswith("postgresql:") for word in words),
}
"""Commands that are compared with the real options and not run, with the reason."""
TOLD_BEFORE = ("plan", "profile", "stat")
"""Commands that print what follows from the call, but for the answer of a statistic: pages show what they print."""
MOST_NOT_RUN = 6
"""So many blocks may be marked as not run."""
SLOW = {
    "README.md", "docs/start/ten-minutes.md", "docs/adaptive.md", "docs/choose/bounds.md", "docs/choose/tables.md",
    "docs/flexible-accuracy.md", "docs/how-to/budget.md",
    "docs/how-to/csv.md", "docs/how-to/daily.md", "docs/how-to/largest.md", "docs/how-to/read.md", "docs/how-to/sums.md",
    "docs/index.md", "docs/quantiles.md", "docs/release.md", "docs/reports.md", "docs/sql.md", "docs/unknown-domain.md",
}  # fmt: skip
"""Pages that `make test-long` runs. By default all of their blocks are parsed, and plans are made that read no file."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    write_tables(folder)
    return folder


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.long) if pages.name_of(page) in SLOW else page for page in PAGES],
    ids=pages.name_of,
)
def test_every_block_runs(page: Path, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = pages.blocks(page.read_text(encoding="utf-8"))
    if not any("--data" in command.words for block in found for command in pages.commands(block)):
        for table in tables.iterdir():  # else the page writes them itself
            (tmp_path / table.name).hardlink_to(table)
    monkeypatch.chdir(tmp_path)
    for variable in ("DPHIST_LEDGER", "DPHIST_DATASET"):
        monkeypatch.delenv(variable, raising=False)
    space: dict[str, Any] = {"__name__": "page"}
    for block in found:
        if block.language == "python":
            run_python(page, block, space)
        elif block.language == "sql":
            run_sql(page, block, space)
        for command in pages.commands(block):
            run_command(page, command, monkeypatch)


@pytest.mark.parametrize("page", [page for page in PAGES if pages.name_of(page) in SLOW], ids=pages.name_of)
def test_every_block_is_one(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python and SQL that can be parsed, and commands with options that there are."""
    for block in pages.blocks(page.read_text(encoding="utf-8")):
        if block.language == "python":
            compiled(page, block)
        elif block.language == "sql":
            run_sql(page, block, {})
        for command in pages.commands(block):
            alone = command.words[1:2] in (("plan",), ("profile",)) and not re.search(
                r"\.[a-z]{3,}", str(command.words)
            )
            run_command(page, command if alone else replace(command, reason="in make test-long"), monkeypatch)


def test_slow_pages_exist() -> None:
    assert set(map(pages.name_of, PAGES)) > SLOW


def run_python(page: Path, block: Block, space: dict[str, Any]) -> None:
    code = compiled(page, block)
    if not block.reason:
        exec(code, space)


def compiled(page: Path, block: Block) -> CodeType:
    return compile("\n" * (block.line - 1) + block.text, pages.name_of(page), "exec")


def run_sql(page: Path, block: Block, space: dict[str, Any]) -> None:
    refused = re.search(r"^-- refused: (.+)$", block.text, re.MULTILINE)
    if "con" not in space:
        parse_sql(block.text)
    elif refused is None:
        assert space["con"].sql(block.text).to_arrow().num_columns, f"{pages.name_of(page)}:{block.line}"
    else:
        with pytest.raises(InvalidParameter) as caught:
            space["con"].sql(block.text)
        assert refused[1] in str(caught.value), f"{pages.name_of(page)}:{block.line}: {caught.value}"


def run_command(page: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"{pages.name_of(page)}:{command.line}"
    program, *words = command.words
    if program == "export":
        for word in words:
            name, _, value = word.partition("=")
            monkeypatch.setenv(name, value)
    elif program == "make":
        assert set(words) <= make_targets(), f"{place}: no such target"
    elif program == "pip":
        check_install(words, place)
    elif program == "python":
        assert (ROOT / words[0]).is_file(), f"{place}: no such script"
    else:
        assert program == "dphist", f"{place}: {program} is none of the programs that pages may call"
        run_dphist(place, command)


def run_dphist(place: str, command: Command) -> None:
    parse(command.words, place)
    if command.reason or any(applies(command.words) for applies in PARSED.values()):
        return
    done = dphist(*command.words[1:])
    assert done.returncode == 0, f"{place}: {done.stderr or done.stdout}"
    if command.words[1] in TOLD_BEFORE:
        missing = [line for line in command.shown if not is_printed(line, done.stdout)]
        assert not missing, f"{place} shows what is not printed: {missing}\n{done.stdout}"


def is_printed(line: str, output: str) -> bool:
    """Whatever the blanks and the answer of a statistic; `…` stands for anything."""
    parts = [re.escape(part) for part in " ".join(re.sub(r"^\d+:", "…:", line).split()).split("…")]
    return re.search(".*".join(parts), " ".join(output.split())) is not None


def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))


def check_install(words: list[str], place: str) -> None:
    """`pip install` of this package, from here or by its name, with extras that there are."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = re.fullmatch(r"(\.|dphist)(?:\[([\w,]+)\])?", words[-1])
    assert words[0] == "install", f"{place}: {words}"
    assert wanted is not None, f"{place}: {words}"
    assert set((wanted[2] or "dev").split(",")) <= set(project["optional-dependencies"]), f"{place}: {words}"


def test_few_blocks_are_not_run() -> None:
    marked = [
        f"{pages.name_of(page)}:{block.line}: {block.reason}"
        for page in PAGES
        for block in pages.blocks(page.read_text(encoding="utf-8"))
        if block.reason
    ]
    assert len(marked) <= MOST_NOT_RUN, marked


def test_blocks_are_found_and_wrong_ones_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page with every kind of mistake: each must be noticed."""
    monkeypatch.chdir(tmp_path)
    text = (
        "```\n$ dphist plan --epsilon 1 \\\n  --delta 1e-8\nPlan: nothing of the kind\n```\n\n```python\n1 / 0\n```\n"
    )
    console, python = pages.blocks(text)
    (command,) = pages.commands(console)
    assert command.words == ("dphist", "plan", "--epsilon", "1", "--delta", "1e-8")
    with pytest.raises(AssertionError, match="shows what is not printed"):
        run_dphist("page", command)
    with pytest.raises(ZeroDivisionError):
        run_python(ROOT / "README.md", python, {})
    with pytest.raises(AssertionError, match="no such option: --epsilom"):
        run_dphist("page", Command(1, ("dphist", "plan", "--epsilom", "1")))
    with pytest.raises(AssertionError, match=r"absent\.parquet"):
        run_dphist(
            "page", Command(1, ("dphist", "stat", "is-empty", "absent.parquet", "--unit", "a", "--epsilon", "1"))
        )
    with pytest.raises(AssertionError, match="none of the programs"):
        run_command(ROOT / "README.md", Command(1, ("dphsit", "plan")), monkeypatch)
