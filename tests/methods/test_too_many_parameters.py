"""More parameters than least squares takes: what the refusal advises can be run, and finds the value."""

from __future__ import annotations

import re

import numpy as np
import pytest

import inferl
from inferl.errors import SettingError

STATES, DISCOUNT, STEPS = 2_100, 0.5, 250_000


def visits(seed: int) -> inferl.Transitions:
    """States drawn independently, rewards of mean 1 and deviation 1: the value is 2 everywhere."""
    rng = np.random.default_rng(seed)
    states = rng.integers(STATES, size=STEPS + 1)
    return inferl.Transitions(states[:-1], rng.normal(1.0, 1.0, STEPS), states[1:], DISCOUNT)


def test_the_advice_of_the_refusal_can_be_followed() -> None:
    data, target = visits(seed=0), np.full(STATES, 1 / STATES)
    with pytest.raises(SettingError, match="takes at most 2,000 states seen, not 2,100: ") as refused:
        inferl.Evaluator(inferl.TD(STATES)).update(data)
    advised = re.search(r"TD with (OnlineBootstrap\(.*\)), whose", str(refused.value))
    assert advised is not None
    method = eval(advised[1], {name: getattr(inferl, name) for name in inferl.__all__} | {"discount": DISCOUNT})
    interval = inferl.Evaluator(inferl.TD(STATES), method).update(data).interval(target)
    # The score of a step is its TD error over 1 - discount; the linear average costs a factor of sqrt(4/3).
    error = 1 / (1 - DISCOUNT) * np.sqrt(4 / 3 / STEPS)
    assert abs(float(interval.estimate) - 1 / (1 - DISCOUNT)) < 4 * error
    assert 0.7 < float(interval.standard_error) / error < 1.4
