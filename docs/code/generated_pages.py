"""What the site has beyond docs/: pages about commands and Python names, made from the code, and pages of the project.

mkdocs calls the functions named `on_...` (mkdocs.yml, `hooks`). Nothing here is committed as text: what a command takes is what
it says itself.
"""

from __future__ import annotations

import html
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from mkdocs.structure.files import File, Files

import dphist
from dphist.cli.app import app
from dphist.planning import options

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "README.md": "index.md",
    "papers/README.md": "project/papers.md",
}
"""Pages outside docs/, and where the site has them."""
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    pages = {
        place: (ROOT / path).read_text(encoding="utf-8") for path, place in ELSEWHERE.items() if place != "index.md"
    }
    pages["reference/command-line.md"] = command_line()
    pages["reference/python.md"] = python_names()
    for place, text in pages.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links out of docs/ to their pages here; files that the site does not have stay as words."""
    generated = {place: path for path, place in ELSEWHERE.items() if place.startswith("project/")}
    source = generated.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    return LINK.sub(lambda link: _moved(link, Path(source).parent, page.file.src_uri), markdown)


def _moved(link: re.Match[str], folder: Path, page: str) -> str:
    words, target, anchor = link[1], link[2], link[3] or ""
    if ":" in target:
        return link[0]
    path = _relative(ROOT / folder / target, ROOT)
    if path.endswith(".ipynb") and not words.startswith("Download"):
        path = path.removesuffix(".ipynb") + ".md"  # where this site shows it
    place = ELSEWHERE.get(path, path.removeprefix("docs/"))
    if place == path:
        return words  # outside of docs/, and no page of the site
    return f"[{words}]({_relative(ROOT / place, (ROOT / page).parent)}{anchor})"


def _relative(path: Path, start: Path) -> str:
    return Path(os.path.relpath(path, start)).as_posix()


def command_line() -> str:
    """Every command as its help describes it, with all options."""
    sections = [_section(context) for context in commands(click.Context(app, info_name="dphist"))]
    head = "# Command line\n\nMade from the program itself. `dphist COMMAND --help-all` prints the same.\n"
    return "\n".join([head, *sections])


def commands(context: click.Context) -> Iterator[click.Context]:
    """All commands that do something, in the order of the help."""
    group: Any = context.command
    if not hasattr(group, "list_commands"):
        yield context
        return
    for name in group.list_commands(context):
        yield from commands(click.Context(group.get_command(context, name), info_name=name, parent=context))


def _section(context: click.Context) -> str:
    words, _, examples = inspect.cleandoc(context.command.help or "").partition("\b\n")
    about = "\n\n".join(_escaped(" ".join(part.split())) for part in words.split("\n\n") if part.strip())
    code = "\n".join(["```", *(line[2:] for line in examples.splitlines()[1:]), "```"]) if examples else ""
    parameters: list[Any] = [one for one in context.command.params if getattr(one, "panel", "") != "Help"]
    rows = [_row(getattr(one, "panel", "Data"), *one.get_help_record(context)) for one in parameters]
    table = "\n".join(["| | option | meaning |", "| --- | --- | --- |", *rows]) if rows else ""
    title = context.command_path.removeprefix("dphist ")
    usage = f"`{context.command_path} {' '.join(context.command.collect_usage_pieces(context))}`"
    return "\n\n".join(part for part in (f"## {title}", about, usage, code, table) if part) + "\n"


def _row(panel: str, left: str, right: str) -> str:
    """The names of an option as code, one by one, so that each can be found."""
    names = re.sub(r"-{1,2}[a-z][\w-]*", r"`\g<0>`", left)
    value = re.sub(r" (?![`/])(\S+)$", r" `\1`", names)
    return f"| {panel} | {value} | {_escaped(right)} |"


def _escaped(text: str) -> str:
    return re.sub(r"([|*_`\[\]])", r"\\\1", html.escape(text, quote=False))


def python_names() -> str:
    """Everything in `dphist.__all__`, functions first."""
    names = [name for name in dphist.__all__ if not name.startswith("_")]
    kinds = {"Functions": [], "Classes": [], "Errors": []}  # type: dict[str, list[str]]
    for name in names:
        kinds[_kind(getattr(dphist, name))].append(name)
    sections = [f"## {kind}\n\n" + "\n\n".join(map(_python_name, members)) for kind, members in kinds.items()]
    return "\n\n".join(["# Python", "All public names of `import dphist as dp`.", *sections]) + "\n"


def _python_name(name: str) -> str:
    """The directive that mkdocstrings replaces by signature and docstring, and a table of the options behind `**options`."""
    rows = [
        f"| `{key}` | {_escaped(one.option.help.rstrip('.'))}{'. Required' if one.required else ''} |"
        for key, one in _declared(getattr(dphist, name)).items()
    ]
    table = "\n".join(["| option | meaning |", "| --- | --- |", *rows])
    return f"::: dphist.{name}" + (f"\n\n`**options` of `{name}`:\n\n{table}" if rows else "")


def _declared(function: Any) -> dict[str, Any]:
    kind = re.search(r"Unpack\[(?:\w+\.)*(\w+)\]", str(getattr(function, "__annotations__", {}).get("options")))
    return dict(options.declarations(getattr(options, kind[1]))) if kind else {}


def _kind(value: Any) -> str:
    if not inspect.isclass(value):
        return "Functions"
    return "Errors" if issubclass(value, Exception) else "Classes"
