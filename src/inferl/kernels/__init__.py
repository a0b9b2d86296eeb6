"""Kernels: the arithmetic of Algorithm 1 behind one signature, `fold`."""

from inferl.kernels.reference import fold

__all__ = ["fold"]
