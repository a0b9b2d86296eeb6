"""The example notebook runs from the first cell to the last, and shows what it should."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(not NOTEBOOK.exists(), reason="the examples are not part of an installed package"),
    pytest.mark.filterwarnings("default"),  # those of the machinery of notebooks are not ours
]


def test_the_notebook_runs(tmp_path: Path) -> None:
    import nbclient
    import nbformat

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells)  # outputs are made, not committed
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in shown if output.output_type in ("error", "stream")]
    html = [output.data["text/html"] for output in shown if "text/html" in output.get("data", {})]
    pictures = [output for output in shown if "image/png" in output.get("data", {})]
    assert len(html) == 3  # a result, a difference, and a result from a log
    assert "CartPole-v1: mean return" in html[0]
    assert "log.parquet: mean return" in html[2]
    assert len(pictures) == 4
    (failed,) = [output.data["text/plain"] for output in shown if list(output.get("data", {})) == ["text/plain"]]
    assert "'mean ratio'" in failed  # what tells that propensities are wrong
    assert len((tmp_path / "evaluation.csv").read_text().splitlines()) == 11
    assert (tmp_path / "lean.html").exists()
