"""Where random bits come from: the only file of the package that touches the operating system's randomness.

`SystemEntropy` keeps nothing between two calls: no buffer, no counter, no key. A process that forks, a worker that is
started by a pool or a copied object therefore has nothing it could repeat.

No function above `dphist.noise` takes a source: each sampler asks `current_source` when it draws. The answer is the
operating system's source, but for tests, which put another one in its place with `allow_test_entropy()` and
`drawing_from(source)`. Both are context variables, so a block holds for its own thread and its own tasks alone: a new
thread, a new process and an executor of Spark draw from the operating system.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dphist.errors import InvalidParameter

try:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    HAS_CIPHER = True
except ImportError:  # pragma: no cover - without the cipher the operating system serves every word
    HAS_CIPHER = False

WORDS_PER_KEY = 1 << 17
_ZEROS = memoryview(bytes(8 * WORDS_PER_KEY))


class Entropy(Protocol):
    """A source of independent, uniform 64-bit words."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` fresh words in an array that belongs to the caller."""
        ...


class SystemEntropy:
    """The operating system's generator, stretched by AES-256 in counter mode.

    Each run of at most 2^17 words (1 MiB) is the keystream under a key of its own from `os.urandom`, used once and
    dropped. Telling that run from uniform words means breaking AES-256 or the operating system's generator;
    `os.urandom` alone gives the same promise about ten times slower and is what remains when the cipher is missing.
    """

    __slots__ = ()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` words that nothing else has seen or will see."""
        if not HAS_CIPHER:
            return np.frombuffer(bytearray(os.urandom(8 * count)), dtype=np.uint64)
        block = np.empty(count + 2, dtype=np.uint64)  # the cipher wants 15 bytes of room behind its output
        for first in range(0, count, WORDS_PER_KEY):
            length = min(WORDS_PER_KEY, count - first)
            # One key, one keystream: a constant nonce is right because the key is never used again.
            keystream = Cipher(algorithms.AES256(os.urandom(32)), modes.CTR(bytes(16))).encryptor()
            keystream.update_into(_ZEROS[: 8 * length], block[first : first + length + 2].view(np.uint8).data)
        return block[:count]


_TEST_ENTROPY_ALLOWED: ContextVar[bool] = ContextVar("dphist_test_entropy_allowed", default=False)
_SOURCE: ContextVar[Entropy | None] = ContextVar("dphist_source_of_words", default=None)


@contextmanager
def allow_test_entropy() -> Iterator[None]:
    """Allow `drawing_from` another source than `SystemEntropy` inside this block, for tests only.

    The permission is code, not configuration: no environment variable, file or argument can give it in production. It
    holds for the current context only, so other threads are not affected, and it ends with the block.
    """
    token = _TEST_ENTROPY_ALLOWED.set(True)
    try:
        yield
    finally:
        _TEST_ENTROPY_ALLOWED.reset(token)


@contextmanager
def drawing_from(source: Entropy) -> Iterator[None]:
    """Draw all noise inside this block from one source, for tests only: `allow_test_entropy()` has to be around it."""
    token = _SOURCE.set(_require_secure(source))
    try:
        yield
    finally:
        _SOURCE.reset(token)


def current_source() -> Entropy:
    """The source that noise is drawn from here: a test source that outlives its permission is refused."""
    source = _SOURCE.get()
    return SystemEntropy() if source is None else _require_secure(source)


def _require_secure(source: Entropy) -> Entropy:
    """The source itself, if it is the operating system's or a test may use it."""
    if type(source) is SystemEntropy or _TEST_ENTROPY_ALLOWED.get():
        return source
    raise InvalidParameter(
        "SystemEntropy() as the source of noise",
        type(source).__name__,
        "a test source makes predictable noise; tests let it in with dphist.noise.entropy.allow_test_entropy()",
    )
