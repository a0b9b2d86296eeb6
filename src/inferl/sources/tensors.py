"""Rollouts of simulators that step many environments at once: arrays (T, N, ...), on the host or on a GPU.

This is the layout of gymnax, Brax, Isaac-style simulators and of loops in torch. Environment n is stream n, and a chunk
has its steps one environment after the other. In order of time, episodes that began together would end in order of
their lengths, and neighbours would look dependent.

Simulators of this kind reset an environment in the step that ends its episode, so the observation after an end belongs
to the next episode; the true last one matters only where the value is bootstrapped past a time limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from inferl.data.arrays import Bools, as_array, is_number, short
from inferl.data.batches import import_torch
from inferl.data.device import is_elsewhere, on_host, taken_over
from inferl.data.transitions import Transitions
from inferl.errors import CheckpointError, DataError, SettingError, ShapeError
from inferl.sources.starts import Starts

__all__ = ["TensorRollouts", "tensor"]

KNOWN = ("observations", "rewards", "terminated", "truncated", "next_observations", "ratios")
LIMITS = ("ends", "cut")


def tensor(
    rollouts: Mapping[str, Any] | Iterable[Mapping[str, Any]],
    features: Callable[[Any], Any] | None = None,
    *,
    discount: float,
    time_limit: str = "ends",
) -> TensorRollouts:
    """Read rollouts (T, N, ...) of a simulator that steps N environments at once.

    Parameters
    ----------
    rollouts
        One rollout, or an iterable of successive ones, such as a generator that plays; each a mapping of arrays of
        NumPy, torch, JAX or CuPy: ``"observations"`` (T + 1, N, ...), the last one being that after the last step, or
        (T, N, ...) beside ``"next_observations"`` (T, N, ...); ``"rewards"`` and ``"terminated"`` (T, N); and, if
        there are any, ``"truncated"`` and ``"ratios"`` (T, N). All rollouts have the same N environments.
    features
        From observations (rows, ...) to features (rows, d), such as a torch module on the simulator's device. Default:
        the observations themselves.
    discount
        Gamma.
    time_limit
        ``"ends"``: a time limit ends the episode, and no rewards follow; what people quote. ``"cut"``: rewards would
        follow, and the value is bootstrapped past the limit; this needs ``"next_observations"``.

    Examples
    --------
    Two environments that pay 0 or 1 at each step, and end every tenth step:

    >>> from inferl import DoublyRobust, Evaluator
    >>> rng = np.random.default_rng(0)
    >>> ends = np.repeat((np.arange(1000) % 10 == 9)[:, None], 2, axis=1)
    >>> played = {"observations": np.ones((1001, 2, 1)), "rewards": rng.integers(2, size=(1000, 2)), "terminated": ends}
    >>> source = tensor(played, discount=1.0)
    >>> print(Evaluator(DoublyRobust(1)).update(source).interval())
    5.21 [5.00, 5.43] 95% pointwise, 2,000 transitions
    """
    if not (is_number(discount) and 0 <= discount <= 1):
        raise SettingError(f"discount is {short(discount)}; it lies in [0, 1]")
    if time_limit not in LIMITS:
        raise SettingError(f"there is no time_limit {short(time_limit)}; choose 'ends' or 'cut'")
    if features is not None and not callable(features):
        raise SettingError(f"features are {short(features)}; give a function from observations to features")
    return TensorRollouts((rollouts,) if isinstance(rollouts, Mapping) else rollouts, features, discount, time_limit)


class TensorRollouts:
    """A source of transitions from rollouts (T, N, ...), made by `tensor`.

    >>> played = {"observations": np.ones((3, 5, 1)), "rewards": np.ones((2, 5)), "terminated": np.zeros((2, 5), bool)}
    >>> [len(chunk) for chunk in tensor(played, discount=0.9)]
    [10]
    """

    tabular = False

    def __init__(self, rollouts: Iterable[Mapping[str, Any]], features: Any, discount: float, time_limit: str) -> None:
        self.features, self.discount, self.time_limit = features, discount, time_limit
        self.dimension = 0
        self.position = None  # a simulator on a device cannot be put back
        self._rollouts, self._starts, self._read = rollouts, Starts(), 0
        self._begins: Bools | None = None  # (N,) the next observation is the first of an episode

    def __iter__(self) -> Iterator[Transitions]:
        """Yield one chunk for each rollout."""
        for rollout in self._rollouts:
            yield self._transitions(rollout)

    def resume(self, position: Any) -> TensorRollouts:
        """Raise: rollouts that were played are gone."""
        raise CheckpointError("rollouts of a simulator cannot be played again from a position; load the evaluator only")

    def start(self) -> Starts:
        """Return the mean features of the observed starts."""
        return self._starts.of(lambda _: self._starts)

    def describe(self) -> dict[str, str]:
        """Return the discount, and what was read."""
        environments = 0 if self._begins is None else len(self._begins)
        return {
            "rollouts": f"{self._read:,} steps of {environments:,} environments",
            "discount": str(self.discount),
            "time limit": "ends the episode" if self.time_limit == "ends" else "cuts it off",
        }

    def _transitions(self, rollout: Mapping[str, Any]) -> Transitions:
        terminated, truncated, rewards, ratios = self._columns(rollout)
        steps, n = rewards.shape
        if self._begins is not None and len(self._begins) != n:
            raise ShapeError(f"this rollout has {n} environments, and earlier ones {len(self._begins)}")
        phi, phi_next = self._vectors(rollout, steps, n)
        ended = terminated | truncated
        if self.time_limit == "cut" and truncated.any() and "next_observations" not in rollout:
            raise DataError(
                "episodes are truncated, and time_limit='cut' bootstraps past the limit: give 'next_observations', the "
                "true last ones included, or use time_limit='ends'"
            )
        zero = terminated | (truncated if self.time_limit == "ends" else False)
        begins = np.ones(n, np.bool_) if self._begins is None else self._begins
        first = np.concatenate([begins[None], ended[:-1]]).T.reshape(-1)
        chunk = Transitions(
            phi,
            rewards.T.reshape(-1),
            phi_next,
            np.where(zero, 0.0, self.discount).T.reshape(-1),
            ratios.T.reshape(-1) if ratios.ndim else ratios,
            first=first,
            last=ended.T.reshape(-1),
            truncated=(truncated & ~terminated).T.reshape(-1),
            stream=np.repeat(np.arange(n), steps),
        )
        self.dimension = chunk.features.shape[1]
        self._begins, self._read = ended[-1], self._read + steps
        self._starts = self._starts.updated(on_host(chunk.features[np.flatnonzero(first)]))
        return chunk

    def _columns(self, rollout: Mapping[str, Any]) -> tuple[Bools, Bools, Any, Any]:
        """Fetch the numbers and flags of the steps, (T, N)."""
        if not isinstance(rollout, Mapping):
            raise ShapeError(f"a rollout is a mapping of arrays, not {short(rollout)}")
        unknown = [name for name in rollout if name not in KNOWN]
        missing = [name for name in KNOWN[:3] if name not in rollout]
        if unknown or missing:
            wrong = f"unknown {', '.join(map(repr, unknown))}" if unknown else f"no {', '.join(map(repr, missing))}"
            raise ShapeError(f"the rollout has {wrong}; it may have {', '.join(KNOWN)}")
        rewards = as_array("rewards", rollout["rewards"])
        if rewards.ndim != 2 or 0 in rewards.shape:
            raise ShapeError(f"rewards have shape {rewards.shape}; expected (steps, environments)")
        flags = []
        for name in ("terminated", "truncated"):
            flag = as_array(name, rollout.get(name, np.zeros(rewards.shape, np.bool_)))
            if flag.shape != rewards.shape:
                raise ShapeError(f"{name} has shape {flag.shape}, and rewards {rewards.shape}")
            if flag.dtype != np.bool_ and not np.isin(flag, (0, 1)).all():
                raise DataError(f"{name} has values other than true and false")
            flags.append(flag.astype(np.bool_))
        ratios = as_array("ratios", rollout.get("ratios", 1.0))
        if ratios.ndim and ratios.shape != rewards.shape:
            raise ShapeError(f"ratios have shape {ratios.shape}, and rewards {rewards.shape}")
        return flags[0], flags[1], rewards, ratios

    def _vectors(self, rollout: Mapping[str, Any], steps: int, n: int) -> tuple[Any, Any]:
        """Return the features before and after each step, (N T, d), where the observations are."""
        seen, after = rollout["observations"], rollout.get("next_observations")
        length = steps + (after is None)
        for name, x, wanted in (("observations", seen, length), ("next_observations", after, steps)):
            if x is not None and (len(np.shape(x)) < 3 or tuple(np.shape(x)[:2]) != (wanted, n)):
                hint = "; give one observation more than rewards, or next_observations" if after is None else ""
                raise ShapeError(f"{name} have shape {tuple(np.shape(x))}; expected ({wanted}, {n}, ...){hint}")
        phi = self._mapped(seen)
        phi, phi_next = (phi[:-1], phi[1:]) if after is None else (phi, self._mapped(after))
        return tuple(x.swapaxes(0, 1).reshape(steps * n, x.shape[2]) for x in (phi, phi_next))

    def _mapped(self, observations: Any) -> Any:
        """Return the features of observations (T, N, ...): (T, N, d)."""
        x = taken_over(observations).tensor if is_elsewhere(observations) else observations
        rows = x.reshape(-1, *x.shape[2:])
        if self.features is None:
            return x.reshape(*x.shape[:2], -1)
        if hasattr(rows, "requires_grad"):
            with import_torch().no_grad():
                made = self.features(rows)
        else:
            made = self.features(rows)
        if len(np.shape(made)) != 2 or len(made) != len(rows):
            raise ShapeError(f"features of {len(rows)} observations have shape {tuple(np.shape(made))}; expected rows")
        return made.reshape(*x.shape[:2], -1)
