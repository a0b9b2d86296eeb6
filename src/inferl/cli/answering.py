"""Answering: the report of a command as text, as JSON or as a page, and the gates that it must pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import typer

from inferl.cli.options import Form, Reply
from inferl.cli.wording import in_shell
from inferl.diagnostics import Report
from inferl.display import as_json
from inferl.errors import SettingError
from inferl.interval import Interval
from inferl.runs import Run

__all__ = ["Answer", "check_output", "check_reply", "give", "show"]


@dataclass(frozen=True)
class Answer:
    """What a command answers: a report, the differences between policies, and names where there are several numbers."""

    report: Report
    names: tuple[str, ...] = ()  # empty: there is one number
    differences: Interval | None = None
    difference_names: tuple[str, ...] = ()
    runs: Mapping[str, Run] = field(default_factory=dict)  # for a page

    @classmethod
    def of(cls, run: Run, name: str = "run") -> Answer:
        """Read a run."""
        return cls(run.report(), run.names, run.differences(), run.difference_names, {name: run})

    def content(self, final: bool) -> dict[str, Any]:
        """Return the content of a line of JSON; the keys are the same for every line of every command."""
        report = in_shell(self.report.to_dict())
        apart = None if self.differences is None else in_shell(self.differences.to_dict())
        return {
            "final": final,
            "interval": _named(report["interval"], self.names),
            "differences": None if apart is None else _named(apart, self.difference_names),
            "checks": report["checks"],
            "facts": report["facts"],
        }

    def __str__(self) -> str:
        return self._text(str(self.report))

    @property
    def brief(self) -> str:
        """The intervals, with a note for each failed check."""
        return self._text(str(self.report.interval))

    def _text(self, report: str) -> str:
        lines = _with_names(report, self.names)
        if self.differences is not None:
            lines += ["each policy minus the first, from the same data"]
            lines += _with_names(str(self.differences), self.difference_names)
        return "\n".join(lines)


def _named(interval: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {"names": list(names) or None, **interval}


def _with_names(text: str, names: tuple[str, ...]) -> list[str]:
    """Put names before the first lines of a text, which is put into the words of the shell."""
    lines = str(in_shell(text)).splitlines()
    return [f"{name}: {line}" for name, line in zip(names, lines, strict=False)] + lines[len(names) :]


def check_reply(reply: Reply, policies: int | None, page: bool = True) -> None:
    """Refuse, before the work is done and not after it, what cannot be written or decided; None: not known yet."""
    if reply.least_difference is not None and policies == 1:
        raise SettingError("--require-difference compares target policies, and there is one; name several: --ratio a,b")
    check_output(reply, page)


def check_output(form: Form, page: bool = True) -> None:
    """Refuse, before the work is done, a file that cannot be written."""
    from inferl.cli.building import check_writable

    if form.output is None:
        return
    endings = (".json", ".html") if page else (".json",)
    if form.output.suffix not in endings:
        raise SettingError(f"cannot write {form.output}: its name must end in {' or '.join(endings)}")
    check_writable(form.output)


def give(answer: Answer, reply: Reply) -> None:
    """Print the answer, write it to a file, and exit with code 1 if a gate is not met."""
    show(answer.content(final=True), str(answer), answer.brief, answer.runs, reply)
    _judge(answer, reply)


def show(content: dict[str, Any], text: str, brief: str, runs: Mapping[str, Run], form: Form) -> None:
    """Print an answer as JSON, as text or briefly, and write it to a file: JSON, or a page about the runs."""
    typer.echo(as_json(content) if form.json_lines else brief if form.quiet else text)
    if form.output is None:
        return
    if form.output.suffix == ".json":
        form.output.write_text(as_json(content, indent=2) + "\n", encoding="utf-8")
    else:
        from inferl.report import page

        form.output.write_text(page(runs), encoding="utf-8")


def _judge(answer: Answer, reply: Reply) -> None:
    """Exit with code 1, and say why, if a gate is not met; an interval with a failed check meets none."""
    interval, apart = answer.report.interval, answer.differences
    lower, upper, width, least = reply.require_lower, reply.require_upper, reply.require_width, reply.least_difference
    if lower is upper is width is least is None:
        return
    missed = [f"a check failed, {note}" for note in interval.notes]
    if least is not None and apart is not None and not np.all(np.asarray(apart.lower) >= least):
        missed.insert(0, f"the lower bound of a difference, {np.min(apart.lower):.6g}, is below {least:g}")
    if width is not None and not np.all(np.asarray(interval.width) <= width):
        missed.insert(0, f"the width {np.max(interval.width):.6g} is above {width:g}")
    if upper is not None and not np.all(np.asarray(interval.upper) <= upper):
        missed.insert(0, f"the upper bound {np.max(interval.upper):.6g} is above {upper:g}")
    if lower is not None and not np.all(np.asarray(interval.lower) >= lower):
        missed.insert(0, f"the lower bound {np.min(interval.lower):.6g} is below {lower:g}")
    if missed:
        typer.echo(in_shell(f"gate not met: {'; '.join(missed)}"), err=True)
        raise typer.Exit(1)
