"""README and Start on the core install: every block runs, or begins with the extra that it needs."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import pages
from pages import ROOT, Block

pytestmark = pytest.mark.xdist_group("walkthrough")

FIRST = [ROOT / "README.md", *sorted((ROOT / "docs" / "start").glob("*.md"))]
EXTRA = re.compile(r"^(?:# )?pip install '(?:\.|dphist)\[(\w+)\]'", re.MULTILINE)
"""How a block names the extra that it needs: before anything else."""

RUN = """
import contextlib, io, json, sys, traceback
from dphist.cli import main
space = {"__name__": "page"}
for kind, content in json.load(sys.stdin):
    said, code = io.StringIO(), 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            if kind == "python":
                exec(content, space)
            else:
                sys.argv = content
                main()
        except SystemExit as end:
            code = end.code or 0
        except Exception:
            code = traceback.format_exc()
    print(json.dumps([code, said.getvalue()]))
"""


@pytest.mark.parametrize("page", FIRST, ids=pages.name_of)
def test_every_block_runs_on_the_core(page: Path, program: Path, tables: Path, tmp_path: Path) -> None:
    found = pages.blocks(page.read_text(encoding="utf-8"))
    if not any("--data" in command.words for block in found for command in pages.commands(block)):
        for table in tables.iterdir():
            (tmp_path / table.name).hardlink_to(table)
    steps = [(extra_of(block), step) for block in found if not block.reason for step in steps_of(block)]
    done = subprocess.run(
        [program.with_name("python"), "-I", "-c", RUN],
        input=json.dumps([step for _, step in steps]), capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for (extra, step), (code, said) in zip(steps, answers, strict=True):
        if extra is None:
            assert code == 0, f"{step}: {code}\n{said}"
        else:
            assert code == 2, f"{step} needs no extra"
            assert f"[{extra}]'" in said


def extra_of(block: Block) -> str | None:
    """The extra that a block begins with."""
    named = EXTRA.match(block.text)
    return named[1] if named else None


def steps_of(block: Block) -> list[tuple[str, str | list[str]]]:
    """The Python and the commands of a block."""
    if block.language == "python":
        return [("python", block.text)]
    return [("command", list(command.words)) for command in pages.commands(block) if command.words[:1] == ("dphist",)]


def test_a_block_says_its_extra_first() -> None:
    assert extra_of(Block(1, "", "pip install '.[sql]'\ndphist sql\n")) == "sql"
    assert extra_of(Block(1, "python", "# pip install 'dphist[polars]'\nrelease.to_polars()\n")) == "polars"
    assert extra_of(Block(1, "", "dphist sql\npip install '.[sql]'\n")) is None
