"""Policies from trained models: Stable-Baselines3 and torch modules."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from inferl.data.arrays import Floats
from inferl.data.batches import import_torch, outputs
from inferl.errors import SettingError, ShapeError
from inferl.policies.base import Policy, draw, one_hot_law

__all__ = ["Logits", "Predictor"]


@dataclass(frozen=True, eq=False)
class Predictor(Policy):
    """A policy from a model with ``predict(observations, deterministic=...)``, such as one of Stable-Baselines3.

    Parameters
    ----------
    model
        Its `predict` returns actions and a state, which must be None: recurrent models are not supported.
    deterministic
        Whether it takes its best action, as in Stable-Baselines3's ``evaluate_policy``. If not, actions are drawn from
        its probabilities; a model that has none (continuous actions) draws them from its own generator, and then the
        seed of a rollout does not determine it.

    Examples
    --------
    >>> class Model:
    ...     def predict(self, observations, deterministic):
    ...         return np.argmax(observations, axis=-1), None
    >>> Predictor(Model()).batch(np.array([[0.1, 0.3], [0.2, 0.0]]), np.zeros(2))
    array([1, 0])
    """

    model: Any
    deterministic: bool = True

    def __post_init__(self) -> None:
        parameters = signature(self.model.predict).parameters.values()
        if not any(p.name == "deterministic" or p.kind is p.VAR_KEYWORD for p in parameters):
            raise SettingError(
                f"{type(self.model).__name__}.predict has no argument `deterministic`; use "
                "Deterministic(model.predict, batched=True) if it returns actions, Probabilities(...) if probabilities"
            )

    def __repr__(self) -> str:
        return f"Predictor({type(self.model).__name__}, deterministic={self.deterministic})"

    def batch(self, observations: Any, uniforms: Floats) -> Any:
        """Predict n actions."""
        law = None if self.deterministic else self._law(observations)
        return self._predicted(observations) if law is None else draw(law, uniforms)

    def probabilities(self, observations: Any) -> Floats:
        """Return the model's probabilities, (n, actions); for discrete actions only."""
        if self.deterministic:
            n_actions = getattr(getattr(self.model, "action_space", None), "n", None)
            if n_actions is not None:
                return one_hot_law(self._predicted(observations), int(n_actions))
        else:
            law = self._law(observations)
            if law is not None:
                return law
        return super().probabilities(observations)

    def _predicted(self, observations: Any) -> Any:
        actions, state = self.model.predict(observations, deterministic=self.deterministic)
        if state is not None:
            raise SettingError(
                f"{type(self.model).__name__} is recurrent: its actions depend on more than the observation; "
                "evaluate a model whose predict() returns no state"
            )
        return actions

    def _law(self, observations: Any) -> Floats | None:
        """Return the probabilities of a Stable-Baselines3 policy with discrete actions, or None."""
        policy = getattr(self.model, "policy", self.model)
        if not (hasattr(policy, "get_distribution") and hasattr(policy, "obs_to_tensor")):
            return None
        torch = import_torch()
        policy.set_training_mode(False)
        with torch.no_grad():
            law = policy.get_distribution(policy.obs_to_tensor(observations)[0]).distribution
        if not isinstance(law, torch.distributions.Categorical):
            return None
        return np.asarray(law.probs.cpu().numpy(), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Logits(Policy):
    """A policy from a torch module that returns a number for each action.

    Parameters
    ----------
    module
        From a batch of observations to logits, or to action values, (n, actions).
    greedy
        False: an action has probability softmax(logits). True: the action with the largest output is taken.

    Examples
    --------
    >>> import torch
    >>> module = torch.nn.Linear(2, 2, bias=False)
    >>> module.weight.data = torch.eye(2)
    >>> Logits(module).probabilities(np.array([[0.0, 0.0], [0.0, 1.0]])).round(2)
    array([[0.5 , 0.5 ], [0.27, 0.73]])
    >>> Logits(module, greedy=True)(np.array([0.0, 1.0]), 0.1)
    np.int64(1)
    """

    module: Any
    greedy: bool = False

    def __repr__(self) -> str:
        return f"Logits({type(self.module).__name__}, greedy={self.greedy})"

    def batch(self, observations: Any, uniforms: Floats) -> Any:
        """Run the module on n observations and choose or draw their actions."""
        logits = self._logits(observations)
        return logits.argmax(axis=1) if self.greedy else draw(_softmax(logits), uniforms)

    def probabilities(self, observations: Any) -> Floats:
        """Return the softmax of the module's outputs, or 1 at the largest, (n, actions)."""
        logits = self._logits(observations)
        return one_hot_law(logits.argmax(axis=1), logits.shape[1]) if self.greedy else _softmax(logits)

    def _logits(self, observations: Any) -> Floats:
        logits = outputs(self.module, observations)
        if logits.ndim != 2:
            raise ShapeError(f"the module returned shape {logits.shape}; expected one number per action, (n, actions)")
        return logits


def _softmax(logits: Floats) -> Floats:
    weights: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    law: Floats = weights / np.sum(weights, axis=1, keepdims=True)
    return law
