"""Processes that an example starts, and must not leave behind when it fails."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

__all__ = ["ended"]


@contextmanager
def ended() -> Iterator[None]:
    """End the processes that were started meanwhile, if they have not ended."""
    started: list[subprocess.Popen[Any]] = []

    class Noted(subprocess.Popen[Any]):
        def __init__(self, *about: Any, **more: Any) -> None:
            super().__init__(*about, **more)
            started.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", Noted)
        try:
            yield
        finally:
            for process in started:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
