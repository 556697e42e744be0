"""Predictable sources of words for tests. They protect nothing, and `drawing_from` refuses them outside tests.

They cannot be pickled or copied: two workers holding the same state would draw the same noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray


class _NotForTransport:
    """Refuses pickling and copying."""

    __slots__ = ()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is a test source and cannot be pickled or copied")


class SeededEntropy(_NotForTransport):
    """The same words for the same seed and the same calls: SHAKE-256 of the seed and a running number."""

    __slots__ = ("_calls", "_seed")

    def __init__(self, seed: int) -> None:
        self._seed, self._calls = seed, 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words of this seed."""
        self._calls += 1
        stream = hashlib.shake_256(f"dphist test words {self._seed} {self._calls}".encode())
        return np.frombuffer(bytearray(stream.digest(8 * count)), dtype=np.uint64)


class ScriptedEntropy(_NotForTransport):
    """Exactly these words, in this order; asking for more than are left is an error of the test."""

    __slots__ = ("_next", "_words")

    def __init__(self, words: Iterable[int]) -> None:
        self._words, self._next = np.array(list(words), dtype=np.uint64), 0

    @property
    def left(self) -> int:
        """How many words nobody has asked for yet."""
        return int(self._words.size) - self._next

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return the next `count` words of the script."""
        if count > self.left:
            raise AssertionError(f"the script has {self.left} words left, {count} were asked for")
        self._next += count
        return self._words[self._next - count : self._next].copy()
