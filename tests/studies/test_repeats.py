"""What all studies share: repeats that go on after a kill, and the provenance of a result."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from inferl.errors import SettingError
from studies import provenance
from studies.repeats import repeat

ROOT = Path(__file__).parents[2]


def total(job: list[int]) -> dict[str, Any]:
    return {"total": sum(job), "of": tuple(job)}


def test_a_file_of_a_stopped_run_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "new" / "sums.partial.jsonl"
    jobs = [[1, 2], [3, 4], [5, 6], [7, 8]]
    path.parent.mkdir()
    kept = {"job": [3, 4], "result": {"total": "from the file"}}
    path.write_text(json.dumps(kept) + '\n{"job": [5, 6], "resu')  # cut by the kill
    found = repeat(total, jobs, path, processes=2)
    assert [one["total"] for one in found] == [3, "from the file", 11, 15]
    assert found[0]["of"] == [1, 2]  # as JSON gives it back, also where it was not read from the file
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == kept
    assert sorted(line["job"] for line in lines) == jobs
    assert repeat(total, jobs[:2], path) == found[:2]  # fewer jobs than the file has


def test_settings_of_a_file_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "sums.repeats.jsonl"
    found = repeat(total, [[1]], path, settings="a", label="repeat")
    assert json.loads(path.read_text().splitlines()[0]) == {"settings": "a"}
    assert repeat(total, [[1]], path, settings="a", label="repeat") == found
    with pytest.raises(SettingError, match="other settings"):
        repeat(total, [[1]], path, settings="b", label="repeat")
    with pytest.raises(SettingError, match="0 processes"):
        repeat(total, [[1]], path, processes=0)


def test_every_committed_result_says_what_made_it() -> None:
    results = [*(ROOT / "studies").glob("*/results/*.json"), *(ROOT / "docs" / "results").glob("*.json")]
    made = list[Any]()
    for path in results:
        content = json.loads(path.read_text())
        one = content.get("provenance") or content.get("machine") or content
        made += [one] if "command" in one else one.values()  # of each part by itself
    assert len(made) > 10
    for one in made:
        assert one["command"].startswith(("python", "inferl"))
        assert len(provenance.short(one["commit"]).split("+")[0]) == 12
        assert "numpy" in provenance.software(one)


def test_results_of_the_paper_name_commits_of_the_history() -> None:
    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("the history is not here")
    for path in (ROOT / "docs" / "results").glob("*.json"):
        commit = json.loads(path.read_text())["provenance"]["commit"]
        assert git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0, path.name


def test_changes_of_the_source_are_told_and_those_of_results_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    result, source = tmp_path / "studies/paper/results/one.json", tmp_path / "src/one.py"
    for path in (result, source):
        path.parent.mkdir(parents=True)
        path.write_text("1")
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    result.write_text("2")
    (result.parent / "two.json").write_text("2")
    assert len(provenance.commit()) == 12
    source.write_text("2")
    assert provenance.commit().endswith("+changes")


def test_outside_a_repository_the_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert provenance.commit() == "unknown"
    assert provenance.provenance(3, "make it")["command"] == "make it"
