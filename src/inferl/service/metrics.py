"""The state of all experiments as metrics of Prometheus."""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from inferl.integrations.prometheus import HELP, Metric, exposition
from inferl.service.snapshots import worst

__all__ = ["metrics"]

STATES = ("passed", "failed", "not available")


def metrics(hub: Any, streams: int) -> str:
    """Return the text of `/metrics`; `streams` is the number of pages that are open."""
    estimate = Metric("inferl_estimate", HELP["estimate"])
    lower, upper = Metric("inferl_lower", HELP["lower"]), Metric("inferl_upper", HELP["upper"])
    error = Metric("inferl_standard_error", HELP["standard_error"])
    threshold = Metric("inferl_threshold", "Number that a decision waits for.")
    transitions = Metric("inferl_transitions", HELP["transitions"])
    episodes = Metric("inferl_episodes", "Episodes completed.")
    check = Metric("inferl_check", "Whether a check is in a state: 1 for one of its states, 0 for the others.")
    failed = Metric("inferl_failed_checks", HELP["failed_checks"])
    when = Metric("inferl_snapshot_timestamp_seconds", "When the interval was read, in seconds since 1970.")
    rows = Metric("inferl_rows_total", "Rows recorded since the experiment began.", "counter")
    bad = Metric("inferl_bad_rows_total", "Rows left out because they do not fit those before them.", "counter")
    size = Metric("inferl_journal_bytes_total", "Bytes recorded since the experiment began.", "counter")
    sync = Metric("inferl_journal_sync_seconds", "Time in which the disk was waited for.", "summary")
    lag = Metric("inferl_lag_rows", "Rows recorded and not yet evaluated.")
    late = Metric("inferl_lag_seconds", "How long the oldest row that is not yet evaluated has waited.")
    stopped = Metric("inferl_evaluation_failed", "Whether the evaluation has stopped with an error.")
    unwritten = Metric("inferl_journal_failed", "Whether the journal cannot be written.")
    sent = Metric("inferl_webhook_messages_total", "Messages to a webhook, by what became of them.", "counter")
    unsent = Metric("inferl_webhook_waiting", "Messages that a webhook has not yet taken.")
    started = Metric("inferl_start_time_seconds", "When the server started, in seconds since 1970.")
    pages = Metric("inferl_event_streams", "Streams of events that are open, such as those of live pages.")
    build = Metric("inferl_build_info", "1; the version is in the label.")
    for name, experiment in hub.experiments.items():
        rows.add(experiment.journal.rows, experiment=name)
        bad.add(experiment.bad_rows, experiment=name)
        size.add(experiment.journal.durable, experiment=name)
        sync.add(experiment.journal.sync_seconds, "_sum", experiment=name)
        sync.add(experiment.journal.syncs, "_count", experiment=name)
        unwritten.add(experiment.journal.failure is not None, experiment=name)
        lag.add(experiment.lag_rows, experiment=name)
        late.add(experiment.lag_seconds, experiment=name)
        stopped.add(experiment.failure is not None, experiment=name)
        now = experiment.run_snapshot
        if now is None:
            continue
        transitions.add(now["n"], experiment=name)
        episodes.add(now["episodes"], experiment=name)
        when.add(now["time"], experiment=name)
        checks = worst(now["checks"])
        failed.add(sum(one["status"] == "failed" for one in checks), experiment=name)
        for one in checks:
            for state in STATES:
                check.add(one["status"] == state, experiment=name, check=one["name"], state=state)
        for target in now["targets"]:
            labels = {"experiment": name, "target": target["name"] or "value"}
            estimate.add(_or(target, "estimate", math.nan), **labels)
            error.add(_or(target, "standard_error", math.inf), **labels)
            kinds = {"pointwise": "", "anytime": "anytime_"}  # a window has no anytime interval
            for kind, prefix in kinds.items() if now["decided_by"] == "anytime" else [("pointwise", "")]:
                of_kind = labels | {"kind": kind, "level": f"{now['level']:g}"}
                lower.add(_or(target, f"{prefix}lower", -math.inf), **of_kind)
                upper.add(_or(target, f"{prefix}upper", math.inf), **of_kind)
            for number in now["thresholds"]:
                threshold.add(number, **labels, number=_shortest(number))
    for i, sender in enumerate(hub.webhooks.senders):
        labels = {"hook": f"{i}", "host": sender.hook.name}
        sent.add(sender.delivered, result="delivered", **labels)
        sent.add(sender.given_up, result="given up", **labels)
        unsent.add(sender.waiting, **labels)
    started.add(hub.started)
    pages.add(streams)
    build.add(1, version=version("inferl"))
    return exposition(
        [
            *(estimate, lower, upper, error, threshold, transitions, episodes, check, failed, when),
            *(rows, bad, size, sync, lag, late, stopped, unwritten, sent, unsent, started, pages, build),
        ]
    )


def _shortest(number: float) -> str:
    """Write a number in few digits, and so that no other number is written in the same way.

    >>> _shortest(4.0), _shortest(0.5000001)
    ('4', '0.5000001')
    """
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def _or(target: Mapping[str, Any], column: str, missing: float) -> float:
    """Return a number, or what stands for none: JSON has no infinity, Prometheus does."""
    return missing if target[column] is None else target[column]
