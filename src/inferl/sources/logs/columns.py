"""Columns: the role of each column of a log, given by the user or recognised by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import EllipsisType

from inferl.data.arrays import short
from inferl.errors import SettingError

__all__ = ["CONVENTIONS", "ENDED", "Column", "Columns", "choice", "home_of", "recognised", "resolve"]

Column = str | EllipsisType | None
"""Name of a column; ``...``: recognise it by its name; None: there is no such column."""

# Names used by other libraries. A convention applies only if its first two columns are present.
CONVENTIONS: dict[str, dict[str, str]] = {
    "RLlib": {
        "features": "obs",
        "reward": "rewards",
        "next_features": "new_obs",
        "action": "actions",
        "episode": "eps_id",
        "order": "t",
        "terminated": "terminateds",
        "truncated": "truncateds",
        "behaviour_probability": "action_prob",
        "behaviour_log_probability": "action_logp",
    },
    "D4RL": {
        "features": "observations",
        "reward": "rewards",
        "next_features": "next_observations",
        "action": "actions",
        "terminated": "terminals",
        "truncated": "timeouts",
        "behaviour_log_probability": "infos/action_log_probs",
    },
    "LeRobot": {"episode": "episode_index", "order": "frame_index"},
}
# Common names; each applies on its own, and the first that a log has counts.
PLAIN: dict[str, tuple[str, ...]] = {
    "reward": ("reward",),
    "action": ("action",),
    "episode": ("episode",),
    "terminated": ("terminated", "terminateds", "terminal", "terminals", "is_terminal"),
    "truncated": ("truncated", "truncateds", "timeouts", "timeout"),
}
# Flags of the last row of an episode, whether it terminates or is truncated there.
ENDED = ("done", "dones", "next.done", "is_last")


@dataclass(frozen=True)
class Columns:
    """The columns of a log by role; None or empty where a log has none."""

    features: tuple[str, ...]  # of which the features, or the state, are made
    reward: str
    next_features: tuple[str, ...] = ()  # the same of the next state
    action: str | None = None
    episode: str | None = None
    order: str | None = None
    terminated: str | None = None
    truncated: str | None = None
    stream: str | None = None
    time: str | None = None  # when the row was written, for windows
    version: str | None = None  # of the policy
    behaviour_probability: str | None = None
    behaviour_log_probability: str | None = None
    target_probability: tuple[str, ...] = ()
    target_log_probability: tuple[str, ...] = ()
    ratio: tuple[str, ...] = ()
    policy: tuple[str, ...] = ()  # what the target policies look at, beside the features
    fit_behaviour: tuple[str, ...] = ()  # what a fitted behaviour policy depends on

    def to_read(self, available: Sequence[str]) -> list[str]:
        """All columns to read, each once."""
        names = [name for _, columns in self._used() for name in ((columns,) if isinstance(columns, str) else columns)]
        return list(dict.fromkeys(home_of(name, available) or name for name in names))

    def refuse_other(self, part: str, found: Columns) -> None:
        """Refuse a part of a log that would be read otherwise than the parts before it, whose columns these are."""
        if found != self:
            raise SettingError(
                f"{part} would be read as {found}, the files before it as {self}; name the columns that all files "
                "have, and say None (in the shell: none) for the others"
            )

    def __str__(self) -> str:
        return ", ".join(
            f"{role}={columns if isinstance(columns, str) else '+'.join(columns)}" for role, columns in self._used()
        )

    def _used(self) -> list[tuple[str, str | tuple[str, ...]]]:
        return [(f.name, value) for f in fields(self) if (value := getattr(self, f.name))]


def resolve(
    wanted: Mapping[str, object], available: Sequence[str], log: str, policy: bool = False, fit: bool = False
) -> Columns:
    """Turn what the user said about each role into columns of the log.

    Parameters
    ----------
    wanted
        For each role a name, several names, ``...`` (recognise it) or None (there is none).
    available
        The columns of the log.
    log
        Its name, for messages.
    policy
        Whether the target policy itself is given, which needs the actions.
    fit
        Whether the behaviour policy is to be fitted, which needs them too.

    >>> print(resolve({"features": ..., "reward": ...}, ["obs", "rewards", "comment"], "log.csv"))
    features=obs, reward=rewards
    """
    known = recognised(wanted, available)
    if wanted.get("features") not in (..., known.get("features"), (known.get("features"),)):
        known.pop("next_features", None)  # those of other features
    found = {role: known.get(role) if value is ... else value for role, value in wanted.items()}
    columns = {role: _as_names(role, value) for role, value in found.items()}
    if not columns.get("reward"):
        raise SettingError(f"{log}: say which column holds the reward, with reward=; {choice(available)}")
    for role, value in columns.items():
        for name in (value,) if isinstance(value, str) else value or ():
            home = home_of(name, available)
            if home is None:
                raise SettingError(f"{log}: there is no column {name!r} ({role}); {choice(available)}")
            if list(available).count(home) > 1:
                raise SettingError(f"{log} has more than one column {name!r} ({role}); rename one")
    _settle_ratios(wanted, columns, policy, fit)
    return Columns(**columns)  # type: ignore[arg-type]  # the names fit the fields, mypy cannot see it


def home_of(name: str, available: Sequence[str]) -> str | None:
    """Return the column that holds a field: ``obs`` for ``obs.pulse``, unless there is a column of that name.

    >>> home_of("obs.pulse", ["obs", "reward"]), home_of("obs.pulse", ["obs", "obs.pulse"]), home_of("x", [])
    ('obs', 'obs.pulse', None)
    """
    while name not in available and "." in name:
        name = name.rpartition(".")[0]
    return name if name in available else None


def recognised(wanted: Mapping[str, object], available: Sequence[str]) -> dict[str, str]:
    """Return the columns whose names tell their role, by role."""
    known: dict[str, str] = {}
    for names in CONVENTIONS.values():
        if set(list(names.values())[:2]) <= set(available):
            known = {role: name for role, name in names.items() if name in available} | known
    given = [name for value in wanted.values() for name in (value if isinstance(value, list | tuple) else (value,))]
    free = set(available) - {name for name in given if isinstance(name, str)}
    for role, choices in PLAIN.items():
        for name in choices:
            if name in free:
                known.setdefault(role, name)
    ended = [name for name in ENDED if name in free]
    # Such a flag stands for what no other column says, unless the user has named the flags.
    if ended and all(wanted.get(role, ...) is ... for role in ("terminated", "truncated")):
        known.setdefault("truncated" if "terminated" in known else "terminated", ended[0])
    return known


def _as_names(role: str, value: object) -> str | tuple[str, ...] | None:
    many = ("features", "next_features", "target_probability", "target_log_probability", "ratio", "fit_behaviour")
    if value is None or (isinstance(value, str | list) and not value):
        return () if role in many else None
    if isinstance(value, str):
        return (value,) if role in many else value
    if isinstance(value, Sequence) and role in many:
        names = tuple(value)
        if all(isinstance(name, str) for name in names):
            return names
    raise SettingError(f"{role} is {short(value)}; expected the name of a column")


def _settle_ratios(
    wanted: Mapping[str, object], columns: dict[str, str | tuple[str, ...] | None], policy: bool, fit: bool
) -> None:
    """Choose one way to compute ratios, and refuse incomplete ones."""
    behaviour = ("behaviour_probability", "behaviour_log_probability")
    said = [role for role in behaviour if wanted.get(role) not in (..., None)]
    target = [role for role in ("target_probability", "target_log_probability") if columns.get(role)]
    if policy:
        target.append("policy")
    if fit:
        said.append("fit_behaviour")
        if not columns.get("action"):
            raise SettingError("fit_behaviour needs the actions; say which column holds them (action)")
    if len(said) > 1 or len(target) > 1:
        raise SettingError(f"both {' and '.join(said if len(said) > 1 else target)} are given; one is enough")
    if columns.get("ratio"):
        if said or target:
            raise SettingError(f"ratio is given and so is {(said + target)[0]}; give the ratio or both probabilities")
    elif said and not target:
        raise SettingError(
            f"{said[0]} is given, but no target_probability or policy; without both, leave both out (on-policy)"
        )
    elif target and not fit and not any(columns.get(role) for role in behaviour):
        raise SettingError(
            f"{target[0]} is given, but no behaviour_probability: ratios need both; if the log does not have it, "
            "estimate it (fit_behaviour)"
        )
    keep = (
        said[0] if said else "behaviour_log_probability" if columns.get("behaviour_log_probability") else behaviour[0]
    )
    for role in behaviour:
        if role != keep or not target:
            columns[role] = None
    if not policy and not fit:
        columns["action"] = None  # not needed


def choice(available: Sequence[str]) -> str:
    """Say which columns a log has, for a message."""
    names = ", ".join(available)
    return f"the log has the columns {names if len(names) <= 1000 else names[:1000] + ' ...'}"
