"""Settings of the whole suite: no display, one thread per process, the same hypothesis examples every time."""

import os
from collections.abc import Iterator
from functools import cache

import pytest
import typer.testing
from hypothesis import HealthCheck, settings
from typer.main import get_command

collect_ignore = ["methods/batch_means_of_rewards.py"]  # registers a method, which can be done once only

# Before anything imports NumPy or Matplotlib: both read these once.
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
# To search for new counterexamples: HYPOTHESIS_PROFILE=search pytest
settings.register_profile("search", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A runner makes the commands of an app anew for every call, which takes as long as many a command.
typer.testing._get_command = cache(get_command)  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)  # before markers choose what runs
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the examples that import torch run where the tests marked so do."""
    for item in items:
        if isinstance(item, pytest.DoctestItem) and any("import torch" in one.source for one in item.dtest.examples):
            item.add_marker("torch")


@pytest.fixture(scope="module")
def short_epochs() -> Iterator[None]:
    """Keep no more rows of the first epoch than a first solution needs, so that a short stream has several epochs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inferl.variance.first_epoch.MOST_KEPT", 0)
        yield


@pytest.fixture(scope="module", params=["long first epoch", "short epochs"])
def both_epochs(request: pytest.FixtureRequest) -> None:
    """Run a test with the rows of the first epoch kept, as they are in a short stream, and with several epochs."""
    if request.param == "short epochs":
        request.getfixturevalue("short_epochs")
