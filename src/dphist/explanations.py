"""What stands behind a citation: a theorem of our pages, or of a paper with the functions that hold it.

The pages of docs/ are part of an installed package, so that every citation that a plan, a file or a report prints can be
read where it is printed.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dphist.errors import InvalidParameter

_HERE: Final = Path(__file__).parent
_KINDS: Final = "Theorem|Proposition|Corollary|Lemma|Algorithm|Definition"
_CITED: Final = re.compile(rf"(?:({_KINDS})s?\b\s*)?(\d+(?:\.\d+)*)?(?:\s+to\s+(\d+))?", re.IGNORECASE)


def pages() -> dict[str, Path]:
    """Our pages by name; a checkout has them beside its sources, an installed package inside."""
    inside = _HERE / "docs"
    folder = inside if inside.is_dir() else _HERE.parents[1] / "docs"
    return {path.stem: path for path in sorted(folder.glob("*.md"))}


def references() -> dict[str, str]:
    """The papers that are cited, by key: what is used of them, and in which files."""
    rows = re.findall(r"^\| \[?([\w-]+)\]? \| (.*) \|$", pages()["references"].read_text("utf-8"), re.MULTILINE)
    return {key: words for key, words in rows if key not in ("key", "---")}


def mechanisms() -> dict[str, Path]:
    """The files of mechanisms by the names that plans print."""
    return {path.stem.replace("_", "-"): path for path in sorted((_HERE / "mechanisms").glob("[a-z]*.py"))}


def contents() -> str:
    """Everything that can be explained, by name."""
    lines = ["Pages (dphist explain adaptive, dphist explain adaptive Theorem 1):"]
    lines += [f"  {name:20} {_title(path)}" for name, path in pages().items()]
    lines += ["", "Papers (dphist explain KKWZ24, dphist explain KKWZ24 Theorem 5.4):"]
    lines += [f"  {key:20} {_paper(words)}" for key, words in references().items()]
    lines += ["", "Words: any entry of `dphist explain glossary`, such as dphist explain delta."]
    return "\n".join(lines)


def explain(citation: str) -> str:
    """The text behind a citation, or behind the name of a page, a paper, a mechanism or a word.

    Args:
        citation: as a plan or a file prints it: "docs/adaptive.md, Theorem 1", "[KKWZ24] Theorem 5.4"; or just "adaptive".

    Returns:
        The statement with its proof, or the paper with what its functions say.

    Raises:
        InvalidParameter: Nothing has this name.

    >>> print(explain("docs/voting.md, Theorem 1").splitlines()[0])
    **Theorem 1 (one group, one vote).** h' = h, or h' = h + e_x for one group x.
    """
    words = _words(citation)
    if not words:
        return contents()
    name, rest = words[0], " ".join(words[1:])
    for key, reference in references().items():
        if key.lower() == name.lower():
            return _of_paper(key, reference, rest)
    if name.lower() in pages():
        return _of_page(name.lower(), rest)
    whole = "-".join(words).lower()
    if whole in mechanisms():
        return "\n\n".join(f"{place}\n\n{text}" for place, text in _docstrings(mechanisms()[whole], inside=False))
    if (entry := _of_word(" ".join(words))) is not None:
        return entry
    close = difflib.get_close_matches(name, [*pages(), *references(), *mechanisms()], n=1)
    hint = f"did you mean {close[0]}?" if close else "`dphist explain` lists them."
    raise InvalidParameter("a page, a paper, a mechanism or a word that is explained", repr(citation), hint)


def in_short(citation: str) -> str:
    """A citation as the command takes it, without the words that follow its theorem.

    >>> in_short("[Rogers24] Theorem 7 for discrete Laplace noise")
    'Rogers24 Theorem 7'
    """
    name, *rest = _words(citation)
    match = _CITED.match(" ".join(rest))
    return f"{name} {match[0].strip() if match else ''}".strip()


def _words(citation: str) -> list[str]:
    return re.sub(r"[\[\],]|docs/|\.md", " ", citation).split()


def _of_paper(key: str, reference: str, rest: str) -> str:
    """The paper, and the docstrings of our functions for the theorem that is named, or for any of the paper."""
    cited = _cited(rest)
    parts = [f"[{key}] {_plain(reference)}"]
    for path in _files_of(reference):
        for place, text in _docstrings(path):
            if any(_names(text, one) for one in cited) or (not cited and f"[{key}]" in text):
                parts.append(f"{place}\n\n{text}")
    return "\n\n".join(parts)


def _of_page(name: str, rest: str) -> str:
    """A page, or one or several of its theorems."""
    text = pages()[name].read_text("utf-8")
    cited = _cited(rest)
    if not cited:
        return text.strip()
    found = [part for one in cited if (part := _statement(text, one)) is not None]
    if len(found) < len(cited):
        hint = f"`dphist explain {name}` shows the page."
        raise InvalidParameter(f"a theorem of docs/{name}.md", repr(rest), hint)
    return "\n\n".join(found)


def _of_word(word: str) -> str | None:
    """A row of the glossary: the word in bold, with its other spellings, and what it means."""
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.*) \|$", pages()["glossary"].read_text("utf-8"), re.MULTILINE)
    names = {name.casefold(): f"{name}: {_plain(meaning)}" for name, meaning in rows}
    wanted = word.casefold().replace("-", "_")
    for name, entry in names.items():
        if wanted.replace("_", " ") == name or wanted in re.split(r"[\s(),]+", name):
            return entry
    return None


def _cited(rest: str) -> list[str]:
    """The theorems that a citation names: "Theorems 1 to 3, for ..." names three; "for ..." alone names none.

    A number alone is that of a theorem.
    """
    if not rest:
        return []
    match = _CITED.match(rest)
    kind, first, last = match.groups() if match else (None, None, None)
    if kind is None and first is None:
        return []
    kind = (kind or "Theorem").capitalize()
    if last is not None and first is not None:
        return [f"{kind} {number}" for number in range(int(first), int(last) + 1)]
    return [f"{kind} {first}" if first else kind]


def _statement(page: str, cited: str) -> str | None:
    """From the bold name of a theorem to the next one or the next heading; lemmas between are a part of its proof."""
    other = "Theorem" if cited.startswith("Theorem") else _KINDS
    match = re.search(
        rf"^\*\*{re.escape(cited)}\b(?!\.\d).*?(?=^\*\*(?:{other})\b|^#|\Z)", page, re.MULTILINE | re.DOTALL
    )
    return None if match is None else match[0].strip()


def _names(text: str, cited: str) -> bool:
    kind, _, number = cited.partition(" ")
    return re.search(rf"\b{kind}s?\b[^.]*?(?<![\d.]){re.escape(number)}(?!\.?\d)", text) is not None


def _files_of(reference: str) -> Iterator[Path]:
    """The files of the package that a row of the references names."""
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", reference):
        path = _HERE / name
        yield from sorted(path.glob("*.py")) if path.is_dir() else [path] if path.is_file() else []


def _docstrings(path: Path, *, inside: bool = True) -> Iterator[tuple[str, str]]:
    """Each docstring of a file with its place, also those inside classes, read without running the file."""
    name = path.relative_to(_HERE).as_posix()
    module = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(module) if inside else (module, *module.body):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield f"dphist/{name}" + ("" if isinstance(node, ast.Module) else f", {node.name}"), text


def _title(path: Path) -> str:
    return path.read_text("utf-8").lstrip().split("\n", 1)[0].lstrip("# ")


def _paper(words: str) -> str:
    """The title, which is in italics; our own derivation has none."""
    match = re.search(r"\*([^*]+)\*", words)
    return _plain(words).split(":")[0] if match is None else match[1]


def _plain(words: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words).replace("*", "")
