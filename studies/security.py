"""Writes what was tried against the service into docs/security.md, from the results of the campaigns.

    python -m studies.security

The campaigns are *fuzz_service* and *kill_service* of `studies.reliability`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from studies.markdown import count, table
from studies.pages import replaced
from studies.provenance import origin
from studies.reliability.campaigns import result

__all__ = ["tried", "with_counts"]

PAGE = Path(__file__).parents[1] / "docs" / "security.md"
BEGIN, END = "<!-- tried: written by studies.security -->", "<!-- end of tried -->"
GROUPS = {
    "lines": "heads and bodies that are no HTTP or lie about their length; noise; cut and with bits flipped",
    "paths": "methods, and paths that leave the server's folders",
    "headers": "names, numbers, types, codings and hosts",
    "tokens": "none, parts of one, of the other scope",
    "JSON": "values, keys and lines that are odd, damaged, nested or huge; ever new columns",
    "Arrow": "streams cut, flipped, patched with extreme lengths, of any type, compressed, with dictionaries",
    "readers": "pages asked for many times over, and never read",
    "good": "sound batches, mixed with the rest",
}


def tried(fuzzed: dict[str, Any], killed: dict[str, Any]) -> str:
    """Return what was tried, and what happened, in Markdown."""
    made, made_kills = origin(fuzzed["provenance"]), origin(killed["provenance"])
    fuzzed, killed, rows = fuzzed["counts"], killed["counts"], []
    for group, about in GROUPS.items():
        counts = fuzzed["groups"][group]
        answered = {status: n for status, n in counts.items() if n and status not in ("200", "closed", "left")}
        refused = ", ".join(f"{n:,} x {status}" for status, n in answered.items())
        gone = counts["closed"] + counts["left"]
        rows.append([about, count(sum(counts.values())), count(counts["200"]), refused or "-", count(gone)])
    head = ["what", "requests", "taken (200)", "refused, by status", "no answer"]
    memory = fuzzed["megabytes"]
    return "\n".join(
        [
            table(head, rows, text=(head[0], head[3])),
            "",
            f"Of {fuzzed['requests']:,} requests, {fuzzed['500']:,} were answered with an error of the server, "
            f"{fuzzed['hung']:,} not within 30 seconds, {fuzzed['told too much']:,} with a traceback, a path or an "
            f"address in memory, and {fuzzed['wrong']:,} otherwise than they should be. *Taken* are the sound ones, "
            "questions, and damaged ones whose rows are sound all the same; *no answer* is a connection that "
            "was closed, by the server because what came was no HTTP, or by the client, who went away.",
            "",
            f"{fuzzed['confirmed batches']:,} batches were confirmed, {fuzzed['confirmed rows']:,} rows. The journals "
            "held each of them once, and no other; the rows of the honest senders were theirs, number by number "
            f"({fuzzed['numbered rows']:,}); the runs had the bits of a replay of the journals. The two servers took "
            f"{memory['at first']:,} MB at first, {memory['most']:,} MB at most and {memory['at last']:,} MB at last.",
            "",
            f"Made by {made}.",
            "",
            f"**Kills.** A server was killed {killed['kills']:,} times (SIGKILL), {killed['while starting']:,} times "
            f"before it listened, while four clients sent {killed['rows']:,} rows in {killed['batches']:,} batches and "
            "died now and then themselves. Every confirmed row was in the journal once, in the order of its sender: "
            f"{_yes(killed['recorded once'])}. Rows in the journal of which no sender knew: {killed['unconfirmed']:,}. "
            f"The run file equal, bit for bit, to a replay of the journal: {_yes(killed['same bits'])}.",
            "",
            f"Made by {made_kills}.",
        ]
    )


def with_counts(page: str) -> str:
    """Put what was tried between the two marks of the page."""
    return replaced(page, BEGIN, END, tried(result("fuzz_service"), result("kill_service")))


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "**no**"


if __name__ == "__main__":
    PAGE.write_text(with_counts(PAGE.read_text()))
