"""inferl serve before it starts: what --check says, and how wrong settings are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from inferl.cli import app

TABLE = '[experiments.shop]\nstate = "s"\nn-states = 3\n'


def said(path: Path, text: str, *options: str) -> tuple[int, str]:
    path.write_text(text)
    done = CliRunner().invoke(app, ["serve", str(path), "--check", *options])
    return done.exit_code, done.output


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "settings").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "settings/service.toml"


def test_paths_are_beside_the_file_and_options_win_over_it(file: Path) -> None:
    code, output = said(file, TABLE)
    assert code == 0
    assert f"folder: {file.parent / 'live'}\nlistens on: 127.0.0.1:8000\n" in output
    assert "shop: state = s, n-states = 3, " in output
    _, output = said(file, f'folder = "data"\nport = 9000\nhost = "::1"\n{TABLE}', "--host", "localhost", "--port", "0")
    assert f"folder: {file.parent / 'data'}\nlistens on: localhost:0\n" in output


def test_thresholds_limits_and_webhooks_are_said_too(file: Path) -> None:
    hook = '[[webhooks]]\nurl = "https://chat.example/secret"\nevents = ["decision", "drift"]\n'
    _, output = said(file, f"{TABLE}thresholds = [1.5, 2]\n[limits]\nrows = 77\n{hook}")
    assert "level = 0.95, thresholds = 1.5, 2.0\n" in output
    assert "limits: request = 8388608, rows = 77, " in output
    assert "webhook: chat.example is told decision, drift of shop\n" in output
    assert "secret" not in output


@pytest.mark.parametrize(
    ("settings", "options", "problem"),
    [
        (TABLE, ["--host", "0.0.0.0"], "without tokens, everybody who reaches 0.0.0.0"),
        (f'tokens = "none.txt"\n{TABLE}', [], "none.txt cannot be read"),
        (f'{TABLE}[[webhooks]]\nurl = "https://a.example"\nevents = ["decisions"]', [], "events has 'decisions'"),
        (f"{TABLE}kind = 'never'", [], "experiment shop: Invalid value for 'kind'"),
        (
            f"{TABLE}discounts = 1",
            [],
            "experiment shop: an experiment has no option 'discounts'; did you mean discount?",
        ),
        (f"{TABLE}follow = true", [], "experiment shop: an experiment has no option 'follow'"),
        (f"{TABLE}discount = 'x'", [], "experiment shop: Invalid value for 'discount'"),
        (f"{TABLE}thresholds = 2", [], "experiment shop: thresholds is 2; it must be a list of numbers"),
        (f"{TABLE}trace = 0.5\nalgorithm = 'gtd'", [], "experiment shop: gtd has no trace; leave trace out"),
        (f"{TABLE}estimator = 'pdis'", [], "experiment shop: estimator pdis is computed in one go"),
    ],
)
def test_settings_with_which_it_would_not_start(file: Path, settings: str, options: list[str], problem: str) -> None:
    code, output = said(file, settings, *options)
    assert code == 2
    assert output.startswith("inferl: ")
    assert problem in output


def test_the_help_shows_a_table() -> None:
    assert "[experiments.checkout]" in CliRunner().invoke(app, ["serve", "--help"]).output
