"""The folder of a plan: finished parts, which are not computed again; a file a part, named after what it depends on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from inferl.errors import CheckpointError, SettingError
from inferl.runs import Run, SavedRun
from inferl.storage.checkpoint import write_checkpoint

__all__ = ["Folder"]

ALL = "all.inferl"  # the merged run


@dataclass(frozen=True)
class Folder:
    """Where finished parts are kept, if anywhere."""

    path: Path

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Folder:
        """Make the folder, if it is not there yet."""
        folder = Path(path)
        if folder.exists() and not folder.is_dir():
            raise SettingError(f"{folder} is a file; the checkpoint of a plan is a folder, with a file for each part")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingError(f"cannot make the folder {folder}: {error.strerror}") from None
        if not os.access(folder, os.W_OK):
            raise SettingError(f"cannot write to the folder {folder}")
        return cls(folder)

    def file(self, number: int, key: str) -> Path:
        """Return the path of a part; the key changes with all that its result depends on."""
        return self.path / f"part-{number:05d}-{key[:16]}.inferl"

    def has(self, number: int, key: str) -> bool:
        """Return whether a part is finished."""
        return self.file(number, key).exists()

    def load(self, number: int, key: str) -> Run | None:
        """Return a finished part; None if it is not there, or its file is damaged."""
        try:
            return Run.load(self.file(number, key))
        except (FileNotFoundError, CheckpointError):
            return None

    def keep(self, number: int, key: str, part: SavedRun) -> None:
        """Write a finished part."""
        write_checkpoint(self.file(number, key), part)
