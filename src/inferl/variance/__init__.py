"""Statistics of dependent scores: batch means, long-run variance, effective sample size.

Begin with `batch_means.py`: sums of scores over blocks of 1, 2, 4, ... steps and over episodes, and the standard errors
that follow from them. `sparse_batch_means.py` does the same for one-hot scores. `long_run.py` chooses the bandwidth: it
combines the variance rates of all block lengths into one long-run variance. `segments.py` keeps sums over whole streams
and over merged parts.

The other files tell when an interval may be too narrow: `mixing.py` (effective sample size of slow streams),
`kurtosis.py` (variances that rest on few steps), `score_blocks.py` (dependent scores of a nonlinear recursion) and
`episodes.py` (truncation and importance weights). `first_epoch.py` stores the first rows of a stream.
"""
