"""Evaluating a log in parts: by several processes, by Ray, or by batch jobs that each do some of them."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import typer

from inferl.cli.answering import Answer, check_reply, give
from inferl.cli.building import make_table
from inferl.cli.following import BASELINES, INTERRUPTED, asked, check_aim, decision
from inferl.cli.options import LogWorkers, Reply, Settings, Workers
from inferl.display import as_json
from inferl.errors import InferlError, SettingError
from inferl.evaluation.watching import progress_bar
from inferl.interval import brief, check_level

__all__ = ["evaluate_in_parts", "executor_of", "rollout_in_parts"]


def evaluate_in_parts(options: dict[str, Any], settings: Settings, team: LogWorkers, reply: Reply) -> None:
    """Evaluate the parts of a log, and print the answer; or, with ``--part``, evaluate some of them."""
    from inferl.scale import plans
    from inferl.scale.folder import Folder

    check_level(settings.level)
    check_aim(settings)
    check_reply(reply, None)
    if settings.estimator in BASELINES:
        raise SettingError(f"--estimator {settings.estimator} is computed by one process; leave --workers and --on out")
    check_no_window(settings)
    share = _share(team.part)
    if share is not None and settings.checkpoint is None:
        raise SettingError("--part needs --checkpoint, a folder for the files that inferl merge joins")
    folder = None if settings.checkpoint is None else Folder.at(settings.checkpoint)
    executor = executor_of(team)
    plan = plans.Plan.of(make_table(options), options, plans.ROWS)
    source, n_policies = plan.first
    check_reply(reply, n_policies)
    blank = asked("evaluate", options, settings, source, n_policies)
    work = plan.work(blank)
    if share is not None:
        assert folder is not None
        return _evaluate_share(work, executor, folder, share, reply)
    _answer(work, executor, settings, folder, reply)


def check_no_window(settings: Settings) -> None:
    """Refuse a window of data that are cut into parts."""
    if settings.window is not None or settings.pane is not None:
        raise SettingError("a window follows one stream from its beginning; leave --workers, --on and --part out")


def rollout_in_parts(options: dict[str, Any], settings: Settings, team: Workers, reply: Reply) -> None:
    """Play the episodes of a rollout by several workers, and print the answer."""
    from inferl.cli.building import make_rollout
    from inferl.evaluation.policy import MOST, USUAL
    from inferl.scale.folder import Folder
    from inferl.scale.rollouts import Simulation

    check_level(settings.level)
    check_aim(settings)
    check_reply(reply, 1)
    if settings.estimator in BASELINES:
        raise SettingError(f"--estimator {settings.estimator} is computed by one process; leave --workers and --on out")
    check_no_window(settings)
    folder = None if settings.checkpoint is None else Folder.at(settings.checkpoint)
    executor = executor_of(team)
    stops = settings.until_width is not None or settings.until_lower is not None
    most = options.get("episodes", MOST if stops else USUAL)
    simulation = Simulation.of(partial(make_rollout, options), most)
    try:
        work = simulation.work(asked("rollout", options, settings, simulation.source, 1))
        _answer(work, executor, settings, folder, reply)
    finally:
        simulation.source.close()


def _answer(work: Any, executor: Any, settings: Settings, folder: Any, reply: Reply) -> None:
    """Do the work, show the interval meanwhile, save the run, and answer."""
    from inferl.scale.folder import ALL

    stops = decision({"until_width": settings.until_width, "until_lower": settings.until_lower})
    name = "run" if settings.checkpoint is None else settings.checkpoint.name
    prefix = None
    try:
        with progress_bar(name, False if reply.quiet or reply.json_lines else None) as show:
            shown = 0
            for prefix in work.follow(executor, settings.checkpoint):
                if not prefix.n:
                    continue
                if show is not None:
                    lines = "; ".join(brief(i.estimate, i.lower, i.upper) for i in prefix.whole().interval())
                    show(f"{name}: {lines}", prefix.number, len(work.parts))
                if len(prefix.readings) > shown and reply.json_lines and not reply.quiet:
                    typer.echo(as_json(Answer.of(work.finished(prefix)).content(final=False)))
                shown = len(prefix.readings)
                if settings.until_width is not None or settings.until_lower is not None:
                    run = work.finished(prefix)
                    if stops(run):
                        break
        run = work.finished(prefix)
    except KeyboardInterrupt:
        kept = "" if folder is None else f"; finished parts are in {folder.path}: the same command continues"
        if prefix is not None and prefix.n:
            so_far = Answer.of(work.finished(prefix), name)
            typer.echo(as_json(so_far.content(final=False)) if reply.json_lines else so_far.brief)
        typer.echo(f"inferl: interrupted{kept}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except InferlError as error:
        if folder is not None:
            error.args = (f"{error}; finished parts are in {folder.path}: the same command continues", *error.args[1:])
        raise
    if folder is not None:
        run.save(folder.path / ALL)
    give(Answer.of(run, name), reply)


def executor_of(team: Workers) -> Any:
    """Return who does the work: a number of processes, or Ray."""
    from inferl.scale import ray

    if team.on is None:
        if team.workers in (None, "all"):
            return None
        if not team.workers.isdecimal() or int(team.workers) < 1:
            raise SettingError(f"--workers is {team.workers!r}; give a number, or all")
        return int(team.workers)
    if team.workers is not None:
        raise SettingError("--workers is for processes on this machine; on Ray, leave it out")
    if team.on != "ray" and not team.on.startswith("ray://"):
        raise SettingError(f"--on is {team.on!r}; say ray, or ray://HOST:10001")
    return ray(None if team.on == "ray" else team.on)


def _share(text: str | None) -> tuple[int, int] | None:
    """Read ``17/64``.

    >>> _share("17/64"), _share(None)
    ((17, 64), None)
    """
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise SettingError(f"--part is {text!r}; write I/N with I from 1 to N, such as 17/64")
    return int(found[1]), int(found[2])


def _evaluate_share(work: Any, executor: Any, folder: Any, share: tuple[int, int], reply: Reply) -> None:
    """Evaluate the parts of one batch job, as far as they are not in the folder yet."""
    number, (job, jobs) = len(work.parts), share
    mine = range(number * (job - 1) // jobs, number * job // jobs)
    todo = [i for i in mine if folder.load(i + 1, work.keys[i]) is None]
    errors = {i: future.exception() for i, future in work.compute(todo, executor, folder)}
    for i in todo:
        if errors[i] is not None:
            raise errors[i]
    which = f"parts {mine.start + 1} to {mine.stop} of {number}" if len(mine) else f"none of the {number} parts"
    if not reply.quiet:
        typer.echo(
            f"{which} are in {folder.path}; when all are: inferl merge {folder.path}/part-*.inferl -o all.inferl"
        )
