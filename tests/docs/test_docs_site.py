"""The site builds from docs/ without a warning, needs nothing from elsewhere, and shows what was written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from options_of_commands import options, paths

import dphist
import pages
from pages import ROOT

FOREIGN = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//")
"""What a browser would load from another machine."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make docs` does: strict, so that a broken link or anchor, or a page that no menu has, ends it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    return folder


def environment() -> dict[str, str]:
    paths_of_sources = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": paths_of_sources, "NO_MKDOCS_2_WARNING": "1"}


def html(site: Path, page: str) -> str:
    return (site / page).read_text(encoding="utf-8")


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    files = [*site.rglob("*.html")]
    assert len(files) > 45
    assert not [file.name for file in files if FOREIGN.search(file.read_text(encoding="utf-8"))]
    assert FOREIGN.search('<script src="https://cdn.example/x.js">')
    styles = "".join(file.read_text(encoding="utf-8") for file in site.rglob("*.css"))
    assert not re.search(r"url\([\"']?(?:https?:)?//", styles)


def test_lists_and_tables_are_not_left_as_text(site: Path) -> None:
    """GitHub and mkdocs read Markdown differently: a list needs a blank line before it here."""
    left = re.compile(r"^\s*(?:- |\d+\. |\|)")
    wrong = [
        (file.name, line)
        for file in site.rglob("*.html")
        for paragraph in re.findall(r"<p>(.*?)</p>", file.read_text(encoding="utf-8"), re.DOTALL)
        for line in paragraph.splitlines()
        if left.match(line)
    ]
    assert not wrong


def test_the_reference_has_every_command_option_and_name(site: Path) -> None:
    commands = html(site, "reference/command-line.html")
    for path in paths():
        for option in options(*path) or () if path else ():
            assert option in ("--help", "-h", "--help-all") or f"<code>{option}</code>" in commands, (path, option)
    names = html(site, "reference/python.html")
    assert not [name for name in dphist.__all__ if not name.startswith("_") and f'id="dphist.{name}"' not in names]


def test_no_link_between_pages_is_lost(site: Path) -> None:
    """On its way to the site a link may change its form, not its target."""
    links = 0
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        shown = html(site, place)
        for link in pages.links(page.read_text(encoding="utf-8")):
            target, _, anchor = link.partition("#")
            if target.endswith(".md") and (page.parent / target).resolve().is_relative_to(ROOT / "docs"):
                links += 1
                href = target.removesuffix(".md") + ".html" + (f"#{anchor}" if anchor else "")
                assert f'href="{href}"' in shown, (place, link)
    assert links > 100


def test_links_out_of_docs_lead_to_pages_of_the_site(site: Path) -> None:
    assert 'href="../project/security.html"' in html(site, "start/install.html")
    assert 'href="../limits.html"' in html(site, "project/security.html")


def test_a_broken_link_ends_the_build(tmp_path: Path) -> None:
    """With the settings of this site: the same that finds it there."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[a](gone.md)\n", encoding="utf-8")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text(
        "site_name: x\nstrict: true\n" + settings[settings.index("validation:") : settings.index("nav:")],
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "mkdocs", "build"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode != 0
    assert "gone.md" in done.stderr
