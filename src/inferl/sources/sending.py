"""Wrappers that send the steps of a running policy to a service, through its client.

A step is a row whose columns have the names that RLlib gives them, so the service recognises all but `stream`:

- ``obs``, ``actions``, ``rewards``, ``new_obs``, ``terminateds``, ``truncateds``;
- ``eps_id``, a number of its own for each episode, also when the sender is started again, and ``t``, which counts its
  steps: the service sees where rows are missing;
- ``stream``, the client's name and the number of the environment, and ``time``, in seconds since 1970, for windows.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from inferl.data.batches import stacked
from inferl.errors import SettingError
from inferl.features.one_hot import as_features
from inferl.sources.steps import Step, import_gymnasium
from inferl.sources.wrapper import Listener, VectorListener

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.vector import VectorEnv

__all__ = ["ClientWrapper", "Rows", "StepSender", "VectorClientWrapper"]

# Of observations and actions, the further columns of a row, or, of n of each, n values a column.
Further = Callable[[Any, Any], Mapping[str, Any]]


class Rows(Protocol):
    """Takes rows, as `inferl.service.client.Client` does."""

    @property
    def name(self) -> str:
        """Of the sender."""
        ...

    def send_rows(self, rows: list[dict[str, Any]]) -> None:
        """Take rows, and do not wait for the service."""
        ...


class StepSender:
    """Writes steps as rows, and gives them to a client."""

    def __init__(self, client: Rows, features: Any, space: Any) -> None:
        self._client, self._features = client, None if features is None else as_features(features)
        spaces = import_gymnasium().spaces
        plain = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
        if features is None and not isinstance(space, plain):
            raise SettingError(f"observations of {space} are no vectors; give features, which make vectors of them")
        self._episode = secrets.randbits(52)  # the latest; a number that no other sender has used
        self._at: dict[int, tuple[int, int]] = {}  # of each stream, its episode and the steps so far

    def send(self, steps: list[Step], further: Mapping[str, Any]) -> None:
        """Send steps, with the values of further columns."""
        before, after = self._observations(steps)
        now, rows = time.time(), []
        for k, step in enumerate(steps):
            if step.first:
                self._episode += 1
                self._at[step.stream] = self._episode, 0
            episode, t = self._at[step.stream]
            self._at[step.stream] = episode, t + 1
            row = {
                "obs": before[k],
                "actions": step.action if isinstance(step.action, dict | tuple) else _flat(step.action),
                "rewards": step.reward,
                "new_obs": after[k],
                "terminateds": step.terminated,
                "truncateds": step.last and not step.terminated,
                "eps_id": episode,
                "t": t,
                "stream": f"{self._client.name}/{step.stream}",
                "time": now,
            }
            if isinstance(step.action, dict | tuple):  # has no column
                del row["actions"]
            for name, values in further.items():
                if name in row:
                    raise SettingError(f"column {name!r} is that of the steps themselves; choose another name")
                row[name] = values[k]
            rows.append(row)
        self._client.send_rows(rows)

    def _observations(self, steps: list[Step]) -> tuple[Any, Any]:
        before, after = [step.observation for step in steps], [step.next_observation for step in steps]
        if self._features is None:
            return list(map(_flat, before)), list(map(_flat, after))
        phi = self._features(stacked([*before, *after]))
        return phi[: len(steps)], phi[len(steps) :]


def _flat(value: Any) -> Any:
    """Return an observation or an action as a number or a vector."""
    array = np.asarray(value)
    return array.ravel() if array.ndim else array.item()


class ClientWrapper(Listener):
    """Sends the steps of an environment to a service, where an experiment evaluates the policy while it runs.

    The environment behaves as before, and does not wait for the service: the client gathers rows and sends them in a
    thread. Where an episode is truncated, the true last observation is sent; no row leads across a reset. The interval
    of the service is that of an `EvaluatorWrapper` with the same features, discount and time limit, bit for bit; the
    discount and what a time limit means are settings of the experiment.

    Parameters
    ----------
    env
        The environment to watch; for a vector environment use `VectorClientWrapper`.
    client
        An `inferl.service.client.Client`, which several wrappers may share, each with its own `stream`. Closing the
        environment does not close it.
    features
        Turns observations into the features that are sent; a ``Discrete`` space stands for its states. None: the
        observations are sent, numbers or vectors.
    columns
        Function of an observation and the action taken there, which returns further columns of the row, such as
        ``{"action_prob": 0.8, "version": 3}``: the probability with which the action was chosen, for experiments about
        other policies, or the version of the policy.
    stream
        Number of this environment among those of the client.

    Examples
    --------
    >>> import gymnasium
    >>> class Printer:  # instead of Client("http://127.0.0.1:8000", "lake", name="robot-1")
    ...     name = "robot-1"
    ...
    ...     def send_rows(self, rows):
    ...         print([(row["stream"], row["t"], row["obs"], row["actions"], row["new_obs"]) for row in rows])
    >>> env = ClientWrapper(gymnasium.make("FrozenLake-v1", is_slippery=False), Printer())
    >>> observation, info = env.reset(seed=0)
    >>> for action in (2, 2):
    ...     observation, reward, terminated, truncated, info = env.step(action)
    [('robot-1/0', 0, 0, 2, 1)]
    [('robot-1/0', 1, 1, 2, 2)]
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        client: Rows,
        features: Any = None,
        columns: Further | None = None,
        stream: int = 0,
    ) -> None:
        super().__init__(env, stream)
        self._sender, self._columns = StepSender(client, features, env.observation_space), columns

    def heard(self, step: Step, info: dict[str, Any]) -> None:
        """Send the step."""
        further = {} if self._columns is None else self._columns(step.observation, step.action)
        self._sender.send([step], {name: [value] for name, value in further.items()})


class VectorClientWrapper(VectorListener):
    """`ClientWrapper` for a vector environment, under any autoreset mode.

    Sub-environment i is stream ``stream + i``. The service evaluates a step when it has the next one of its stream, or
    the end of the episode; so it may see the streams in another order than an evaluator on the spot, and the last
    digits of the interval may differ.

    Parameters
    ----------
    env
        The vector environment to watch.
    client, features
        As for `ClientWrapper`.
    columns
        Function of n observations and n actions, which returns n values for each further column.
    stream
        Number of the first sub-environment.

    Examples
    --------
    >>> import gymnasium
    >>> class Printer:
    ...     name = "robots"
    ...
    ...     def send_rows(self, rows):
    ...         print([(row["stream"], row["t"], row["obs"], row["actions"], row["new_obs"]) for row in rows])
    >>> envs = gymnasium.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync", is_slippery=False)
    >>> envs = VectorClientWrapper(envs, Printer())
    >>> observations, infos = envs.reset(seed=0)
    >>> result = envs.step(np.array([2, 1]))
    [('robots/0', 0, 0, 2, 1), ('robots/1', 0, 0, 1, 4)]
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        client: Rows,
        features: Any = None,
        columns: Further | None = None,
        stream: int = 0,
    ) -> None:
        super().__init__(env, stream)
        self._sender, self._columns = StepSender(client, features, env.single_observation_space), columns

    def heard(self, steps: list[Step], result: tuple[Any, Any, Any, Any, dict[str, Any]]) -> None:
        """Send the steps."""
        further: Mapping[str, Any] = {}
        if self._columns is not None:
            observations, actions = ([getattr(step, what) for step in steps] for what in ("observation", "action"))
            further = self._columns(stacked(observations), stacked(actions))
        self._sender.send(steps, further)
