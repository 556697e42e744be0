from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import threading
from contextvars import copy_context
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from dphist.errors import InvalidParameter
from dphist.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Entropy,
    RoundedGaussian,
    SystemEntropy,
    exponential_top_k,
    sample,
    sample_exactly,
)
from dphist.noise import entropy as entropy_module
from dphist.noise.entropy import WORDS_PER_KEY, allow_test_entropy, current_source, drawing_from
from dphist.noise.testing import ScriptedEntropy, SeededEntropy
from word_sources import without_permission, words_from


@pytest.mark.parametrize("with_cipher", [True, False])
@pytest.mark.parametrize("count", [0, 1, 5, WORDS_PER_KEY - 1, WORDS_PER_KEY, 2 * WORDS_PER_KEY + 3])
def test_system_words_are_as_many_as_asked_for_and_writable(
    monkeypatch: pytest.MonkeyPatch, with_cipher: bool, count: int
) -> None:
    monkeypatch.setattr(entropy_module, "HAS_CIPHER", with_cipher)
    words = SystemEntropy().words(count)
    assert words.shape == (count,)
    assert words.dtype == np.uint64
    words[:] = 0  # the array belongs to the caller


@pytest.mark.parametrize("with_cipher", [True, False])
def test_every_bit_of_the_system_words_is_balanced(monkeypatch: pytest.MonkeyPatch, with_cipher: bool) -> None:
    monkeypatch.setattr(entropy_module, "HAS_CIPHER", with_cipher)
    words = SystemEntropy().words(1 << 16)
    ones = np.array([np.count_nonzero(words >> np.uint64(bit) & np.uint64(1)) for bit in range(64)])
    # 7 standard deviations: a false alarm has probability 64 · 2.6e-12.
    assert np.all(np.abs(ones - (1 << 15)) < 7 * (1 << 8) / 2)
    assert np.unique(words).size == words.size


def test_no_key_is_used_for_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[bytes] = []

    real = os.urandom

    def remember(size: int) -> bytes:
        keys.append(real(size))
        return keys[-1]

    monkeypatch.setattr(os, "urandom", remember)
    SystemEntropy().words(2 * WORDS_PER_KEY + 1)
    SystemEntropy().words(1)
    assert len(keys) == len(set(keys)) == 4


def _words_in_child(source: Entropy) -> bytes:
    """The words that a forked child draws from a source of its parent."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, source.words(64).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        return pipe.read()


def test_a_fork_does_not_repeat_the_parent() -> None:
    source = SystemEntropy()
    source.words(1000)
    drawn = [_words_in_child(source), _words_in_child(source), source.words(64).tobytes()]
    assert all(len(words) == 512 for words in drawn)
    assert len(set(drawn)) == 3


def _noise_in_worker(_: int) -> bytes:
    return sample(RoundedGaussian(Fraction(1000), 20), 16).tobytes()


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_worker_processes_draw_different_noise(start: str) -> None:
    _noise_in_worker(0)  # warm tables and whatever state there might be, so that a fork would share it
    with multiprocessing.get_context(start).Pool(2) as pool:
        drawn = pool.map(_noise_in_worker, range(8), chunksize=1)
    assert len(set(drawn)) == 8


def test_public_functions_refuse_test_sources() -> None:
    law = DiscreteGaussian(Fraction(1))
    for source in (SeededEntropy(1), ScriptedEntropy([1, 2, 3])):
        with pytest.raises(InvalidParameter, match="SystemEntropy"), drawing_from(source):
            sample(law, 1)
        with without_permission(source):
            with pytest.raises(InvalidParameter, match="SystemEntropy"):
                sample(law, 1)
            with pytest.raises(InvalidParameter, match="allow_test_entropy"):
                sample_exactly(DiscreteLaplace(Fraction(1)), 1)
            with pytest.raises(InvalidParameter, match=type(source).__name__):
                exponential_top_k([1, 2], 1, 1)


def test_a_subclass_of_the_system_source_is_refused_too() -> None:
    class Predictable(SystemEntropy):
        pass

    with pytest.raises(InvalidParameter), drawing_from(Predictable()):
        pass
    with without_permission(Predictable()), pytest.raises(InvalidParameter):
        current_source()


def test_the_switch_ends_with_its_block_and_stays_in_its_thread() -> None:
    refused: list[bool] = []

    def try_elsewhere() -> None:
        try:
            with drawing_from(SeededEntropy(1)):
                pass
        except InvalidParameter:
            refused.append(True)

    def try_here_and_elsewhere() -> None:
        with allow_test_entropy():
            with drawing_from(SeededEntropy(1)):
                pass
            thread = threading.Thread(target=try_elsewhere)
            thread.start()
            thread.join()
            raise KeyError

    with pytest.raises(KeyError):
        try_here_and_elsewhere()
    assert refused == [True]
    with pytest.raises(InvalidParameter), drawing_from(SeededEntropy(1)):
        pass


def test_a_source_ends_with_its_block_and_stays_in_its_thread() -> None:
    """A thread that is started draws from the system; a context that is handed on by name keeps its source."""
    script, inner, found = ScriptedEntropy([]), SeededEntropy(1), []

    def look() -> None:
        found.append(current_source())

    def look_here_and_elsewhere() -> None:
        with words_from(script):
            with words_from(inner):
                assert current_source() is inner
            assert current_source() is script
            for target in (look, partial(copy_context().run, look)):
                thread = threading.Thread(target=target)
                thread.start()
                thread.join()
            raise KeyError

    with pytest.raises(KeyError):
        look_here_and_elsewhere()
    assert type(found[0]) is SystemEntropy
    assert found[1] is script
    assert type(current_source()) is SystemEntropy


def test_the_system_source_is_the_default_and_always_allowed() -> None:
    source = SystemEntropy()
    with drawing_from(source):
        assert current_source() is source
    assert type(current_source()) is SystemEntropy
    assert isinstance(pickle.loads(pickle.dumps(source)), SystemEntropy)


@pytest.mark.parametrize("source", [SeededEntropy(1), ScriptedEntropy([1])])
def test_test_sources_cannot_be_pickled_or_copied(source: Entropy) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(source)
    with pytest.raises(TypeError, match="cannot be pickled"):
        copy.copy(source)
    with pytest.raises(TypeError, match="cannot be pickled"):
        copy.deepcopy(source)


def test_test_sources_do_as_told() -> None:
    first, again, other = SeededEntropy(7), SeededEntropy(7), SeededEntropy(8)
    assert first.words(5).tolist() == again.words(5).tolist() != other.words(5).tolist()
    assert first.words(5).tolist() == again.words(5).tolist()
    script = ScriptedEntropy([5, (1 << 64) - 1, 7])
    assert script.words(2).tolist() == [5, (1 << 64) - 1]
    assert script.left == 1
    with pytest.raises(AssertionError, match="1 words left"):
        script.words(2)
