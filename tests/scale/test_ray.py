"""Plans on real Ray: the same bits as one process, for any number of workers, also if one is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scale.logs import ROLES, frame, write
from scale.test_plans import Inline, as_of_one_reader, digest, single

import inferl
from inferl.errors import DataError
from inferl.scale import Plan, plan, simulate

pytestmark = [pytest.mark.integrations, pytest.mark.filterwarnings("default")]  # Ray leaves sockets to the collector


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    log = write(tmp_path_factory.mktemp("log"), frame(60_000), files=20, row_group_size=3000)
    found = plan(log, rows=3000, **ROLES)
    assert len(found.parts) == 20
    assert found.cut.crossing > 10
    return found


@pytest.fixture(scope="module")
def wanted(planned: Plan) -> str:
    run = planned.evaluate(executor=1)
    as_of_one_reader(run, single(planned.table.source, **ROLES))
    return digest(run)


@pytest.fixture(params=[1, 2, 4])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    ray = pytest.importorskip("ray")
    for name, value in (("RAY_USAGE_STATS_ENABLED", "0"), ("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")):
        monkeypatch.setenv(name, value)
    ray.init(num_cpus=request.param, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    yield ray
    ray.shutdown()


def busy(task: bytes = b"ray::evaluate_part") -> set[int]:
    """The processes of Ray that do a task now."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").strip()
            except OSError:
                continue
            if line.startswith(task):
                found.add(int(folder.name))
    return found


def test_the_same_bits_on_ray(planned: Plan, wanted: str, library: Any, tmp_path: Path) -> None:
    assert digest(planned.evaluate(executor=inferl.scale.ray())) == wanted
    killed: list[int] = []

    def kill() -> None:
        while not killed:
            for pid in list(busy())[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
            time.sleep(0.01)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    run = planned.evaluate(executor=inferl.scale.ray(), checkpoint=tmp_path / "run")
    thread.join(10)
    assert killed
    assert digest(run) == wanted
    again = Inline()
    assert digest(planned.evaluate(executor=again, checkpoint=tmp_path / "run")) == wanted
    assert again.computed == 0


def test_a_simulation_stops_all_workers(library: Any) -> None:
    question: dict[str, Any] = {"env": "FrozenLake-v1", "policy": [[0.0, 0.5, 0.5, 0.0]] * 16, "until_width": 0.1}
    run = simulate(**question, executor=inferl.scale.ray())
    assert digest(run) == digest(simulate(**question, executor=Inline()))
    assert run.evaluator.episodes < 2000
    end = time.monotonic() + 20  # tasks that were submitted ahead are stopped, or end
    while busy(b"ray::play_part") and time.monotonic() < end:
        time.sleep(0.1)
    assert not busy(b"ray::play_part")


def test_what_a_part_raises_comes_through(library: Any, tmp_path: Path) -> None:
    import numpy as np
    import pyarrow as pa

    whole = frame(3000)
    rewards = whole["reward"].to_numpy().copy()
    rewards[2500] = np.nan
    log = write(tmp_path, whole.set_column(whole.column_names.index("reward"), "reward", pa.array(rewards)), files=3)
    with pytest.raises(DataError, match=r"^\S*part-2\.parquet, row 501, column 'reward': nan") as raised:
        plan(log, rows=1000, **ROLES).evaluate(executor=inferl.scale.ray())
    assert type(raised.value) is DataError
