"""The example of a user's own function: it runs where scikit-learn is installed, and names the extra where it is not."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from dphist.errors import MissingExtra

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "separator.py"


@pytest.fixture
def separator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("separator", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_private_separator_separates(separator: ModuleType) -> None:
    if importlib.util.find_spec("sklearn") is None:
        with pytest.raises(MissingExtra, match=r"dphist\[ml\]"):
            separator.main()
        return
    angle, accuracy = separator.main()
    assert angle < 5
    assert accuracy > 0.999
