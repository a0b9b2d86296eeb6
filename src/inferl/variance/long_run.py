r"""The long-run variance, from the variance rates of blocks of 1, 2, 4, ... steps.

If scores are dependent, the rate v_j at block length 2^j grows with j until blocks are longer than the dependence. But
longer blocks are fewer, so their rates are noisier. This is the choice of a bandwidth. A rule that selects one level,
where growth seems to end, jumps with the noise. Here every level gets a weight, the degree to which growth seems to
have ended there, and the long-run variance is a weighted average.
"""

from __future__ import annotations

import numpy as np

from inferl.data.arrays import Floats

__all__ = ["CHANGE", "FEWEST_USED", "long_run"]

FEWEST_USED = 5  # smallest degrees of freedom of a level in use: 6 blocks, one mean
NOISE, CHANGE = 1.0, 2.0  # standard errors: differences up to NOISE are noise, from CHANGE on they are real
TINY = np.finfo(np.float64).tiny


def long_run(rate: Floats, df: Floats, final: bool = False) -> tuple[Floats, Floats, Floats]:
    """Return the long-run variance of each of k targets, its degrees of freedom, and the weight of each level.

    The arguments are the rates (J, k) and the degrees of freedom (J,) of the levels. Growth has ended at a level if no
    higher level differs from it by more than noise. The confidence in that falls linearly with the largest difference,
    from 1 at `NOISE` standard errors to 0 at `CHANGE`; the remaining weight passes to the levels above. Where growth
    has ended, the rate is taken one level higher, for safety, and half of the last growth, if any, is added: the growth
    to the next level, because growth halves with each doubling once blocks are longer than the dependence. Rates may
    also fall, if scores are negatively correlated. The last level may be `final`: its blocks are whole streams, which
    are independent, so nothing grows beyond it.

    The degrees of freedom are those of a rate with the same relative variance: its sampling noise plus the disagreement
    between levels.
    """
    share = _shares(rate, df)
    v = rate[: len(share)]
    grew = np.where(v[1:] > v[:-1], 0.5, 0.0)
    if final and len(v) == len(rate):
        grew[-1:] = 0.0
    ahead = v.copy()  # the long-run variance if growth has ended one level below
    ahead[1:] += grew * (v[1:] - v[:-1])
    variance = (share * ahead).sum(axis=0)
    scale = np.where(variance > 0, variance, 1.0)
    parts = share * v / scale  # contribution of each rate to the variance
    parts[1:] *= 1 + grew
    parts[:-1] -= share[1:] * grew * v[:-1] / scale
    # Blocks consist of blocks of the levels below: v_j and v_k have the relative covariance 2 / df_j, j <= k.
    scatter = 2 / np.maximum(df[: len(v)], 1)
    more = np.concatenate([scatter[:1], scatter[1:] - scatter[:-1]])
    noise = more @ np.cumsum(parts[::-1], axis=0)[::-1] ** 2
    relative_variance = noise + (share * (ahead / scale - 1) ** 2).sum(axis=0)
    return variance, np.maximum(2 / relative_variance, 1.0), share


def _shares(rate: Floats, df: Floats) -> Floats:
    """Weight of each level in use: the confidence that growth has ended one level below."""
    used = max(int(np.count_nonzero(df >= FEWEST_USED)), 1)
    order, error = np.arange(used), np.sqrt(2 / (df[:used] + 1))[:, None]
    above = (order[:, None] < order)[:, :, None]  # (from, to)
    size = np.log(np.maximum(rate[:used], TINY))
    change = np.where(above, size - size[:, None], 0.0)  # (from, to, k)
    # By chance, low rates deviate more in logarithms than high ones. So falls are measured on the plain scale.
    differs = np.maximum(change, -np.expm1(np.minimum(change, 0.0))) / error
    confidence = (CHANGE - differs.max(axis=1)) / (CHANGE - NOISE)
    ended = np.minimum(np.maximum(confidence, 0.0), 1.0)
    remaining = np.cumprod(1 - ended, axis=0)  # weight that passes to the levels above
    share = np.zeros_like(size)
    share[1:] = ended[:-1]
    share[2:] *= remaining[:-2]
    share[-1] += remaining[-2] if used > 1 else 1.0  # the longest blocks get all remaining weight
    return share
