"""Policies of a log: the importance ratios of its rows.

`ratios` reads or computes them; `targets` is what a target policy may be, with `tables` for probabilities in a file or
a data frame; `propensities` and `behaviour` are a behaviour policy that is fitted to the log.
"""
