"""The campaigns: each is known, a finding is seen, and the page is what the results say."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from studies.reliability import campaigns, mutants, page, sanitize, soak

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_results_give() -> None:
    assert page.page() == page.PAGE.read_text(), "run make pages"


def test_every_script_is_a_campaign() -> None:
    known = {one.command[0] for one in campaigns.campaigns()}
    scripts = {f"tests/{path.name}" for path in (ROOT / "tests").glob("*.py") if re.match(r"(fuzz|kill)_", path.name)}
    assert scripts <= known
    assert all(one.tries for one in campaigns.campaigns())


def test_every_sanitizer_is_a_campaign() -> None:
    """So that one which never ran is listed as missing."""
    assert {one.name for one in campaigns.campaigns()} >= {f"sanitize_{name}" for name in sanitize.BUILDS}


def script(tmp_path: Path, code: str) -> campaigns.Campaign:
    (tmp_path / "try.py").write_text(code)
    return campaigns.Campaign("try", "fuzz", "nothing", (str(tmp_path / "try.py"),))


def test_a_campaign_is_judged_by_its_exit_code_and_its_counts(tmp_path: Path) -> None:
    counts = "import sys; print('a table'); print('{\"inputs\": 7, \"died\": 0}'); sys.exit(%d)"
    sound = campaigns.run(script(tmp_path, counts % 0), ["--inputs", "7"], seed=3)
    assert (sound["passed"], sound["full"], sound["counts"]) == (True, False, {"inputs": 7, "died": 0})
    assert sound["provenance"]["command"].endswith("try.py --inputs 7 --seed 3")
    assert sound["provenance"]["seed"] == 3
    assert not campaigns.run(script(tmp_path, counts % 1), [], seed=0)["passed"]
    ended_early = campaigns.run(script(tmp_path, "print('nothing was counted')"), [], seed=0)
    assert not ended_early["passed"]
    assert ended_early["full"]


def test_a_campaign_that_does_not_end_is_stopped_with_what_it_started(tmp_path: Path) -> None:
    code = (
        "import pathlib, subprocess, sys, time\n"
        "one = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(tmp_path / 'number')!r}).write_text(str(one.pid))\n"
        "print('{\"inputs\": 7}', flush=True); time.sleep(600)"
    )
    stopped = campaigns.run(script(tmp_path, code), [], seed=0, limit=5.0)
    assert stopped["stopped"]
    assert not stopped["passed"]
    assert stopped["seconds"] < 60
    assert page._row(stopped)[3] == "**did not end in time**"
    child = Path("/proc") / (tmp_path / "number").read_text() / "cmdline"
    assert not child.exists() or not child.read_bytes()  # ended, whether or not somebody has asked for its exit code
    assert set(campaigns.LIMITS) == set(campaigns.GROUPS)


def test_mutants_that_survived_are_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigns, "RESULTS", tmp_path)
    counts = 'print(\'{"mutants": 9, "survived": 2, "survivors": ["a.py:1: 2 -> 3", "a.py:2: x -> y"]}\')'
    campaigns.keep(campaigns.run(script(tmp_path, counts), [], seed=0))
    assert "| try | nothing | 9 mutants, 2 survived | 2 survived | yes |" in page.page()
    assert "did not notice 2 of the changes" in page.page()
    assert "- `a.py:1: 2 -> 3`" in page.page()


def test_a_finding_is_on_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigns, "RESULTS", tmp_path)
    found = campaigns.run(script(tmp_path, 'print(\'{"kills": 200, "groups": {"some": 1}}\')'), [], seed=0)
    campaigns.keep(found)
    assert "| try | nothing | 200 kills | nothing | yes |" in page.page()
    campaigns.keep(found | {"passed": False, "full": False})
    assert "**Open findings:** try." in page.page()
    assert "say little: try." in page.page()


def test_a_mutant_is_killed_by_a_test_that_notices_it() -> None:
    path = "src/inferl/variance/kurtosis.py"
    found = mutants.mutants_of(path, (ROOT / path).read_text())
    assert len(found) > 30
    assert len({ast.dump(one.tree()) for one in found}) == len(found)
    # In a process of its own: here the module is imported already.
    code = (
        "from studies.reliability.mutants import TESTS, mutants_of, outcome; from pathlib import Path\n"
        f"path = {path!r}; one = next(m for m in mutants_of(path, Path(path).read_text()) if '2 / df' in m.before)\n"
        "tests = ['tests/variance/test_kurtosis.py']\n"
        "print(outcome(None, tests), outcome(one, tests), outcome(one, ['tests/test_units.py']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["survived", "killed", "survived"]


def test_what_is_mutated_exists_with_its_tests() -> None:
    for path, tests in mutants.TESTS.items():
        assert all((ROOT / file).exists() for file in (path, *tests))


def test_a_leak_is_seen() -> None:
    flat = [10.0, 40.0, 50.0, 50.0] + [50.1, 50.0, 50.2, 50.0] * 3
    leaking = [50.0 + 2.0 * k for k in range(16)]
    assert soak.growth(flat) < soak.LEAK < soak.growth(leaking)


def test_a_process_that_leaks_is_measured() -> None:
    leaks = "while True: kept.append(bytearray(1 << 20)); print(len(kept), flush=True); time.sleep(.01)"
    code = f"import time; kept = []\n{leaks}"
    found = soak.measure(1.5, 0, {"leak": code}, warm=5)["leak"]
    assert found["rows"] > 10
    assert found["growth"] > soak.LEAK


def test_the_sanitizers_run_the_tests_that_need_no_marker() -> None:
    marked = re.search(r"^MARKED = (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert marked
    assert marked[1] == sanitize.MARKED
    assert all((ROOT / test).exists() for build in sanitize.BUILDS.values() for test in build["tests"])


def test_a_report_of_tests_is_counted(tmp_path: Path) -> None:
    report = tmp_path / "tests.xml"
    report.write_text('<testsuites><testsuite tests="9" failures="1" errors="1" skipped="2"/></testsuites>')
    assert sanitize.tests_in(report) == {"tests passed": 5, "failed": 2, "skipped": 2}
