"""Philox 4x32-10: the known answers of Random123 (kat_vectors), and plain integers on random inputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import philox_words

from inferl.engine.multipliers import philox

WORD = st.integers(0, 2**32 - 1) | st.sampled_from([0, 1, 2**31, 2**32 - 1])
ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((ONES, ONES, ONES, ONES), (ONES, ONES), "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
    ids=["zeros", "ones", "digits of pi"],
)
def test_known_answers(counter: tuple[int, int, int, int], key: tuple[int, int], words: str) -> None:
    assert " ".join(f"{int(word):08x}" for word in philox(counter, key)) == words
    assert " ".join(f"{word:08x}" for word in philox_words(counter, key)) == words


@given(counters=st.lists(st.tuples(WORD, WORD, WORD, WORD), min_size=1, max_size=5), key=st.tuples(WORD, WORD))
def test_agrees_with_plain_integers(counters: list[tuple[int, int, int, int]], key: tuple[int, int]) -> None:
    x0, x1, x2, x3 = np.array(counters, np.uint64).T
    assert philox((x0, x1, x2, x3), key).tolist() == [philox_words(counter, key) for counter in counters]


def test_counter_words_broadcast() -> None:
    words = philox((np.arange(3), 7, np.arange(2)[:, None], 9), (1, 2))
    assert words.shape == (2, 3, 4)
    assert words.dtype == np.uint64
    expected = [[philox_words((low, 7, replica, 9), (1, 2)) for low in range(3)] for replica in range(2)]
    assert words.tolist() == expected
