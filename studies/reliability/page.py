"""Writes docs/reliability.md from the last results of the campaigns.

python -m studies.reliability.page
"""

from __future__ import annotations

from typing import Any

from studies.markdown import count, table
from studies.pages import render
from studies.provenance import ROOT, origin
from studies.reliability import mutants
from studies.reliability.campaigns import GROUPS, campaigns, results

__all__ = ["PAGE", "counted", "main", "page"]

PAGE = ROOT / "docs" / "reliability.md"
HEAD = ("campaign", "what it tries", "what it counted", "found", "full length?")
AIMS = {
    "fuzz": "Damaged and forged inputs",
    "crash": "Kills at random moments",
    "soak": "Memory over time",
    "sanitize": "The compiled kernel under sanitizers",
    "mutants": "Whether the tests notice a change",
}


def page() -> str:
    """Return the page."""
    found = results()
    groups = {
        group: table(HEAD, [_row(one) for one in found if one["group"] == group], HEAD)
        for group in GROUPS
        if any(one["group"] == group for one in found)
    }
    ran = {one["campaign"] for one in found}
    return render(
        "reliability",
        groups=groups,
        aims=AIMS,
        failed=[one["campaign"] for one in found if not one["passed"]],
        short=[one["campaign"] for one in found if not one["full"]],
        missing=[one.name for one in campaigns() if one.name not in ran],
        mutated=list(mutants.TESTS),
        survivors=[line for one in found for line in one["counts"].get("survivors", [])],
        origins=[f"{one['campaign']}: {origin(one['provenance'])}" for one in found],
    )


def _row(one: dict[str, Any]) -> list[str]:
    counts = {name: value for name, value in one["counts"].items() if name != "groups"}  # those of each kind of input
    tries = one["tries"] or next((known.tries for known in campaigns() if known.name == one["campaign"]), "")
    return [one["campaign"], tries, counted(counts), _found(one), "yes" if one["full"] else "no"]


def _found(one: dict[str, Any]) -> str:
    """Return what a campaign found; mutants that survived are no failure of it, but they are something."""
    if one.get("stopped"):
        return "**did not end in time**"
    if not one["passed"]:
        return "**yes**"
    survived = len(one["counts"].get("survivors", []))
    return f"{count(survived)} survived" if survived else "nothing"


def counted(counts: dict[str, Any]) -> str:
    """Return counts as words.

    >>> counted({"inputs": 12345, "died": 0, "kills at": [3, 1, 2], "the same bits": True})
    '12,345 inputs, 0 died, kills at: 1 to 3, the same bits: yes'
    """
    words = []
    for name, value in counts.items():
        if isinstance(value, bool):
            words.append(f"{name}: {'yes' if value else '**no**'}")
        elif isinstance(value, int):
            words.append(f"{count(value)} {name}")
        elif isinstance(value, float):
            words.append(f"{name} {value:g}")
        elif isinstance(value, dict):
            words.append(f"{name} ({counted(value)})")
        elif isinstance(value, list) and value and all(isinstance(x, int) for x in value):
            words.append(f"{name}: {min(value)} to {max(value)}")
        elif isinstance(value, str):
            words.append(f"{name}: {value}")
    return ", ".join(words)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())
    print(PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()
