"""Campaigns that try to break the package: fuzzers, kills, memory over time, sanitizers and mutants.

`python -m studies.reliability fuzz` runs those of a group and keeps what they counted in `results/`, from which
docs/reliability.md is written. The scripts are those of `tests/` (`fuzz_*.py`, `kill_*.py`), of which `make test` runs
a short part, and the modules beside this one.
"""
