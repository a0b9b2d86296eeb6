"""How episodes of a log end: columns that say so are recognised, and rewards that are dropped are reported."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from logs import joined

from inferl import TD, DoublyRobust, Evaluator
from inferl.baselines import monte_carlo
from inferl.diagnostics import Check
from inferl.errors import DataError
from inferl.sources import Table, table


def log(episodes: int = 40, /, **flags: Any) -> pa.Table:
    """Episodes of three steps; the last step pays. A keyword is a column: its flags in an episode."""
    return pa.table(
        {
            "e": [number for number in range(episodes) for _ in range(3)],
            "x": [1.0, 2.0, 3.0] * episodes,
            "reward": [0.0, 0.0, 1.0] * episodes,
        }
        | {name.replace("__", "."): values * episodes for name, values in flags.items()}
    )


def opened(frame: pa.Table, **options: Any) -> Table:
    usual: dict[str, Any] = {"features": "x - 1", "episode": "e", "discount": 0.9}
    return table(frame, **usual | options)


def check_of(source: Table) -> Check | None:
    for _ in source:
        pass
    return next(iter(source.checks()), None)


@pytest.mark.parametrize("name", ["terminated", "terminateds", "terminal", "terminals", "is_terminal"])
@pytest.mark.parametrize("other", ["", "done", "is_last"])
def test_flags_of_termination(name: str, other: str) -> None:
    source = opened(log(**{name: [0, 0, 1]} | ({other: [0, 0, 1]} if other else {})))
    assert joined(source).discounts[:3].tolist() == [0.9, 0.9, 0.0]
    assert source.checks() == ()
    assert "ends" not in source.describe()


@pytest.mark.parametrize("name", ["done", "dones", "next__done", "is_last"])
def test_flags_of_last_rows(name: str) -> None:
    """Alone they terminate, and the report says so; beside a flag of time limits, the others do."""
    source = opened(log(**{name: [0, 0, 1]}))
    assert joined(source).discounts[:3].tolist() == [0.9, 0.9, 0.0]
    assert source.describe()["ends"].startswith(f"{name.replace('__', '.')} marks terminations")
    for limit in ("truncated", "truncateds", "timeouts", "timeout"):
        half = log(2, **{name: [0, 0, 1]}).append_column(limit, pa.array([0, 0, 0, 0, 0, 1]))
        source = opened(half, time_limit="cut")
        assert joined(source).discounts.tolist() == [0.9, 0.9, 0.0, 0.9, 0.9]
        assert source.dropped == 1
    cut = log(2, is_terminal=[0, 0, 0], **{name: [0, 0, 1]})  # the other way round: a last row that does not terminate
    assert joined(opened(cut)).discounts.tolist() == [0.9] * 4


def test_flags_that_the_user_has_named() -> None:
    frame = log(done=[0, 1, 0], over=[0, 0, 1])
    assert joined(opened(frame, terminated="over")).discounts[:3].tolist() == [0.9, 0.9, 0.0]
    assert joined(opened(frame, terminated=None)).discounts[:2].tolist() == [0.9, 0.9]
    assert joined(opened(frame, features=["done"])).discounts[:2].tolist() == [0.9, 0.9]  # it has another role
    with pytest.raises(DataError, match=r"'terminal'.*neither true nor false.*name another column, or none"):
        joined(opened(log(terminal=["A", "B", "C"])))


def test_no_column_says_how_episodes_end() -> None:
    source = opened(log(finished=[0, 0, 1]))
    found = check_of(source)
    assert found is not None
    assert found.name == "dropped rewards"
    assert found.failed
    assert "how the 40 episodes end" in found.message
    assert "40 rows have no next state and were dropped, 40 of them with a reward" in found.message
    assert "perhaps 'finished'" in found.remedy
    assert source.resume(source.position).checks() == (found,)


@pytest.mark.parametrize("said", [True, False])
def test_the_user_says_how_episodes_end(said: bool) -> None:
    found = check_of(opened(log(), episodes_end=said))
    assert found is None if said else found is not None and not found.failed


def test_with_next_features_nothing_is_dropped() -> None:
    frame = log().append_column("y", pa.array([2.0, 3.0, 4.0] * 40))
    found = check_of(opened(frame, next_features=["y"]))
    assert found is not None
    assert (found.name, found.status) == ("ends", "failed")
    assert check_of(opened(frame, next_features=["y"], episodes_end=False)) is None


def test_dropped_rows_that_pay_more_often_than_others() -> None:
    paying, others = [0, 0, 1], [0, 1, 0]
    for flags, rewards, failed in ((paying, paying, True), (paying, others, False), (paying, [1, 1, 1], False)):
        frame = log(truncated=flags).set_column(2, "reward", pa.array([float(x) for x in rewards] * 40))
        found = check_of(opened(frame))
        assert found is not None
        assert found.failed == failed
        assert check_of(opened(frame, time_limit="ends")) is None
    few = log(4, truncated=paying)
    assert check_of(opened(few)).status == "passed"  # type: ignore[union-attr]


def test_episodes_of_which_nothing_is_left() -> None:
    """Of episodes of one row, those that terminate count, and those that are cut do not."""
    for cut, failed in ((0.3, True), (0.01, False)):
        over = [number >= 1000 * cut for number in range(1000)]
        flags = {"terminated": over, "truncated": [not end for end in over]}
        frame = pa.table({"e": range(1000), "x": [1.0] * 1000, "reward": [1.0] * 1000} | flags)
        source = opened(frame)
        found = check_of(source)
        assert found is not None
        assert (found.name, found.failed) == ("dropped rewards", failed)
        assert ("300 of 1,000 episodes have no other row" in found.message) == failed
        assert source.resume(source.position).checks() == (found,)
        assert check_of(opened(frame, time_limit="ends")) is None


def test_one_chain_loses_its_last_row() -> None:
    found = check_of(table(log(1), features=["x"], discount=0.9))
    assert found is not None
    assert found.status == "passed"
    assert found.message == "1 row has no next state and was dropped, 1 of them with a reward"


def test_failed_checks_of_a_source_are_notes_of_every_interval(tmp_path: Any) -> None:
    unclear, clear = opened(log(300)), opened(log(300, done=[0, 0, 1]))
    evaluator = Evaluator(DoublyRobust(1)).update(unclear)
    for target in (None, "fitted", [1.0]):
        assert any(note.startswith("dropped rewards: ") for note in evaluator.interval(target).notes)
    evaluator.save(tmp_path / "a")
    assert Evaluator.load(tmp_path / "a").interval().notes == evaluator.interval().notes
    assert "dropped rewards" in " ".join(evaluator.update(clear).interval().notes)  # of the first log
    assert "dropped rewards" not in " ".join(Evaluator(TD(1)).update(clear).interval([1.0]).notes)
    evaluator = Evaluator(TD(1))
    assert sum(len(chunk) for chunk in evaluator.until(unclear, [1.0], width=1e-9)) == 600
    assert "dropped rewards" in " ".join(evaluator.interval([1.0]).notes)
    half = opened(log(300), episodes_end=True)
    assert "dropped rewards" not in " ".join(monte_carlo(half).notes)
    frame = log(300).append_column("truncated", pa.array([0, 0, 1, 0, 0, 0] * 150))
    frame = frame.append_column("terminated", pa.array([0, 0, 0, 0, 0, 1] * 150))
    assert "dropped rewards" in " ".join(monte_carlo(opened(frame)).notes)
