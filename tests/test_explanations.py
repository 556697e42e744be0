"""Every citation that is printed can be read."""

from __future__ import annotations

import re

import pytest

import dphist as dp
from command_line import dphist
from dphist.errors import InvalidParameter
from dphist.explanations import contents, explain, in_short, mechanisms, pages, references

PLANS = [
    {},
    {"mechanism": "voting"},
    {"max_groups": 3},
    {"max_groups": 10},
    {"sparsity": 50, "mechanism": "correlated-gaussian"},
    {"keys": 50, "max_groups": 10},
    {"keys": 50, "max_groups": 1},
    {"max_groups": 3, "noise": "discrete"},
]


@pytest.mark.parametrize("more", PLANS, ids=str)
def test_the_theorem_of_every_plan_is_explained(more: dict[str, object]) -> None:
    theorem = dp.plan(epsilon=1, delta=1e-6, **more).mechanism.theorem  # type: ignore[arg-type]
    kind = re.search(r"Theorem|Proposition", theorem)
    assert kind is not None
    for citation in (theorem, in_short(theorem)):
        assert kind[0] in explain(citation)
        assert len(explain(citation)) > 200


@pytest.mark.parametrize("name", sorted(pages()))
def test_every_numbered_theorem_of_a_page_is_found(name: str) -> None:
    text = pages()[name].read_text("utf-8")
    assert explain(name) == text.strip()
    for cited in set(re.findall(r"^\*\*((?:Theorem|Lemma) \d+)", text, re.MULTILINE)):
        found = explain(f"{name} {cited}")
        assert found.startswith(f"**{cited}")
        assert found in text


def test_every_paper_and_every_mechanism_is_explained() -> None:
    for key, words in references().items():
        assert explain(f"[{key}]").startswith(f"[{key}] ")
        assert words.split(":")[0] in explain(key)
    for name in set(mechanisms()) - set(pages()):
        assert f"dphist/mechanisms/{name.replace('-', '_')}.py" in explain(name)


def test_a_theorem_of_a_paper_shows_the_functions_that_hold_it() -> None:
    found = explain("[KKWZ24] Theorem 5.4")
    assert "dphist/privacy/sparse_gaussian.py, _exact" in found
    assert "Theorem 7.1" not in found.split("\n\n", 1)[1]


@pytest.mark.parametrize("citation", ["adaptive Theorem 9", "voting Theorems 3 to 7", "nobody25", "adaptve"])
def test_what_nobody_wrote_is_refused(citation: str) -> None:
    with pytest.raises(InvalidParameter, match="Hint"):
        explain(citation)


def test_the_command_lists_what_it_knows() -> None:
    assert dphist("explain").stdout.strip() == contents()
    assert all(name in contents() for name in (*pages(), *references()))
    assert "h' = h" in dphist("explain", "voting", "Theorem", "1").stdout


def test_a_plan_says_how_to_read_its_theorem() -> None:
    printed = dphist("plan", "--epsilon", "1", "--delta", "1e-8", "--max-groups", "10").stdout
    command = printed.rsplit("dphist explain ", 1)[1].split()
    assert "Theorem 5.4" in dphist("explain", *command).stdout


def test_every_word_of_the_glossary_is_explained() -> None:
    words = re.findall(r"^\| \*\*(.+?)\*\*", pages()["glossary"].read_text("utf-8"), re.MULTILINE)
    assert len(words) > 20
    for word in words:
        if word in pages() or word in mechanisms():
            continue
        assert explain(word.split(" (")[0]).startswith(word)
    assert explain("δ") == explain("delta")
    assert explain("max-groups") == explain("max_groups")
