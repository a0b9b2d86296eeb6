"""``inferl serve``: experiments that are evaluated while their transitions arrive over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inferl.cli.options import MOMENTARY, Settings
from inferl.cli.wording import in_file
from inferl.errors import SettingError

if TYPE_CHECKING:
    from inferl.service.settings import Question
    from inferl.service.settings import Settings as ServiceSettings

__all__ = ["serve"]

# Options of ``inferl evaluate`` that say where rows come from, or when to stop.
OTHERS = (
    *("file", "follow", "client_settings", "n_rows", "fit_behaviour", "until_width", "until_lower"),
    *(name for name in MOMENTARY if name not in ("target", "level", "kind")),
)


def serve(
    settings_file: Annotated[Path, typer.Argument(metavar="SETTINGS", help="A TOML file.")],
    host: Annotated[
        str | None, typer.Option(help="Address to listen on, whatever the settings say; 0.0.0.0: all addresses.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="The same for the port; 0: any free one.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Read the settings, say what they mean, and stop.")] = False,
    new_token: Annotated[
        str | None,
        typer.Option(
            help="Make a token, print it once, add its hash to the file of tokens, and stop.", metavar="read|write"
        ),
    ] = None,
) -> None:
    r"""Evaluate policies while they run: take transitions over HTTP, and answer with intervals.

    The settings name experiments; each has the options of inferl evaluate:

        \[experiments.checkout]
        state = "page"
        n-states = 12
        discount = 0.95

    Transitions are sent to /v1/experiments/checkout/transitions, by
    inferl.service.client or by any other program. What was answered counts
    exactly once, also after a kill; stop with Ctrl-C or SIGTERM.

    [bold]inferl serve service.toml --check[/bold]

    [bold]inferl serve service.toml[/bold]

    [bold]inferl evaluate journal://live/checkout/journal --state page --n-states 12 --discount 0.95[/bold]
    """
    from inferl.service.settings import Settings as ServiceSettings

    settings = ServiceSettings.read(settings_file, question)
    settings = replace(settings, host=host or settings.host, port=settings.port if port is None else port)
    if new_token is not None:
        return _add_token(settings.tokens, new_token)
    from inferl.service import app

    if check:
        app.check(settings)
        typer.echo(_meaning(settings))
        return
    app.serve(settings, lambda address: typer.echo(f"inferl: listening on {address}; stop with Ctrl-C"))


def question(name: str, said: dict[str, Any]) -> Question:
    """Return what an experiment asks, from its table in the settings."""
    try:
        return _question(said)
    except SettingError as error:
        raise SettingError(f"experiment {name}: {in_file(str(error))}") from None


def _question(said: dict[str, Any]) -> Question:
    from inferl.cli.building import make_evaluator, make_table, stored, with_paths
    from inferl.cli.config import given
    from inferl.cli.following import BASELINES, asked, check_aim
    from inferl.cli.pace import Pace
    from inferl.interval import check_level
    from inferl.methods.registry import method_named
    from inferl.service.settings import Question
    from inferl.sources.logs.inputs.streams import allowed_bad

    said = dict(said)
    thresholds = said.pop("thresholds", [])
    if not isinstance(thresholds, list) or not all(type(one) in (int, float) for one in thresholds):
        raise SettingError(f"thresholds is {thresholds!r:.60}; it must be a list of numbers")
    params = given("evaluate", said, "an experiment", OTHERS, "journal://")
    settings = Settings(**{f.name: params[f.name] for f in fields(Settings)})
    options = stored({key: value for key, value in params.items() if key not in OTHERS}, MOMENTARY)
    if params["policy"] is not None:
        options["policy"] = with_paths(params["policy"])
    if settings.estimator in BASELINES:
        raise SettingError(f"estimator {settings.estimator} is computed in one go; leave it out")
    check_level(settings.level)
    aim, _ = check_aim(settings)
    every = Pace.parsed(settings.every)
    if not every.seconds:
        raise SettingError(f"every is {settings.every!r}; give a time, such as 10s")
    method = method_named(settings.method)

    def source(stream: Any) -> Any:
        allowed = allowed_bad(stream, params["skip_bad"])
        return replace(make_table(options | {"file": ("-",)}), source=stream, skip_bad=allowed)

    of_start = any(isinstance(target, str) for target in (aim if isinstance(aim, tuple) else (aim,)))

    def check_dimension(dimension: int, n_policies: int = 1) -> None:
        # Of a table, too, although only the states that are seen count: a row must not be the one that is too many.
        method.admit_vectors(make_evaluator(options, dimension, n_policies, of_start).algorithm.dimension)

    def run(table: Any, n_policies: int) -> Any:
        file = f"journal://{table.source.folder}"
        return asked("evaluate", options | {"file": (file,), "follow": True}, settings, table, n_policies)

    source(None)
    check_dimension(options.get("n_states", 1))
    about = {key: value for key, value in options.items() if key not in ("every", "skip_bad")}
    about |= {"target": settings.target, "level": settings.level, "kind": settings.kind}
    about = {key: value for key, value in about.items() if value is not None}
    one_version = settings.window is None
    return Question(
        about, source, check_dimension, run, one_version, every.seconds, tuple(map(float, thresholds)), in_file
    )


def _meaning(settings: ServiceSettings) -> str:
    """Write what settings mean, in their own words."""
    from inferl.service.webhooks import Hook

    def listed(content: Mapping[str, Any]) -> str:
        return ", ".join(f"{name.replace('_', '-')} = {_said(value)}" for name, value in content.items())

    lines = [f"folder: {settings.folder}", f"listens on: {settings.host}:{settings.port}"]
    for name, one in settings.experiments.items():
        thresholds = {"thresholds": one.thresholds} if one.thresholds else {}
        lines.append(f"{name}: {listed({**one.about, **thresholds})}")
    lines.append(f"limits: {listed(asdict(settings.limits))}")
    for hook in (Hook.of(table, list(settings.experiments)) for table in settings.webhooks):
        lines.append(f"webhook: {hook.name} is told {_said(hook.events)} of {_said(hook.experiments)}")
    return "\n".join(lines)


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _add_token(path: Path | None, scope: str) -> None:
    from inferl.service.tokens import new_token

    if path is None:
        raise SettingError('the settings name no file of tokens; add: tokens = "tokens.txt"')
    token, line = new_token(scope)
    with path.open("a", encoding="utf-8") as file:
        path.chmod(0o600)
        file.write(line + "\n")
    typer.echo(token)
