"""Help as text: examples first, options in panels, the common ones unless all are asked for or all fit.

Everything is read from the parameters of a command. The same words come out for the same width, without colour.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, get_args

from dphist.planning.options import Panel

MOST_LINES: Final = 80
"""`--help` has at most so many lines of so many letters: all options where they fit, else the common ones."""

HELP: Final = "Help"
_PANELS: Final = (*get_args(Panel), HELP)
_EXAMPLE: Final = re.compile(r"^Example: (dphist\b.*)$", re.MULTILINE)
_WORD: Final = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
_LEFT: Final = 25
_GLUE: Final = "\N{NO-BREAK SPACE}"


class Row(NamedTuple):
    """A command or a parameter, and what is said about it."""

    left: str
    right: str


class Page(NamedTuple):
    """All that a help says, before it is laid out."""

    usage: str
    about: str
    examples: Sequence[str]
    panels: dict[str, list[Row]]

    def text(self, width: int) -> str:
        """Lines of at most this many letters, where words allow it."""
        usage = _wrap(f"Usage: {self.usage}", width, indent=7)
        paragraphs = [usage, *_paragraphs(self.about, width)]
        if self.examples:
            paragraphs.append(["Examples", *(line for one in self.examples for line in _command(one, width))])
        for name, rows in self.panels.items():
            paragraphs.append([name, *(line for row in rows for line in _row(row, self._column, width))])
        return "\n\n".join("\n".join(lines) for lines in paragraphs)

    @property
    def _column(self) -> int:
        """Where the right side begins: as near as the left sides allow; longer ones have a line of their own."""
        lefts = [len(row.left) for rows in self.panels.values() for row in rows]
        return 4 + max((left for left in lefts if left <= _LEFT), default=_LEFT)


def help_of(context: Any, *, everything: bool = False, width: int | None = None) -> str:
    """The help of the command that a context is for. `everything`: options that are not common, too."""
    columns = min(max(shutil.get_terminal_size().columns, 40), 100) if width is None else width
    full = page_of(context, everything=True)
    if everything or full.text(MOST_LINES).count("\n") < MOST_LINES:
        return full.text(columns)
    return page_of(context, everything=False).text(columns)


def first_sentence(text: str) -> str:
    """What a list of commands says about one.

    >>> first_sentence("Begin a stream. Touches no data.")
    'Begin a stream.'
    """
    return re.split(r"(?<=[.!?])\s", " ".join(text.split()), maxsplit=1)[0]


def page_of(context: Any, *, everything: bool) -> Page:
    """What the help of a command says."""
    command = context.command
    about = command.help or ""
    panels: dict[str, list[Row]] = dict(command.listed()) if hasattr(command, "listed") else {}
    hidden = 0
    for name in _PANELS:
        parameters = [one for one in command.params if _panel(one) == name]
        shown = [one for one in parameters if everything or name == HELP or _common(one)]
        hidden += len(parameters) - len(shown)
        if shown:
            panels[name] = [_described(one, hidden) for one in shown]
    return Page(_usage(context), _EXAMPLE.sub("", about), _EXAMPLE.findall(about), panels)


def _panel(parameter: Any) -> str:
    return str(parameter.rich_help_panel or HELP)


def _common(parameter: Any) -> bool:
    return parameter.required or getattr(parameter.rich_help_panel, "common", False)


def _usage(context: Any) -> str:
    """The arguments, and the options that every call needs."""
    command = context.command
    if hasattr(command, "listed"):
        return f"{context.command_path} COMMAND [OPTIONS]"
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    pieces = [_left(one) if one.required else f"[{_left(one)}]" for one in arguments]
    required = [one for one in command.params if one.required and one not in arguments]
    pieces += [f"{one.opts[-1]}{_GLUE}{one.metavar}" for one in required]
    return " ".join([context.command_path, *pieces, "[OPTIONS]"])


def _described(parameter: Any, hidden: int) -> Row:
    words = parameter.help or ""
    if hidden and parameter.name == "help_all":
        words = f"Show all options: {hidden} more."
    notes = [f"[{note}]".replace(" ", _GLUE) for note in _notes(parameter)]
    return Row(_left(parameter), " ".join([words, *notes]))


def _left(parameter: Any) -> str:
    """`-o, --output FILE`, or `SOURCE...`."""
    if parameter.param_type_name == "argument":
        return f"{parameter.metavar}{'...' if parameter.nargs != 1 else ''}"
    flags = " / ".join([", ".join(parameter.opts), *parameter.secondary_opts])
    return flags if parameter.is_flag else f"{flags} {parameter.metavar}"


def _notes(parameter: Any) -> Iterator[str]:
    if parameter.required and parameter.param_type_name == "option":
        yield "required"
    default = parameter.default
    if getattr(parameter, "secondary_opts", None):
        yield f"default: {(parameter.opts if default else parameter.secondary_opts)[-1]}"
    elif default is not None and not isinstance(default, bool):
        yield f"default: {default:g}".replace("e-0", "e-") if isinstance(default, float) else f"default: {default}"
    if parameter.envvar:
        yield f"env: {parameter.envvar}"


def _paragraphs(text: str, width: int) -> Iterator[list[str]]:
    for paragraph in text.split("\n\n"):
        if lines := _wrap(" ".join(paragraph.split()), width):
            yield lines


def _row(row: Row, column: int, width: int) -> list[str]:
    left = f"  {row.left}"
    lines = [" " * column + line for line in _wrap(row.right, max(width - column, 20))] or [""]
    if len(left) + 2 > column:
        return [left, *lines]
    return [left + lines[0][len(left) :], *lines[1:]]


def _command(example: str, width: int) -> Iterator[str]:
    """A command that can be copied: longer ones go on in the next line, as in a shell, with an option before its value."""
    line = " "
    for piece in _pieces(_WORD.findall(example)):
        if len(line) + 1 + len(piece) + 2 > width and line.strip():
            yield f"{line} \\"
            line = "     "
        line = f"{line} {piece}"
    yield line


def _pieces(words: Iterable[str]) -> Iterator[str]:
    option = ""
    for word in words:
        if option and not word.startswith("-"):
            yield f"{option} {word}"
            option = ""
            continue
        if option:
            yield option
        option = word if word.startswith("-") else ""
        if not option:
            yield word
    if option:
        yield option


def _wrap(text: str, width: int, indent: int = 0) -> list[str]:
    lines = textwrap.wrap(text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_GLUE, " ") for line in lines]
