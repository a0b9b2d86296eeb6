"""The process that judges inputs: one that dies or hangs is counted, and the next input gets a new one."""

from __future__ import annotations

from pathlib import Path

import fuzzing
import pytest
from fuzzing import Lost

FUZZER = """
import os, time
from fuzzing import serve

def judge(number, folder):
    print("looked at", flush=True)
    if number == 1:
        os.kill(os.getpid(), 11)
    if number == 3:
        time.sleep(600)
    if number == 5:
        try:
            bytearray(1 << 30)
        except MemoryError:
            return ["too much", str(number)]
    return [folder.name != "", str(number)]

def worker(seed):
    assert seed == 7
    serve(judge, 1 << 29)
"""


def test_inputs_that_end_their_judge_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fuzz_for_a_test.py").write_text(FUZZER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(fuzzing, "PATIENCE", 2.0)
    assert dict(fuzzing.ask_worker("fuzz_for_a_test", range(6), seed=7)) == {
        0: [True, "0"],
        1: Lost("died", "looked at"),
        2: [True, "2"],
        3: Lost("hung", "looked at"),
        4: [True, "4"],
        5: ["too much", "5"],
    }
