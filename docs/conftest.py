"""Examples in the documentation may write files and start servers: each page has a folder, and what it starts ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import ended

HERE = Path(__file__).parent

# Pages with commands run in tests/test_documentation.py, first their Python, which writes what the commands read.
collect_ignore = [str(page.relative_to(HERE)) for page in HERE.rglob("*.md") if "\n```console\n" in page.read_text()]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with ended():
        yield
