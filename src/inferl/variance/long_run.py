r"""The variance rate of very long blocks, from those of blocks of 1, 2, 4, ... steps.

Scores that depend on each other make the rate v_j at block length 2^j grow with j until blocks are longer than the
dependence; and the longer they are, the fewer, and the noisier is what they show. A rule that takes one level, where
growth seems to end, jumps with the noise. Here each level says how far growth is believed to have ended there, and the
answer is an average.
"""

from __future__ import annotations

import numpy as np

from inferl.data.arrays import Floats

__all__ = ["CHANGE", "FEWEST_USED", "long_run"]

FEWEST_USED = 5  # degrees of freedom of a level that may be used: 6 blocks about one mean
NOISE, CHANGE = 1.0, 2.0  # standard errors: a difference up to the first is noise, from the second on it is real
TINY = np.finfo(np.float64).tiny


def long_run(rate: Floats, df: Floats, final: bool = False) -> tuple[Floats, Floats, Floats]:
    """Return the variance rate of each of k targets, its degrees of freedom, and the share that each level has in it.

    Given are the rates (J, k) and the degrees of freedom at each level. Growth has ended at a level if no higher one
    differs from it by more than noise. That is believed the less the larger the difference, from wholly at `NOISE`
    standard errors to not at all at `CHANGE`; what is not believed is left to the levels above. Where growth has ended,
    the rate is taken one level higher, for safety, and half of the last growth, if any, is added: what the next level
    would show, as growth halves with each doubling once blocks are longer than the dependence. Rates may also fall,
    where sums take back what came before. The last level may be `final`: its blocks are whole streams, which are
    independent, so nothing grows beyond it.

    The degrees of freedom are those of a rate with equal relative variance: its noise, and how far levels disagree.
    """
    share = _shares(rate, df)
    v = rate[: len(share)]
    grew = np.where(v[1:] > v[:-1], 0.5, 0.0)
    if final and len(v) == len(rate):
        grew[-1:] = 0.0
    ahead = v.copy()  # the answer where growth has ended one level below
    ahead[1:] += grew * (v[1:] - v[:-1])
    variance = (share * ahead).sum(axis=0)
    scale = np.where(variance > 0, variance, 1.0)
    parts = share * v / scale  # what each rate adds to the answer
    parts[1:] *= 1 + grew
    parts[:-1] -= share[1:] * grew * v[:-1] / scale
    # Blocks are made of those of the levels below: v_j and v_k have the relative covariance 2 / df_j, j <= k.
    scatter = 2 / np.maximum(df[: len(v)], 1)
    more = np.concatenate([scatter[:1], scatter[1:] - scatter[:-1]])
    noise = more @ np.cumsum(parts[::-1], axis=0)[::-1] ** 2
    doubt = noise + (share * (ahead / scale - 1) ** 2).sum(axis=0)
    return variance, np.maximum(2 / doubt, 1.0), share


def _shares(rate: Floats, df: Floats) -> Floats:
    """How much each of the levels in use tells: as much as growth is believed to have ended one level below."""
    used = max(int(np.count_nonzero(df >= FEWEST_USED)), 1)
    order, error = np.arange(used), np.sqrt(2 / (df[:used] + 1))[:, None]
    above = (order[:, None] < order)[:, :, None]  # (from, to)
    size = np.log(np.maximum(rate[:used], TINY))
    change = np.where(above, size - size[:, None], 0.0)  # (from, to, k)
    # A rate that is low by chance is further below in logarithms than a high one is above; so falls count in plain.
    differs = np.maximum(change, -np.expm1(np.minimum(change, 0.0))) / error
    believed = (CHANGE - differs.max(axis=1)) / (CHANGE - NOISE)
    ended = np.minimum(np.maximum(believed, 0.0), 1.0)
    left = np.cumprod(1 - ended, axis=0)  # of those who have come to a level, who go on
    share = np.zeros_like(size)
    share[1:] = ended[:-1]
    share[2:] *= left[:-2]
    share[-1] += left[-2] if used > 1 else 1.0  # at the longest blocks all who are left stop
    return share
