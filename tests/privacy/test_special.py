"""The compiled functions of SciPy without the package around them, in a copy of the module: ours has the whole by now."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import scipy.special

from dphist.privacy import special


@pytest.fixture
def copy() -> Any:
    spec = spec_from_file_location("dphist_special_copy", special.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_whole_package_gives_the_functions(copy: Any) -> None:
    assert copy.ndtr is scipy.special.ndtr
    with pytest.raises(AttributeError, match="bessel"):
        _ = copy.bessel


def test_in_a_hurry_the_compiled_functions_are_enough(copy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    copy.hurry()
    monkeypatch.delitem(sys.modules, "scipy.special")
    assert copy.ndtri is scipy.special.ndtri
    assert "scipy.special" not in sys.modules


@pytest.mark.parametrize("layout", ["loaded", "without functions", "no such file"])
def test_another_layout_of_scipy_gives_the_whole(copy: Any, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy.hurry()
    imported = copy.import_module

    def import_module(name: str) -> ModuleType | SimpleNamespace:
        if name == "scipy.special._ufuncs":
            if layout == "no such file":
                raise ImportError(name)
            return SimpleNamespace()
        return imported(name)  # type: ignore[no-any-return]

    whole = sys.modules["scipy.special"]
    if layout != "loaded":
        monkeypatch.setattr(copy, "import_module", import_module)
        monkeypatch.delitem(sys.modules, "scipy.special")
        monkeypatch.setattr(
            copy, "_alone", lambda alone=copy._alone: (alone(), sys.modules.update({whole.__name__: whole}))[0]
        )
    assert copy.ndtr is whole.ndtr
