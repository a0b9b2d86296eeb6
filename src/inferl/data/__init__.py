"""Data structures: transitions, their position in the stream, and the increments that algorithms compute from them.

Begin with `transitions.py`: a chunk of steps, validated in one place. `streams.py` numbers the steps and finds the
borders of episodes. `increments.py` holds the affine increments that every method accumulates.

Below these: `arrays.py` (input conversion; records of arrays with a common first axis), `vectors.py` (dense and sparse
vectors), `batches.py` (batches of observations), `observations.py` (a buffer for single steps), `ratios.py` (moments of
importance ratios), `fingerprints.py` (hashes of streams) and `invariants.py` (checks on states read from a file).
"""
