"""Building a source and an evaluator from the options of a command."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferl.errors import SettingError
from inferl.methods.registry import method_named
from inferl.methods.window import seconds_of

if TYPE_CHECKING:
    from inferl.evaluator import Evaluator
    from inferl.methods.window import Window
    from inferl.sources import Rollout, Source, Table

__all__ = [
    "absolute",
    "aimed_at",
    "asked_kind",
    "check_writable",
    "code_in",
    "located",
    "make_evaluator",
    "make_rollout",
    "make_source",
    "make_table",
    "make_window",
    "map_in",
    "parsed_start",
    "parsed_target",
    "parsed_targets",
    "stored",
    "with_paths",
]

_COLUMNS = (
    *("features", "state", "next_features", "reward", "episode", "order", "terminated", "truncated", "stream"),
    *("time", "version"),
    *("action", "behaviour_probability", "behaviour_log_probability"),
    *("target_probability", "target_log_probability", "ratio"),
)
_PLAIN = ("n_states", "discount", "clip", "episodes_end", "gaps", "skip_bad", "time_limit", "n_rows")


def stored(params: Mapping[str, Any], leave_out: tuple[str, ...]) -> dict[str, Any]:
    """Return the options that define a run, as values that a run file can hold."""
    kept = {name: value for name, value in params.items() if name not in leave_out and value is not None}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()}


def asked_kind(kind: str | None, until_width: float | None, until_lower: float | None) -> str | None:
    """Return the kind of interval: stopping as soon as the interval suffices needs an anytime interval."""
    if until_width is None and until_lower is None:
        return kind
    if kind not in (None, "anytime"):
        raise SettingError(f"--until-width and --until-lower need an anytime interval; leave --kind {kind} out")
    return "anytime"


def check_writable(path: Path | None) -> None:
    """Refuse a path that cannot be written to, before the work is done and not after it."""
    if path is not None and path.exists() and not path.is_file():
        raise SettingError(f"cannot write {path}: it is a folder or a device; name a file")
    if path is not None and not os.access(path.absolute().parent, os.W_OK):
        raise SettingError(f"cannot write {path}: there is no folder {path.parent}, or it cannot be written to")


def make_source(command: str, options: Mapping[str, Any]) -> Source:
    """Build the source that the options of a command describe."""
    makers: dict[str, Callable[[Mapping[str, Any]], Source]] = {"evaluate": make_table, "rollout": make_rollout}
    return makers[command](options)


def make_table(options: Mapping[str, Any]) -> Table:
    """Open the log that the options of ``inferl evaluate`` describe."""
    from inferl.sources import table
    from inferl.sources.logs.inputs.streams import followed, read_settings

    said: dict[str, Any] = {name: _columns(options[name]) for name in _COLUMNS if name in options}
    for text in map_in(options):
        if ":" not in text:
            raise SettingError(
                "--features and --state are both given: the states of a table are its features; leave one out, or give "
                "a feature map of the state, --features module:name"
            )
        said["features"] = _imported(text)
    plain = {name: options[name] for name in _PLAIN if name in options}
    if "idle_timeout" in options:
        plain["idle_timeout"] = seconds_of(options["idle_timeout"])
        if plain["idle_timeout"] is None:
            raise SettingError(f"--idle-timeout is {options['idle_timeout']!r}; give a time, such as 90s, 30m or 2h")
    policies = {text: _imported(text) if code_in(text) else text for text in _names(options.get("policy", ""))}
    policy = policies if len(policies) > 1 else next(iter(policies.values()), None)
    fit = options.get("fit_behaviour")
    settings = read_settings(options["client_settings"]) if "client_settings" in options else None
    source = followed(list(options["file"]), settings, options.get("follow", False))
    return table(source, **said, policy=policy, fit_behaviour=fit, **plain)


def map_in(options: Mapping[str, Any]) -> list[str]:
    """Return the feature map of a log that is code, ``module:name``: features beside a state are no formula.

    >>> map_in({"features": "hr:bp"}), map_in({"features": "my_maps:tiles", "state": "hr,bp"})
    ([], ['my_maps:tiles'])
    """
    return [options["features"]] if {"features", "state"} <= set(options) and options["features"] != "none" else []


def code_in(policies: str) -> list[str]:
    """Return those of the target policies that are code, ``module:name``, and not files.

    >>> code_in("my_policies:careful, probabilities.csv")
    ['my_policies:careful']
    """
    return [text for text in _names(policies) if ":" in text and not Path(text).is_file()]


def with_paths(policies: str) -> str:
    """Return the target policies with the absolute paths of files, so that a run can be resumed from anywhere."""
    return ",".join(str(Path(text).absolute()) if Path(text).is_file() else text for text in _names(policies))


def absolute(file: str) -> str:
    """Return the path of a file, whatever the current folder will be when a run is resumed.

    >>> absolute("-"), absolute("s3://bucket/log"), absolute("/logs/*.csv"), absolute("journal:///live/steps/journal")
    ('-', 's3://bucket/log', '/logs/*.csv', 'journal:///live/steps/journal')
    """
    from inferl.sources.logs.inputs.files import is_uri
    from inferl.sources.logs.inputs.journal import folder_of

    if file.startswith("journal://"):
        return f"journal://{folder_of(file)}"
    return file if file == "-" or is_uri(file) else str(Path(file).absolute())


def _columns(text: str) -> str | tuple[str, ...] | None:
    """Read ``a``, ``a,b`` or ``none``.

    >>> _columns("hr,bp"), _columns("hr + poly(age, 2)"), _columns("none")
    (('hr', 'bp'), 'hr + poly(age, 2)', None)
    """
    if text == "none":
        return None
    names = _names(text)
    return names[0] if len(names) == 1 else names


def _names(text: str) -> tuple[str, ...]:
    """Split at commas, apart from those in the brackets of a formula."""
    return tuple(name.strip() for name in re.split(r",(?![^()]*\))", text) if name.strip())


def make_evaluator(
    options: Mapping[str, Any], dimension: int, n_policies: int = 1, by_starts: bool = False, start: Any = None
) -> Evaluator:
    """Build the evaluator; for several target policies, one for all of them.

    With `by_starts`, the target is the value of the start distribution: TD by least squares becomes `DoublyRobust`, and
    visits to the state `start`, if there is one, are starts.
    """
    import inferl
    from inferl.evaluation.log import for_policies

    name, trace, steps = options["algorithm"], options["trace"], options["steps"]
    if trace and name not in ("td", "emphatic"):
        raise SettingError(f"{name} has no trace; leave --trace out, or use td or emphatic")
    if steps != 1 and name != "nstep":
        raise SettingError(f"--steps is for nstep, not for {name}")
    kinds: dict[str, Any] = {
        "td": inferl.TD,
        "nstep": inferl.NStepTD,
        "gtd": inferl.GTD,
        "gtd2": inferl.GTD2,
        "tdc": inferl.TDC,
        "emphatic": inferl.EmphaticTD,
        "q": inferl.QEvaluation,
    }
    settings = {"trace": trace} if trace else {"n": steps} if name == "nstep" else {}
    algorithm = kinds[name](dimension, **settings)
    if options["estimator"] == "average":
        if name != "td" or n_policies > 1 or "start" in options:
            raise SettingError(
                "--estimator average is on-policy, without a start; leave --algorithm, ratios and --start out"
            )
        average = inferl.AverageReward(dimension)
        method = method_named(options["method"]).from_options(options, average)
        return inferl.Evaluator(average, method, window=make_window(options))
    by_starts = by_starts and name == "td" and method_named(options["method"]).solves
    if "start" in options and not by_starts:
        raise SettingError("--start needs --algorithm td, a method that solves (least-squares) and no --target")
    if by_starts:
        algorithm = inferl.DoublyRobust(algorithm, start=start)
    whole = for_policies(algorithm, n_policies)
    method = method_named(options["method"]).from_options(options, whole)
    return inferl.Evaluator(whole, method, window=make_window(options))


def make_window(options: Mapping[str, Any]) -> Window | None:
    """Return the window that the options ask for.

    >>> make_window({"window": 24, "pane": "1h", "time": "at"}), make_window({})
    (Window(panes=24, every='1h'), None)
    """
    from inferl.methods.window import Window

    panes, every = options.get("window"), options.get("pane")
    if panes is None and every is None:
        return None
    if panes is None or every is None:
        raise SettingError("a window needs both: --window 24 --pane 1h, its number of panes and their length")
    if seconds_of(every) is None and not every.strip().isdecimal():
        raise SettingError(f"--pane is {every!r}; give a time, such as 1h, or a number of transitions, such as 100000")
    if seconds_of(every) is not None and "time" not in options:
        raise SettingError(f"panes of {every} need the time of each row; name its column: --time")
    return Window(panes, every if seconds_of(every) is not None else int(every))


def aimed_at(estimator: str, target: Any, **others: Any) -> Any:
    """Return the target of a run; only the start distribution has several estimators.

    A baseline is computed in one go, and accepts none of the `others`.
    """
    given = [f"--{name.replace('_', '-')}" for name, value in others.items() if value is not None]
    if given and estimator not in ("value", "fitted", "average"):
        raise SettingError(f"--estimator {estimator} has no {', '.join(given)}; leave it out")
    if estimator != "value" and not isinstance(target, str):
        raise SettingError(f"--estimator {estimator} is for the start distribution; leave --target out")
    return estimator if estimator in ("fitted", "average") else target


def parsed_targets(texts: Sequence[str]) -> Any:
    """Read one target, or a tuple of several."""
    targets = tuple(map(parsed_target, texts))
    return targets if len(targets) > 1 else targets[0]


def parsed_target(text: str) -> Any:
    """Read ``start``, the number of a state, features, or values of the columns of a log.

    >>> parsed_target("start"), parsed_target("3"), parsed_target("0.5,1"), parsed_target("ward=icu,hr=80")
    ('start', 3, array([0.5, 1. ]), {'ward': 'icu', 'hr': '80'})
    """
    import numpy as np

    if text == "start":
        return text
    if "=" in text:
        return dict(_assignment(part) for part in text.split(","))
    try:
        return np.array([float(part) for part in text.split(",") if part]) if not text.isdecimal() else int(text)
    except ValueError:
        raise SettingError(
            f"target is {text!r}; say start, the number of a state, features such as 0.1,2, or values of columns, "
            "such as ward=icu,hr=80"
        ) from None


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise SettingError(f"{text!r} is no value of a column; write name=value,name=value")
    return name.strip(), value.strip()


def located(target: Any, source: Source) -> Any:
    """Return a target, or several, with values of columns replaced by the features or the state that they give."""
    import numpy as np

    from inferl.runs import NamedTarget

    if isinstance(target, tuple):
        return tuple(located(one, source) for one in target)
    if not isinstance(target, dict):
        return target
    name = ",".join(f"{column}={value}" for column, value in target.items())
    return NamedTarget(name, np.asarray(_state(target, source)))


def parsed_start(text: str | None, source: Source) -> Any:
    """Read the state at which a stream without episodes starts, if there is one."""
    start = None if text is None else parsed_target(text)
    return _state(start, source) if isinstance(start, dict) else start


def _state(values: dict[str, str], source: Source) -> Any:
    if not hasattr(source, "at"):
        raise SettingError("values of columns are targets of a log; give the number of a state, or features")
    return source.at(**values)


def make_rollout(options: Mapping[str, Any]) -> Rollout:
    """Make the environment and the policy that the options of ``inferl rollout`` describe."""
    from inferl.evaluation.policy import MOST, USUAL
    from inferl.features.named import is_name
    from inferl.policies import Uniform
    from inferl.sources import rollout
    from inferl.sources.steps import import_gymnasium

    gymnasium = import_gymnasium()
    import inferl.environments  # noqa: F401 (registers ours with Gymnasium)

    settings = dict(_setting(text) for text in options.get("env_option", ()))
    try:
        env = gymnasium.make(options["env"], **settings)
    except (gymnasium.error.Error, TypeError) as error:
        raise SettingError(f"Gymnasium cannot make {options['env']!r}: {error}") from None
    policy = Uniform(env.action_space) if options["policy"] == "random" else _imported(options["policy"])
    named = options.get("features", "auto" if _needs_features(options) else None)
    features = named if named is None or is_name(named) else _imported(named)
    watched = "until_width" in options or "until_lower" in options
    said: dict[str, Any] = {name: options.get(name) for name in ("seed", "time_limit", "num_envs")}
    said["episodes"] = options.get("episodes", MOST if watched else USUAL)
    return rollout(env, policy, features, options["discount"], **said)


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise SettingError(f"--env-option is {text!r}; write name=value")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _imported(text: str) -> Any:
    """Import ``module:name``, also from the current folder."""
    module, colon, name = text.partition(":")
    if not colon:
        raise SettingError(f"cannot import {text!r}; write module:name, for example my_policy:act")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SettingError(f"cannot import {text}: {error}") from None


def _needs_features(options: Mapping[str, Any]) -> bool:
    """Whether a rollout asks for more than returns can say.

    >>> _needs_features({"time_limit": "cut"}), _needs_features({"discount": 0.99})
    (True, False)
    """
    return (
        options.get("time_limit") == "cut"
        or options.get("estimator") == "fitted"
        or options.get("algorithm", "td") != "td"
        or any(target != "start" for target in options.get("target", ()))
    )
