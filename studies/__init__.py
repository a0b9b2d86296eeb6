"""The evidence: experiments of the paper, benchmarks, studies of coverage. Not part of the package."""
