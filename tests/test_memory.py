"""The memory of a stream, against streams whose memory is known."""

from __future__ import annotations

import numpy as np
import pytest

from inferl.algorithms import TD
from inferl.environments import ring, two_state_chain
from inferl.evaluator import Evaluator
from inferl.least_squares import LeastSquares, LeastSquaresState
from inferl.memory import Memory, memory_of
from inferl.rows import Floats


def seen(data: object, p: int) -> Memory:
    evaluator = Evaluator(TD(p)).update(data)  # type: ignore[arg-type]
    state = evaluator.settled().method
    assert isinstance(evaluator.method, LeastSquares)
    assert isinstance(state, LeastSquaresState)
    levels = evaluator.method.read(state, np.eye(p)).levels
    assert levels is not None
    return levels.memory


@pytest.mark.parametrize("tau", [2.0, 32.0, 1024.0])
def test_an_exact_curve_gives_its_own_memory(tau: float) -> None:
    lengths = 2.0 ** np.arange(16)
    growth: Floats = 1 + 3 * (1 - (1 - np.exp(-lengths / tau)) / (lengths / tau))
    growth /= growth[0]
    blocks = (400_000 / lengths).astype(np.int64)
    assert memory_of(growth, blocks).steps == tau
    assert memory_of(1 / growth, blocks).evidence == 0  # rates that fall are no memory


@pytest.mark.parametrize("correlation", [0.5, 0.8, 0.95])
def test_the_chain_remembers_as_long_as_it_relaxes(correlation: float) -> None:
    """Roughly, at 50 000 steps; the estimate scatters by less than 20 %, so a miss is out of reach."""
    mdp, features = two_state_chain(correlation)
    memory = seen(mdp.sample(np.ones((2, 1)), 50_000, seed=1).transitions(0.5, features), 1)
    assert 0.4 < memory.steps * (1 - correlation) < 2
    assert memory.evidence > 100


def test_a_ring_remembers_longer_than_its_scores_show_at_lag_one() -> None:
    mdp, features = ring(20, 4, laziness=0.5)
    memory = seen(mdp.sample(np.ones((20, 1)), 50_000, seed=1).transitions(0.9, features), 4)
    assert 5 < memory.steps < 82  # it relaxes in 41


def test_martingale_scores_have_none() -> None:
    """Evidence for a memory longer than a hundredth of the stream: a chi-square of 20 has probability 1e-5."""
    mdp, _ = ring(20, 4, laziness=0.5)
    memory = seen(mdp.sample(np.ones((20, 1)), 20_000, seed=1).transitions(0.9), 20)
    assert memory.evidence < 20
