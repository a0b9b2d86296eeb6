"""The statistics of dependent scores: batch means, long-run variance, effective sample size."""
