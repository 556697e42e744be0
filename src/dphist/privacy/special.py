"""Special functions of SciPy; a command loads them without all that stands around them.

`import scipy.special` takes 0.12 s of the 0.5 s of `dphist plan`, for documentation and other array libraries, and SciPy has
no door to its compiled functions that does not go through it. So a process of our own (`hurry`) exchanges the package in
`sys.modules` for an empty one while it loads them: whoever imports `scipy.special` later gets the whole of it. In somebody's
program or notebook nothing is done to SciPy.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from scipy.special import erfcx, gammaln, log_ndtr, ndtr, ndtri, ndtri_exp, xlog1py, xlogy

__all__ = ["erfcx", "gammaln", "log_ndtr", "ndtr", "ndtri", "ndtri_exp", "xlog1py", "xlogy"]

_WHOLE: Final = "scipy.special"
_COMPILED: Final = "scipy.special._ufuncs"
_hurried = False


def hurry() -> None:
    """Load the functions alone when they are first asked for. For processes in which nobody else uses SciPy by then."""
    global _hurried
    _hurried = True


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    functions = _alone() if _hurried else None
    if functions is None:
        functions = import_module(_WHOLE)
    globals().update({one: getattr(functions, one) for one in __all__})
    return globals()[name]


def _alone() -> ModuleType | None:
    """The compiled functions; None where SciPy is loaded already, or is laid out in another way."""
    import scipy

    if _WHOLE in sys.modules:
        return None
    package = ModuleType(_WHOLE)
    package.__path__ = [f"{folder}/special" for folder in scipy.__path__]
    sys.modules[_WHOLE] = package
    try:
        functions = import_module(_COMPILED)
        return functions if all(hasattr(functions, one) for one in __all__) else None
    except ImportError:
        return None
    finally:
        del sys.modules[_WHOLE]
