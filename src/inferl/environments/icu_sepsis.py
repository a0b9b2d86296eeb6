"""ICU-Sepsis (Choudhary, Gupta and Thomas 2024): a sepsis MDP estimated from hospital records, read from a file.

The matrices come with the package ``icu-sepsis`` (MIT licence); one file of 2 MB is read, and nothing is imported.
They are aggregates over patients; their authors warn against medical conclusions.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import is_zipfile

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from inferl.environments.finite import FiniteMDP
from inferl.errors import DataError, SettingError

__all__ = ["ICUSepsis", "load"]

Floats = NDArray[np.float64]

FILE = Path("envs", "assets", "dynamics.npz")  # within the package
ARRAYS = ("tx_mat", "d_0", "expert_policy", "sofa_scores")
N_ENDS = 3  # the last states: death, survival, and a sink after both


class ICUSepsis(NamedTuple):
    """The model, and the policy of the clinicians."""

    mdp: FiniteMDP  # 716 states, 25 actions; survival pays 1
    expert: Floats  # (716, 25) estimated probabilities of the clinicians' actions; uniform in terminal states
    severity: Floats  # (716,) SOFA score of each state


def load(path: str | os.PathLike[str] | None = None) -> ICUSepsis:
    """Read the ICU-Sepsis matrices as a finite MDP.

    States 0 to 712 are patients; 713 is death, 714 survival, 715 a sink that is never entered, since episodes end
    before it. The reward is 1 on entering survival, and 0 otherwise.

    Parameters
    ----------
    path
        Of ``dynamics.npz``; None: that of the installed package (``pip install --no-deps icu-sepsis``).
    """
    file = _installed() if path is None else Path(path)
    if not file.is_file():
        raise SettingError(f"there is no file {file}; give the path of dynamics.npz from the package icu-sepsis")
    if not is_zipfile(file):
        raise DataError(f"{file} is not a NumPy archive; give dynamics.npz of icu-sepsis 2")
    with np.load(file, allow_pickle=False) as content:
        for name in ARRAYS:
            if name not in content:
                raise DataError(f"{file} has no array {name!r}; give dynamics.npz of icu-sepsis 2")
        chances, initial, expert, severity = (np.asarray(content[name]) for name in ARRAYS)
    n = len(chances)
    if chances.ndim != 3 or chances.shape[2] != n or expert.shape != chances.shape[:2]:
        raise DataError(
            f"{file}: tx_mat has shape {chances.shape} and expert_policy {expert.shape}, which do not fit; "
            "give dynamics.npz of icu-sepsis 2"
        )
    terminal = np.arange(n) >= n - N_ENDS
    reward = np.zeros(n)
    reward[n - N_ENDS + 1] = 1.0
    transition = [sparse.csr_array(chances[:, action]) for action in range(chances.shape[1])]
    expert = np.where(terminal[:, None], 1 / expert.shape[1], expert)
    return ICUSepsis(FiniteMDP(transition, reward, initial, terminal), expert, np.asarray(severity, dtype=np.float64))


def _installed() -> Path:
    found: Any = find_spec("icu_sepsis")  # finds the package without importing it
    if found is None or not found.submodule_search_locations:
        raise SettingError(
            "the package icu-sepsis is not installed: pip install --no-deps icu-sepsis, or give the path of its "
            "dynamics.npz"
        )
    return Path(found.submodule_search_locations[0]) / FILE
