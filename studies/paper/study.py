"""A study: parts, settings, and how the results of all repeats become one JSON; and the names of all studies."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from studies.paper.machinery import PACKAGES, Part, Result, run_parts, write_json
from studies.paper.summaries import LEVEL
from studies.provenance import provenance

__all__ = ["EXPERIMENTS", "STUDIES", "THEORY", "Study", "stem"]

EXPERIMENTS = ("frozenlake", "pong", "random-mdp", "sepsis")  # of the paper, in its order
THEORY = ("limits", "markov-noise", "two-readings", "changing-behaviour", "enumerations")  # checks of what it proves
STUDIES = (*EXPERIMENTS, *THEORY)


def stem(name: str) -> str:
    """Name of a study's module in this package, and of its results.

    >>> stem("random-mdp")
    'random_mdp'
    """
    return name.replace("-", "_")


@dataclass(frozen=True)
class Study:
    """What `python -m studies.paper` runs.

    `summary(settings, found)` makes the study's own part of the JSON from the results of each part's repeats.
    """

    name: str
    parts: tuple[Part, ...]
    settings: Any  # a dataclass with a seed
    quick: Any  # the same, smaller
    summary: Callable[[Any, dict[str, list[Result]]], Result]

    def run(
        self,
        output: Path,
        *,
        quick: bool = False,
        repeats: int | None = None,
        processes: int = 1,
        only: Collection[str] | None = None,
        settings: Any = None,
        command: str | None = None,
    ) -> dict[str, Any]:
        """Run the study, or what is missing of it, and write its JSON; see `run_parts` for the parameters."""
        if settings is None:
            settings = self.quick if quick else self.settings
        made_by = provenance(settings.seed, command or f"python -m studies.paper {self.name}", PACKAGES)
        found, counts = run_parts(
            self.parts, settings, output / "repeats", quick=quick, repeats=repeats, processes=processes, only=only
        )
        content = {
            "experiment": self.name,
            "provenance": made_by,
            "settings": asdict(settings) | {"level": LEVEL},
            "repeats": counts,
            **self.summary(settings, found),
        }
        write_json(output / f"{stem(self.name)}.json", content)
        return content
