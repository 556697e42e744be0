"""The example of a user's own function, run with the real scikit-learn."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "separator.py"


@pytest.fixture
def separator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("separator", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_private_separator_separates(separator: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails where scikit-learn is missing: it belongs to the dev extra."""
    assert importlib.util.find_spec("sklearn") is not None, "pip install -e '.[dev]'"
    angle, accuracy = separator.main()
    assert angle < 5
    assert accuracy > 0.999
    assert "moved by at most 0.05" in capsys.readouterr().out
