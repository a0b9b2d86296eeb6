from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from inferl.errors import SettingError
from studies.paper.machinery import Part, run_part, run_parts, write_csv
from studies.paper.random_mdp import RandomMDP, coverage_repeat

TINY = RandomMDP(steps=(60, 120, 200), n_replicas=5)
PART = Part("coverage", coverage_repeat, repeats=4)

# Stops for ever in its third repeat, as a run that is killed there.


def started(*arguments: str) -> subprocess.Popen[bytes]:
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, env=env)


KILLED = """
import sys, time
from pathlib import Path
from studies.paper.machinery import Part, run_part
from studies.paper.random_mdp import RandomMDP, coverage_repeat

def slow(settings, number):
    if number == 2:
        print("two are done", flush=True)
        time.sleep(600)
    return coverage_repeat(settings, number)

run_part(Part("coverage", slow, 4), RandomMDP(steps=(60, 120, 200), n_replicas=5), Path(sys.argv[1]))
"""


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "coverage.repeats.jsonl").read_text().splitlines()]


def test_a_killed_run_goes_on_and_gives_the_same_numbers(tmp_path: Path) -> None:
    with started("-c", KILLED, str(tmp_path / "a")) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"two are done\n"
        run.send_signal(signal.SIGKILL)
    assert [line.get("repeat") for line in lines(tmp_path / "a")] == [None, 0, 1]
    with (tmp_path / "a" / "coverage.repeats.jsonl").open("a") as file:
        file.write('{"repeat": 2, "resu')  # the kill came while a line was written
    resumed = run_part(PART, TINY, tmp_path / "a")
    assert [line.get("repeat") for line in lines(tmp_path / "a")] == [None, 0, 1, 2, 3]
    assert resumed == run_part(PART, TINY, tmp_path / "b")


def test_parallel_gives_the_numbers_of_serial(tmp_path: Path) -> None:
    parallel = run_part(PART, TINY, tmp_path / "a", processes=2)
    assert parallel == run_part(PART, TINY, tmp_path / "b", processes=1)


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_workers_leave_when_their_parent_is_killed(tmp_path: Path) -> None:
    code = KILLED.replace(", Path(sys.argv[1]))", ", Path(sys.argv[1]), 2)").replace(
        '"two are done"', "__import__('os').getpid()"
    )
    script = tmp_path / "killed.py"
    body = code.replace("\nrun_part(", "\nif __name__ == '__main__':\n    run_part(")
    script.write_text(body)
    with started(str(script), str(tmp_path)) as run:
        assert run.stdout is not None
        worker = int(run.stdout.readline())
        run.send_signal(signal.SIGKILL)
    for _ in range(100):
        if not alive(worker):
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    pytest.fail("the worker is still there")


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_more_repeats_build_on_fewer(tmp_path: Path) -> None:
    few = run_part(Part("coverage", coverage_repeat, 2), TINY, tmp_path)
    assert run_part(PART, TINY, tmp_path)[:2] == few
    assert run_part(Part("coverage", coverage_repeat, 2), TINY, tmp_path) == few


def test_other_settings_in_the_same_folder_are_refused(tmp_path: Path) -> None:
    run_part(Part("coverage", coverage_repeat, 1), TINY, tmp_path)
    with pytest.raises(SettingError, match="other settings"):
        run_part(PART, RandomMDP(), tmp_path)


def test_repeats_bound_every_part(tmp_path: Path) -> None:
    def number(settings: Any, number: int) -> dict[str, Any]:
        return {"number": number}

    parts = (Part("first", number, 10, 4), Part("second", number, 5, 2), Part("third", number, 1))
    assert run_parts(parts, None, tmp_path)[1] == {"first": 10, "second": 5, "third": 1}
    assert run_parts(parts, None, tmp_path, quick=True)[1] == {"first": 4, "second": 2, "third": 1}
    assert run_parts(parts, None, tmp_path, repeats=20)[1] == {"first": 20, "second": 5, "third": 1}
    assert run_parts(parts, None, tmp_path, repeats=3)[1] == {"first": 3, "second": 3, "third": 1}
    assert run_parts(parts, None, tmp_path, only=["second"])[1] == {"first": 0, "second": 5, "third": 0}
    with pytest.raises(SettingError, match="at least 2"):
        run_parts(parts, None, tmp_path, repeats=1)


def test_a_table_has_a_line_a_row(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}])
    assert path.read_text().splitlines() == ["x,y", "1,a", "2,b"]
