"""Where random bits come from: the only file of the package that touches the operating system's randomness.

`SystemEntropy` keeps nothing between two calls: no buffer, no counter, no key. A process that forks, a worker that is
started by a pool or a copied object therefore has nothing it could repeat.

Sources for tests are other types, in `dphist.noise.testing`. `require_secure` is the gate that every public function
passes its `entropy` argument through: it lets a test source in only inside `allow_test_entropy()`.
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


@contextmanager
def allow_test_entropy() -> Iterator[None]:
    """Let sources other than `SystemEntropy` through `require_secure` inside this block, for tests only.

    The switch is code, not configuration: no environment variable, file or argument can turn it on in production. It
    holds for the current context only, so other threads are not affected, and it ends with the block.
    """
    token = _TEST_ENTROPY_ALLOWED.set(True)
    try:
        yield
    finally:
        _TEST_ENTROPY_ALLOWED.reset(token)


def require_secure(entropy: Entropy | None) -> Entropy:
    """Return the source to draw from: the system's for None, and no other one outside `allow_test_entropy()`."""
    if entropy is None:
        return SystemEntropy()
    if type(entropy) is SystemEntropy or _TEST_ENTROPY_ALLOWED.get():
        return entropy
    raise InvalidParameter(
        "SystemEntropy() or None as the source of noise",
        type(entropy).__name__,
        "a test source makes predictable noise; tests let it in with dphist.noise.entropy.allow_test_entropy()",
    )
