"""``inferl compare``: compare runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from inferl.cli.options import Form, Level, expanded

if TYPE_CHECKING:
    from inferl.evaluation import Comparison

__all__ = ["compare"]

FAILED, UNDECIDED = 1, 3  # exit codes


@expanded
def compare(
    run: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Two or more run files.")],
    *,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Judge whether the first is at most this much worse than each of the others. Exit code 0: PASS, 1: "
            "FAIL, 3: INCONCLUSIVE.",
            rich_help_panel="Gate",
        ),
    ] = None,
    level: Level = 0.95,
    kind: Annotated[
        Literal["simultaneous", "anytime"] | None,
        typer.Option(
            help="anytime: holds if you look again and again. Default: anytime if a run was stopped by a rule, as by "
            "--until-width.",
            rich_help_panel="Question",
        ),
    ] = None,
    form: Form,
) -> None:
    """Compare runs: each policy, and all differences, with intervals that hold for all of them at once.

    Rollouts of one environment with the same seed met the same episodes, and
    are matched, episode by episode. Other runs must be independent. Two
    policies on one log are not: evaluate them together, with
    inferl evaluate --ratio a,b.

    [bold]inferl compare new.run old.run[/bold]

    [bold]inferl compare new.run old.run older.run --margin 5[/bold]
    """
    from inferl import evaluation
    from inferl.cli.answering import check_output, show
    from inferl.cli.wording import in_shell
    from inferl.errors import SettingError
    from inferl.evaluation.comparison import FAIL, INCONCLUSIVE
    from inferl.interval import brief
    from inferl.runs import Run

    check_output(form)
    if len(run) < 2:
        raise SettingError("there is one run; name two or more: inferl compare new.run old.run")
    for i, path in enumerate(run):
        if path.resolve() in [earlier.resolve() for earlier in run[:i]]:
            raise SettingError(f"{path} is named twice; name runs of different data")
    runs = {str(path): Run.load(path) for path in run}
    found = evaluation.compare(runs, level=level, margin=margin, kind=kind)
    lines = [f"{a} - {b}: {brief(one.estimate, one.lower, one.upper)}" for (a, b), one in found.differences.items()] + [
        f"note: {note}" for note in found.notes
    ]
    show(in_shell(_content(found)), in_shell(str(found)), in_shell("\n".join(lines)), runs, form)
    verdict = None if margin is None else found.verdict()
    if verdict in (FAIL, INCONCLUSIVE):
        typer.echo(in_shell(f"gate not met: {found.conclusions[-1]}"), err=True)
        raise typer.Exit(FAILED if verdict == FAIL else UNDECIDED)


def _content(found: Comparison) -> dict[str, Any]:
    """Return the line of JSON: values and differences under the keys of every command."""
    differences = {f"{a} - {b}": one for (a, b), one in found.differences.items()}
    said = found.to_dict()
    facts = {"estimand": found.quantity, "pairing": found.pairing, "best": ", ".join(found.best)}
    if found.margin is not None:
        facts |= {"margin": f"{found.margin:g}", "verdict": said["verdict"]}
    return {
        "final": True,
        "interval": _joined(found.policies),
        "differences": _joined(differences),
        "checks": [],
        "facts": facts,
    }


def _joined(named: dict[str, Any]) -> dict[str, Any]:
    """Return several intervals as one object whose numbers are lists."""
    plain = [one.to_dict() for one in named.values()]
    lists = ("estimate", "lower", "upper", "standard_error", "df")
    notes = list(dict.fromkeys(note for one in plain for note in one["notes"]))
    return {
        "names": list(named),
        **{key: [one[key] for one in plain] if key in lists else plain[0][key] for key in plain[0]},
        "n": sum(one["n"] for one in plain),
        "notes": notes,
    }
