"""The sepsis simulator as a Gymnasium environment, ``inferl/Sepsis-v0``."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from inferl.environments.sepsis.law import REWARDS, check_variant, initial_law
from inferl.environments.sepsis.patients import N_ACTIONS, N_STATES, describe, observed
from inferl.environments.sepsis.sampler import successors
from inferl.errors import SettingError

__all__ = ["Sepsis"]


class Sepsis(gymnasium.Env[np.int64, np.int64]):
    """One patient at a time. ``gymnasium.make`` truncates episodes after 20 steps, or after ``max_episode_steps``.

    Parameters
    ----------
    variant, diabetes
        As in :func:`inferl.environments.sepsis.mdp`.
    hide_diabetes
        Observe one of 720 states, without diabetes, instead of one of 1440.
    render_mode
        ``"ansi"``: one line that describes the patient.

    Examples
    --------
    >>> env = gymnasium.make("inferl/Sepsis-v0", diabetes=0.0, render_mode="ansi")
    >>> state, _ = env.reset(seed=1)
    >>> print(env.render())
    heart rate normal, blood pressure normal, oxygen normal, glucose low; no treatment
    >>> state, reward, terminated, truncated, _ = env.step(4)
    >>> print(env.render())
    heart rate normal, blood pressure normal, oxygen normal, glucose low; antibiotics on
    """

    metadata = {  # noqa: RUF012 (an instance variable by Gymnasium's own types)
        "render_modes": ["ansi"],
        "render_fps": 4,
    }

    def __init__(
        self,
        variant: str = "corrected",
        diabetes: float = 0.2,
        hide_diabetes: bool = False,
        render_mode: str | None = None,
    ) -> None:
        check_variant(variant)
        self.variant, self.hide_diabetes, self.render_mode = variant, hide_diabetes, render_mode
        self.observation_space = gymnasium.spaces.Discrete(N_STATES // 2 if hide_diabetes else N_STATES)
        self.action_space = gymnasium.spaces.Discrete(N_ACTIONS)
        self.initial = initial_law(diabetes)
        self.state = -1  # before the first reset

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Admit a patient; ``options={"diabetes": True}`` (or False) chooses which kind."""
        super().reset(seed=seed)
        law = self.initial
        if options and "diabetes" in options:
            law = initial_law(float(bool(options["diabetes"])))
        self.state = int(self.np_random.choice(N_STATES, p=law))
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Treat the patient for one step."""
        if self.state < 0 or not self.action_space.contains(action):
            raise SettingError(f"action is {action!r}; call reset first, then give a number from 0 to {N_ACTIONS - 1}")
        uniforms = self.np_random.random((4, 1))
        self.state = int(successors(np.array([self.state]), np.array([action]), uniforms, self.variant)[0])
        reward = float(REWARDS[self.state])
        return self._observation(), reward, reward != 0, False, {}

    def render(self) -> str | None:
        """Describe the patient."""
        if self.render_mode is None:
            return None
        text = describe(self.state)
        return text.removeprefix("diabetes; ") if self.hide_diabetes else text

    def _observation(self) -> np.int64:
        return np.int64(observed(self.state) if self.hide_diabetes else self.state)
