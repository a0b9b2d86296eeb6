"""Whatever a log holds, it is read as by pandas, or refused in words of ours; `fuzz_readers.py` is the long form."""

from __future__ import annotations

from collections import Counter

from fuzz_readers import campaign

SHORT = range(500)


def test_logs_of_all_sorts_are_read_as_by_pandas_or_refused() -> None:
    counts: Counter[str] = Counter()
    for number, form, _, outcome, message in campaign(SHORT):
        assert outcome in ("the same", "refused", "more lenient"), f"input {number}, {form}: {outcome} {message}"
        counts[outcome] += 1
    assert counts["the same"] > 0.2 * len(SHORT)
    assert counts["more lenient"] < 0.03 * len(SHORT)
