"""Noise from words that a test chooses: for a block, for one call, or without permission, which is refused."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import ParamSpec, TypeVar

from dphist.noise import Entropy
from dphist.noise.entropy import allow_test_entropy, drawing_from

Given = ParamSpec("Given")
Result = TypeVar("Result")


@contextmanager
def words_from(source: Entropy) -> Iterator[None]:
    """All noise of this block is drawn from this source."""
    with allow_test_entropy(), drawing_from(source):
        yield


@contextmanager
def without_permission(source: Entropy) -> Iterator[None]:
    """The source stays in its place after the permission has ended, as if somebody had got round the permission."""
    with ExitStack() as stack:
        with allow_test_entropy():
            stack.enter_context(drawing_from(source))
        yield


def drawn_from(
    source: Entropy, function: Callable[Given, Result], /, *args: Given.args, **options: Given.kwargs
) -> Result:
    """What a function returns when its noise is drawn from this source."""
    with words_from(source):
        return function(*args, **options)
