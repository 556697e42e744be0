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

import typer
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
    source = next(
        (path for path, place in ELSEWHERE.items() if place == page.file.src_uri), f"docs/{page.file.src_uri}"
    )
    return LINK.sub(lambda link: _moved(link, Path(source).parent, page.file.src_uri), markdown)


def _moved(link: re.Match[str], folder: Path, page: str) -> str:
    words, target, anchor = link[1], link[2], link[3] or ""
    if ":" in target:
        return link[0]
    path = _relative(ROOT / folder / target, ROOT)
    place = ELSEWHERE.get(path, path.removeprefix("docs/"))
    if place == path:
        return words  # outside of docs/, and no page of the site
    return f"[{words}]({_relative(ROOT / place, (ROOT / page).parent)}{anchor})"


def _relative(path: Path, start: Path) -> str:
    return Path(os.path.relpath(path, start)).as_posix()


def command_line() -> str:
    """Every command with its arguments, options and example, as the program has them."""
    root = typer.main.get_command(app)
    sections = [_section(path, command) for path, command in commands(root, ("dphist",))]
    head = "# Command line\n\nMade from the options of the program. `dphist COMMAND --help` prints the same.\n"
    return "\n".join([head, *sections])


def commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands that do something, with the words that call them."""
    context = typer.Context(command, info_name=path[-1])
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), (*path, name))


def _section(path: tuple[str, ...], command: Any) -> str:
    rows = "\n".join(_row(one) for one in command.params if not getattr(one, "hidden", False))
    table = f"| option | meaning |\n| --- | --- |\n{rows}\n" if rows else ""
    return f"## {' '.join(path[1:])}\n\n{_words(command.help or '')}\n\n{table}"


def _words(text: str) -> str:
    """A help text as Markdown: examples as code, everything else as it stands."""
    paragraphs = [" ".join(part.split()) for part in inspect.cleandoc(text).replace("\b", "").split("\n\n")]
    return "\n\n".join(_example(one) if one.startswith(("Example", "dphist ")) else _escaped(one) for one in paragraphs)


def _example(text: str) -> str:
    lines = re.split(r"\s+(?=dphist )", text.split(":", 1)[-1].strip() if text.startswith("Example") else text)
    return "```\n" + "\n".join(lines) + "\n```"


def _row(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    if not names[0].startswith("-"):
        names = [names[0].upper()]
    value = getattr(parameter, "metavar", None) or ""
    flag = ", ".join(f"`{name}`" for name in names) + (f" `{value}`" if value and names[0].startswith("-") else "")
    default = parameter.default
    plain = isinstance(default, (str, int, float)) and not isinstance(default, bool)
    more = ". Required" if parameter.required else f". Default: `{default}`" if plain and f"{default}" else ""
    words = (getattr(parameter, "help", None) or "").rstrip(".")
    return f"| {flag} | {_escaped(words)}{more} |".replace("\n", " ")


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
