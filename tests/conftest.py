"""Settings of the whole suite: no display, one thread per process, the same hypothesis examples every time."""

import os

import pytest
from hypothesis import HealthCheck, settings

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


@pytest.hookimpl(tryfirst=True)  # before markers choose what runs
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the examples that import torch run where the tests marked so do."""
    for item in items:
        if isinstance(item, pytest.DoctestItem) and any("import torch" in one.source for one in item.dtest.examples):
            item.add_marker("torch")
