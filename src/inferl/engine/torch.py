"""The torch backend: the same arithmetic as large matrix products, on a GPU or on the CPU.

It works on `DeviceArray`; functions that get host arrays, as for tables, hand them to the automatic backend. In the
recursion, chunks of steps are processed at once: with n residuals at the iterate before the chunk, and the products of
the chunk's own vectors, what is left is a triangular recurrence for each replica (docs/method.md, section 9).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from threading import Lock
from typing import Any

import numpy as np

from inferl.data.arrays import Bools, Floats, Integers
from inferl.data.batches import import_torch
from inferl.data.device import DeviceArray
from inferl.data.increments import FieldIncrements, Increments
from inferl.data.streams import TILE, by_slot
from inferl.engine import backend_named, cuda
from inferl.engine.backend import Backend, Draws, Foldable, all_below, expect
from inferl.errors import DeviceError

__all__ = [
    "add_blocks",
    "add_entries",
    "add_products",
    "backend",
    "decaying_sum",
    "evaluate",
    "fold",
    "follow_episodes",
    "sum_episodes",
    "walk",
]

ROWS = 128  # most rows of a recurrence: the shared memory that a GPU gives without asking holds 32 replicas of them
CHUNKS = 64  # of a pass, which is one graph
LOOKED = 4  # chunks after which the size of the parameters is looked at
NUMBERS = 2**25  # most multipliers of a pass
PIECE = 64  # rows of an episode that one thread adds up
_LAWS = {"uniform": 0, "as-printed": 0, "two-point": 1, "exponential": 2}


@cache
def backend(device: str | None) -> Backend:
    """Return the backend of a device; by default the GPU, or the CPU where there is none."""
    import inferl.engine.torch as functions

    torch = import_torch()
    name = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        there = torch.zeros(1, dtype=torch.float64, device=name).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise DeviceError(f"torch cannot use the device {name!r}: {str(error).splitlines()[0]}") from None
    # The vectors of a run take an eightieth of the memory, so that all that is made of them fits.
    memory = torch.cuda.get_device_properties(there).total_memory if there.type == "cuda" else 2**31
    return Backend.of(f"torch {there}", functions, device=str(there), run=memory // 8 // 80)


def fold(
    iterate: Any,
    average_offset: Any,
    increments: Foldable,
    step_size: Floats,
    weight_sum: Floats,
    draws: Draws,
    threads: int = 1,
) -> Any:
    """Fold increments into the iterates; see `backend.Fold`."""
    if not isinstance(iterate, DeviceArray) or isinstance(increments, FieldIncrements):
        return _host().fold(iterate, average_offset, increments, step_size, weight_sum, draws, threads)
    torch, x = import_torch(), increments.expanded()
    u, v, device = x.u.tensor, x.v.tensor, iterate.tensor.device  # type: ignore[union-attr]
    n, terms, width = len(x), x.n_terms, iterate.shape[1]
    # All at once: a copy from the host waits for what the device has to do before it.
    columns = [
        torch.from_numpy(np.ascontiguousarray(y)).to(device)
        for y in (x.c, weight_sum, step_size, draws.tick, draws.stream)
    ]
    c, weight = columns[:2]
    multipliers = _multipliers(draws, columns[2:], width)
    both = torch.cat([iterate.tensor, average_offset.tensor], dim=1)
    largest = torch.empty((-(-n // TILE), width), dtype=torch.float64, device=device)
    longest = 2 ** (max(ROWS // terms, 1).bit_length() - 1)  # steps of a chunk: 128, 64, 32, ...
    steps = min(max(NUMBERS // width // longest, 1), CHUNKS) * longest
    steps = max(steps // TILE, 1) * TILE
    stepwise = bool(x.damping.any()) or terms > ROWS
    for start in range(0, n, steps):
        rows, tiles = slice(start, min(start + steps, n)), slice(start // TILE, -(-min(start + steps, n) // TILE))
        given = u[rows], v[rows], c[rows], weight[rows]
        if device.type == "cuda" and rows.stop - start == steps and not stepwise:
            with (graph := _captured(steps, longest, terms, u.shape[2], width, device)).lock:
                multipliers(rows, graph.gain)
                graph.run(both, given, largest[tiles])
            continue
        gain = torch.empty((rows.stop - start, width), dtype=torch.float64, device=device)
        multipliers(rows, gain)
        if stepwise:
            _stepwise(both, *given, gain, x.damping, largest[tiles])
        else:
            _chunked(both, *given, gain, longest, largest[tiles])
    iterate.tensor.copy_(both[:, :width])
    average_offset.tensor.copy_(both[:, width:])
    return DeviceArray(largest)


class _Captured:
    """A pass over chunks as a CUDA graph: one launch instead of hundreds, each of which takes longer than its work."""

    def __init__(self, steps: int, longest: int, terms: int, p: int, width: int, device: Any) -> None:
        torch = import_torch()
        shapes = (steps, terms, p), (steps, terms, p), (steps, terms), (steps,)
        self.given = [torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes]
        u, v, c, weight = self.given
        self.gain = torch.zeros((steps, width), dtype=torch.float64, device=device)
        self.both = torch.zeros((p, 2 * width), dtype=torch.float64, device=device)
        self.largest = torch.zeros((steps // TILE, width), dtype=torch.float64, device=device)
        self.lock = Lock()
        aside = torch.cuda.Stream(device)
        aside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(aside):  # compiles kernels and initialises libraries, which a capture must not
            _chunked(self.both, u, v, c, weight, self.gain, longest, self.largest)
        torch.cuda.current_stream(device).wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):  # other threads go on
            _chunked(self.both, u, v, c, weight, self.gain, longest, self.largest)

    def run(self, both: Any, given: Any, largest: Any) -> None:
        """Fold the given rows into `both`, in place, with the gains that were written to `gain`."""
        for own, other in zip((self.both, *self.given), (both, *given), strict=True):
            own.copy_(other)
        self.graph.replay()
        both.copy_(self.both)
        largest.copy_(self.largest)


@lru_cache(maxsize=4)
def _captured(steps: int, longest: int, terms: int, p: int, width: int, device: Any) -> _Captured:
    return _Captured(steps, longest, terms, p, width, device)


def _chunked(both: Any, u: Any, v: Any, c: Any, weight: Any, gain: Any, longest: int, largest: Any) -> None:
    """Fold chunks of `longest` steps, in place."""
    torch = import_torch()
    n, terms, p = u.shape
    width = both.shape[1] // 2
    theta = both[:, :width]
    whole = n // longest
    u, v, c = u.reshape(-1, p), v.reshape(-1, p), c.reshape(-1, 1)
    size = longest * terms
    grams = torch.bmm(
        u[: whole * size].reshape(whole, size, p), v[: whole * size].reshape(whole, size, p).transpose(1, 2)
    )
    if terms > 1 and whole:
        grams *= _earlier(size, terms, both.device)
    for number in range(-(-n // longest)):
        steps = slice(number * longest, min((number + 1) * longest, n))
        rows = slice(steps.start * terms, steps.stop * terms)
        gram = grams[number] if number < whole else u[rows] @ v[rows].T
        if number == whole and terms > 1:
            gram = gram * _earlier(len(gram), terms, both.device)
        residual = torch.addmm(c[rows], v[rows], theta, alpha=-1.0)
        taken = torch.empty((len(residual), 2 * width), dtype=torch.float64, device=both.device)
        solve = cuda.solve if both.is_cuda else _solve
        solve(residual, gram, gain[steps], weight[steps], taken)
        both.addmm_(u[rows].T, taken)
        if (number + 1) % LOOKED == 0 or steps.stop == n:
            tiles = slice(number // LOOKED * LOOKED * longest // TILE, -(-steps.stop // TILE))
            largest[tiles] = torch.linalg.vector_norm(theta, float("inf"), dim=0)


def _earlier(size: int, terms: int, device: Any) -> Any:
    """Return 1 where the column's step is after the row's: the terms of one step see the same iterate."""
    torch = import_torch()
    step = torch.arange(size, device=device) // terms
    return (step[:, None] < step).to(torch.float64)


def _solve(residual: Any, gram: Any, gain: Any, weight: Any, out: Any) -> None:
    """Solve the recurrence of a chunk step by step; see `cuda.solve`."""
    terms, width = len(residual) // len(gain), residual.shape[1]
    steps = out[:, :width]
    for k in range(len(gain)):
        rows, before = slice(k * terms, (k + 1) * terms), k * terms
        steps[rows] = gain[k] * (residual[rows] - gram[:before, rows].T @ steps[:before])
    out[:, width:] = weight.repeat_interleave(terms)[:, None] * steps


def _stepwise(both: Any, u: Any, v: Any, c: Any, weight: Any, gain: Any, damping: Floats, largest: Any) -> None:
    """Fold steps one by one, in place: those with damping, or with very many terms."""
    torch = import_torch()
    width = both.shape[1] // 2
    theta, offset = both[:, :width], both[:, width:]
    decay = torch.from_numpy(damping).to(both.device)[:, None]
    for t in range(len(u)):
        change = gain[t] * (u[t].T @ (c[t][:, None] - v[t] @ theta) - decay * theta)
        offset += weight[t] * change
        theta += change
        if (t + 1) % TILE == 0 or t + 1 == len(u):
            largest[t // TILE] = torch.linalg.vector_norm(theta, float("inf"), dim=0)


def _multipliers(draws: Draws, columns: list[Any], width: int) -> Callable[[slice, Any], None]:
    """Return a function that writes step sizes times multipliers of some rows, (T, R); the first column has none."""
    torch, law = import_torch(), _LAWS.get(draws.multipliers.law)
    step, tick, stream = columns
    if step.is_cuda and law is not None:
        words = np.array([draws.seed & 0xFFFFFFFF, draws.seed >> 32], np.uint32).view(np.int32)
        key = torch.from_numpy(words).to(step.device)

        def drawn(rows: slice, out: Any) -> None:
            cuda.gains(tick[rows], stream[rows], step[rows], key, draws.first_replica, law, out)

        return drawn
    replica = np.arange(draws.first_replica, draws.first_replica + width - 1)

    def copied(rows: slice, out: Any) -> None:
        own = draws.multipliers.draw(draws.seed, draws.tick[rows], draws.stream[rows], replica)
        out[:, 0], out[:, 1:] = step[rows], torch.from_numpy(own.T.copy()).to(step.device) * step[rows, None]

    return copied


def add_products(
    matrix: Any,
    vector: Any,
    size: Any,
    buffers: tuple[Any, Any, Any],
    waiting: int,
    u: Any,
    v: Any,
    c: Floats,
    threads: int = 1,
) -> int:
    """Add products of rows; see `backend.AddProducts`. All full batches are one product."""
    if not isinstance(matrix, DeviceArray):
        return _host().add_products(matrix, vector, size, buffers, waiting, u, v, c, threads)
    torch = import_torch()
    capacity = len(buffers[2])
    expect(
        0 <= waiting < capacity and all(len(buffer) == capacity for buffer in buffers) and len(u) == len(v) == len(c)
    )
    if len(u):
        torch.maximum(size.tensor, torch.linalg.vector_norm(v.tensor, float("inf"), dim=0), out=size.tensor)
    constants = torch.from_numpy(np.ascontiguousarray(c)).to(matrix.tensor.device)
    new = (u.tensor, v.tensor, constants)
    full = (waiting + len(u)) // capacity * capacity
    if full == 0:
        for buffer, rows in zip(buffers, new, strict=True):
            buffer.tensor[waiting : waiting + len(rows)] = rows
        return waiting + len(u)
    left = full - waiting
    batch = [
        torch.cat([buffer.tensor[:waiting], rows[:left]]) if waiting else rows[:left]
        for buffer, rows in zip(buffers, new, strict=True)
    ]
    matrix.tensor.addmm_(batch[0].T, batch[1])
    vector.tensor.addmv_(batch[0].T, batch[2])
    for buffer, rows in zip(buffers, new, strict=True):
        _refill(buffer.tensor, rows[left:])
    return len(u) - left


def _refill(buffer: Any, rows: Any) -> None:
    buffer.zero_()
    buffer[: len(rows)] = rows


def add_blocks(
    scores: Any,
    slot: Integers,
    half: Any,
    is_open: Bools,
    gathered: Any,
    waiting: Integers,
    outer: Any,
    total: Any,
    count: Integers,
    threads: int = 1,
) -> None:
    """Form block sums along each stream; see `backend.AddBlocks`. Each level is paired up and added at once."""
    if not isinstance(scores, DeviceArray):
        _host().add_blocks(scores, slot, half, is_open, gathered, waiting, outer, total, count, threads)
        return
    n_levels, capacity = gathered.shape[:2]
    expect(capacity > 0 and all_below(waiting, capacity) and all_below(slot, len(half)))
    expect(half.shape[:2] == is_open.shape and len(outer) == len(total) == len(count) == n_levels)
    blocks = scores.tensor
    for level in range(n_levels):
        if not len(blocks):
            return
        _gather(blocks, gathered.tensor[level], waiting, outer.tensor[level], total.tensor[level], count, level)
        blocks, slot = _paired(blocks, slot, half.tensor[:, level], is_open[:, level])


def _gather(blocks: Any, gathered: Any, waiting: Integers, outer: Any, total: Any, count: Integers, level: int) -> None:
    """Add blocks to the moments of their level; those that do not fill a batch wait."""
    torch = import_torch()
    capacity, before = len(gathered), int(waiting[level])
    full = (before + len(blocks)) // capacity * capacity
    if full == 0:
        gathered[before : before + len(blocks)] = blocks
        waiting[level] += len(blocks)
        return
    batch = blocks[: full - before]
    batch = torch.cat([gathered[:before], batch]) if before else batch
    outer += torch.tril(batch.T @ batch)
    total += batch.sum(dim=0)
    count[level] += full
    _refill(gathered, blocks[full - before :])
    waiting[level] = before + len(blocks) - full


def _paired(blocks: Any, slot: Integers, half: Any, is_open: Bools) -> tuple[Any, Integers]:
    """Add consecutive blocks of a stream in pairs; a first half without its second waits in `half`, in place."""
    torch = import_torch()
    if slot[0] == slot[-1] and (slot == slot[0]).all():
        s = int(slot[0])
        if is_open[s]:
            blocks = torch.cat([half[s : s + 1], blocks])
        pairs = len(blocks) // 2
        half[s] = blocks[(len(blocks) - 1) // 2 * 2]
        is_open[s] = len(blocks) % 2 == 1
        return blocks[0 : 2 * pairs : 2] + blocks[1 : 2 * pairs : 2], slot[:pairs]
    order = by_slot(slot)
    own = slot[order]
    opens = np.concatenate([[True], own[1:] != own[:-1]])
    rank = np.arange(len(own)) - np.maximum.accumulate(np.where(opens, np.arange(len(own)), 0))
    second = (rank + is_open[own]) % 2 == 1
    closing = order[second]
    alone = opens[second]  # its first half came in an earlier call
    partner = np.where(alone, 0, order[np.flatnonzero(second) - 1])
    in_time = np.argsort(closing)
    closing, partner, alone, streams = closing[in_time], partner[in_time], alone[in_time], own[second][in_time]
    rows = [torch.from_numpy(x).to(blocks.device) for x in (closing, partner, streams, alone)]
    first = torch.where(rows[3][:, None], half[rows[2]], blocks[rows[1]])
    ends = np.flatnonzero(np.concatenate([opens[1:], [True]]))
    is_open[own[ends]] = ~second[ends]
    halves = (ends - second[ends])[rank[ends] >= second[ends]]  # the latest first half of each stream, if it came here
    half[torch.from_numpy(own[halves]).to(blocks.device)] = blocks[torch.from_numpy(order[halves]).to(blocks.device)]
    return first + blocks[rows[0]], streams


def evaluate(increments: Increments, theta: Any, threads: int = 1) -> Any:
    """Evaluate increments at one parameter vector; see `backend.Evaluate`."""
    if not isinstance(increments.u, DeviceArray):
        return _host().evaluate(increments, theta, threads)
    torch, u, v = import_torch(), increments.u.tensor, increments.v.tensor  # type: ignore[union-attr]
    there, c, damping = (
        torch.from_numpy(np.ascontiguousarray(x)).to(u.device) for x in (theta, increments.c, increments.damping)
    )
    residual = c - v @ there
    scores = u[:, 0] * residual if u.shape[1] == 1 else torch.einsum("tkp,tk->tp", u, residual)
    return DeviceArray(scores - damping * there if increments.damping.any() else scores)


def sum_episodes(
    index: Integers | None,
    value: Any,
    slot: Integers,
    episode: Integers,
    last: Bools,
    sum: Any,
    is_open: Integers,
    order: Integers,
    begun: int,
    row: int,
) -> tuple[int, Any, Integers, int]:
    """Sum scores over episodes; see `backend.SumEpisodes`. All rows are summed at once."""
    if not isinstance(value, DeviceArray):
        return _host().sum_episodes(index, value, slot, episode, last, sum, is_open, order, begun, row)
    torch, device = import_torch(), value.tensor.device
    expect(row == 0 and all_below(slot, len(sum)))
    none = np.zeros(0, np.int64)
    if len(slot) == 0:
        return 0, value, none, begun
    if not last.any() and (slot == slot[0]).all() and (episode == episode[0]).all() and is_open[slot[0]] == episode[0]:
        sum.tensor[int(slot[0])] += value.tensor.sum(dim=0)  # a stream without borders
        return len(slot), DeviceArray(value.tensor[:0]), none, begun
    sorted_already = bool((slot[1:] >= slot[:-1]).all())
    at_row = np.arange(len(slot)) if sorted_already else by_slot(slot)
    own, number, ends = slot[at_row], episode[at_row], last[at_row]
    opens = np.concatenate([[True], own[1:] != own[:-1]])  # a stream's first row here
    begins = opens | np.concatenate([[True], (number[1:] != number[:-1]) | ends[:-1]])
    start = np.flatnonzero(begins)
    stop = np.append(start[1:], len(slot))
    stream, leads, follows = own[start], opens[start], np.append(own[start][1:] == own[start][:-1], False)
    continues = leads & (is_open[stream] == number[start])
    cut_off = leads & ~continues & (is_open[stream] > 0)  # episodes of earlier calls that end because another begins
    rank = order[stream]
    before = rank.copy()
    new = np.flatnonzero(~continues)
    rank[new[np.argsort(at_row[start[new]])]] = begun + np.arange(len(new))
    rows = value.tensor if sorted_already else value.tensor[torch.from_numpy(at_row).to(device)]
    sums = _segment_sums(rows, start, stop)
    going_on = torch.from_numpy(continues).to(device)[:, None]
    there = torch.from_numpy(stream).to(device)
    sums = torch.where(going_on, sum.tensor[there] + sums, sums)
    # What closes, in order of the rows that close it; an episode that is cut off closes before the row that does so.
    ended = ends[stop - 1]
    at = np.where(ended, 2 * at_row[stop - 1] + 1, 2 * at_row[np.minimum(stop, len(slot) - 1)])
    closes = np.flatnonzero(ended | follows)
    earlier = np.flatnonzero(cut_off)
    which = np.concatenate([closes, len(start) + earlier])
    which = which[np.argsort(np.concatenate([at[closes], 2 * at_row[start[earlier]]]), kind="stable")]
    kept = sum.tensor[torch.from_numpy(stream).to(device)] if len(earlier) else sums[:0]
    closed = torch.cat([sums, kept])[torch.from_numpy(which).to(device)]
    final = np.flatnonzero(~follows)
    open_now = ~ended[final]
    after = torch.where(torch.from_numpy(open_now).to(device)[:, None], sums[torch.from_numpy(final).to(device)], 0.0)
    sum.tensor[torch.from_numpy(stream[final]).to(device)] = after
    is_open[stream[final]] = np.where(open_now, number[start[final]], 0)
    order[stream[final]] = rank[final]
    return len(slot), DeviceArray(closed), np.concatenate([rank, before])[which], begun + len(new)


def _segment_sums(rows: Any, start: Integers, stop: Integers) -> Any:
    """Sum rows start..stop of each segment: pieces first, so that a long one is not left to a single thread."""
    torch = import_torch()
    length = stop - start
    pieces = -(-length // PIECE)
    if (pieces > 1).any():
        sizes = np.full(int(pieces.sum()), PIECE)
        sizes[np.cumsum(pieces) - 1] = length - PIECE * (pieces - 1)
        rows, length = _reduced(rows, sizes), pieces
        stop = np.cumsum(length)
        return _segment_sums(rows, stop - length, stop)
    return _reduced(rows, length) if (length > 1).any() else rows[torch.from_numpy(start).to(rows.device)]


def _reduced(rows: Any, lengths: Integers) -> Any:
    torch = import_torch()
    return torch.segment_reduce(rows, "sum", lengths=torch.from_numpy(lengths).to(rows.device), axis=0, unsafe=True)


def _host() -> Backend:
    return backend_named("auto")


def walk(*arguments: Any) -> None:
    """Run the averaged recursion on resamples, on the host; see `backend.Walk`."""
    _host().walk(*arguments)


def add_entries(*arguments: Any) -> tuple[Floats, Integers]:
    """Add the short blocks of sparse scores, on the host; see `backend.AddEntries`."""
    return _host().add_entries(*arguments)


def decaying_sum(*arguments: Any) -> Floats:
    """Compute a decaying sum along each stream, on the host; see `backend.DecayingSum`."""
    return _host().decaying_sum(*arguments)


def follow_episodes(*arguments: Any) -> tuple[int, int]:
    """Accumulate returns and weights of episodes, on the host; see `backend.FollowEpisodes`."""
    return _host().follow_episodes(*arguments)
