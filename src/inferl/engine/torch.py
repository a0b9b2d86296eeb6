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

from inferl.data.arrays import Bools, Floats, Integers, Words, lengthened
from inferl.data.batches import import_torch
from inferl.data.device import DeviceArray, sent
from inferl.data.increments import FieldIncrements, Increments
from inferl.data.streams import TILE, by_slot
from inferl.engine import backend_named, cuda
from inferl.engine.backend import Backend, Draws, Foldable, all_below, expect
from inferl.errors import DeviceError

__all__ = [
    "add_blocks",
    "add_entries",
    "add_products",
    "add_rows",
    "backend",
    "decaying_sum",
    "evaluate",
    "fold",
    "follow_episodes",
    "largest",
    "squared_norms",
    "subtract_scaled",
    "sum_episodes",
    "sum_segments",
    "sum_words",
    "walk",
]

ROWS = 256  # most rows of a recurrence: with more, its products cost less and it costs more
CHUNKS = 32  # of a pass, which is one graph
LOOKED = 2  # chunks after which the size of the parameters is looked at
NUMBERS = 2**25  # most multipliers of a pass
UNIT = 32  # rows that the kernel of the recurrence solves for together
ALIGNED = 8  # columns: products of matrices whose rows begin at multiples of 64 bytes are up to a third faster
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
    columns = [sent(y, device) for y in (x.c, weight_sum, step_size, draws.tick, draws.stream)]
    c, weight = columns[:2]
    multipliers = _multipliers(draws, columns[2:], width)
    across = -(-width // ALIGNED) * ALIGNED  # columns: those beyond the replicas have no steps
    both = torch.zeros((u.shape[2], 2 * across), dtype=torch.float64, device=device)
    theta, offset = both[:, :width], both[:, across : across + width]
    theta.copy_(iterate.tensor)
    offset.copy_(average_offset.tensor)
    largest = torch.zeros((-(-n // TILE), across), dtype=torch.float64, device=device)
    longest = 2 ** (max(ROWS // terms, 1).bit_length() - 1)  # steps of a chunk: 256, 128, 64, ...
    steps = min(max(NUMBERS // across // longest, 1), CHUNKS) * longest
    steps = max(steps // TILE, 1) * TILE
    stepwise = bool(x.damping.any()) or terms > ROWS
    passes = [slice(start, min(start + steps, n)) for start in range(0, n, steps)]
    if device.type == "cuda" and n >= steps and not stepwise:
        with (graph := _captured(steps, longest, terms, u.shape[2], across, device)).lock:
            graph.both.copy_(both)
            while passes and len(range(n)[passes[0]]) == steps:
                rows = passes.pop(0)
                multipliers(rows, graph.gain)
                graph.run((u[rows], v[rows], c[rows], weight[rows]), largest[_tiles(rows)])
            both.copy_(graph.both)
    for rows in passes:
        gain = torch.zeros((rows.stop - rows.start, across), dtype=torch.float64, device=device)
        multipliers(rows, gain)
        given = u[rows], v[rows], c[rows], weight[rows], gain
        if stepwise:
            _stepwise(both, *given, x.damping, largest[_tiles(rows)])
        else:
            _chunked(both, *given, longest, largest[_tiles(rows)])
    iterate.tensor.copy_(theta)
    average_offset.tensor.copy_(offset)
    return DeviceArray(largest[:, :width])


def _tiles(rows: slice) -> slice:
    return slice(rows.start // TILE, -(-rows.stop // TILE))


class _Captured:
    """A pass over chunks as a CUDA graph: one launch instead of hundreds, each of which takes longer than its work."""

    def __init__(self, steps: int, longest: int, terms: int, p: int, across: int, device: Any) -> None:
        torch = import_torch()
        shapes = (steps, terms, p), (steps, terms, p), (steps, terms), (steps,)
        self.given = [torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes]
        u, v, c, weight = self.given
        self.gain = torch.zeros((steps, across), dtype=torch.float64, device=device)
        self.both = torch.zeros((p, 2 * across), dtype=torch.float64, device=device)
        self.largest = torch.zeros((steps // TILE, across), dtype=torch.float64, device=device)
        self.lock = Lock()
        aside = torch.cuda.Stream(device)
        aside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(aside):  # compiles kernels and initialises libraries, which a capture must not
            _chunked(self.both, u, v, c, weight, self.gain, longest, self.largest)
        torch.cuda.current_stream(device).wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):  # other threads go on
            _chunked(self.both, u, v, c, weight, self.gain, longest, self.largest)

    def run(self, given: Any, largest: Any) -> None:
        """Fold the given rows into `both`, with the gains that were written to `gain`."""
        for own, other in zip(self.given, given, strict=True):
            own.copy_(other)
        self.graph.replay()
        largest.copy_(self.largest)


@lru_cache(maxsize=4)
def _captured(steps: int, longest: int, terms: int, p: int, across: int, device: Any) -> _Captured:
    return _Captured(steps, longest, terms, p, across, device)


def _chunked(both: Any, u: Any, v: Any, c: Any, weight: Any, gain: Any, longest: int, largest: Any) -> None:
    """Fold chunks of `longest` steps, in place."""
    torch = import_torch()
    largest.zero_()
    n, terms, p = u.shape
    width = both.shape[1] // 2
    theta = both[:, :width]
    u, v, c = u.reshape(-1, p), v.reshape(-1, p), c.reshape(-1)
    whole, size = n // longest, longest * terms
    grams = _grams(u, v, whole, size, terms)
    for number in range(-(-n // longest)):
        steps = slice(number * longest, min((number + 1) * longest, n))
        rows = slice(steps.start * terms, steps.stop * terms)
        gram = grams[number] if number < whole else _grams(u[rows], v[rows], 1, rows.stop - rows.start, terms)[0]
        expected = v[rows] @ theta
        taken = torch.empty((len(expected), 2 * width), dtype=torch.float64, device=both.device)
        solve = cuda.solve if both.is_cuda else _solve
        solve(expected, c[rows], gram, gain[steps], weight[steps], taken)
        both.addmm_(u[rows].T, taken)
        if (number + 1) % LOOKED == 0 or steps.stop == n:
            tiles = slice(number // LOOKED * LOOKED * longest // TILE, -(-steps.stop // TILE))
            _write_largest(theta, largest[tiles])


def _grams(u: Any, v: Any, chunks: int, size: int, terms: int) -> Any:
    """Products u_j . v_k of the rows of chunks of this size, without those of the same step.

    They are filled up with zeros to a multiple of `UNIT` rows and columns.
    """
    torch, p = import_torch(), u.shape[1]
    rows, columns = (x[: chunks * size].reshape(chunks, size, p) for x in (u, v))
    grams = torch.bmm(rows, columns.transpose(1, 2))
    if terms > 1:
        step = torch.arange(size, device=u.device) // terms
        grams *= step[:, None] < step
    return torch.nn.functional.pad(grams, (0, -size % UNIT) * 2) if size % UNIT else grams


def _write_largest(matrix: Any, out: Any) -> None:
    """Write the largest absolute entry of each column, NaN where there is one, into all rows of `out`, which are 0."""
    if matrix.is_cuda:
        cuda.largest(matrix, out)
    else:
        out[:] = import_torch().linalg.vector_norm(matrix, float("inf"), dim=0)


def _solve(expected: Any, c: Any, gram: Any, gain: Any, weight: Any, out: Any) -> None:
    """Solve the recurrence of a chunk step by step; see `cuda.solve`."""
    terms, width = len(expected) // len(gain), expected.shape[1]
    residual, steps = c[:, None] - expected, out[:, :width]
    for k in range(len(gain)):
        rows, before = slice(k * terms, (k + 1) * terms), k * terms
        steps[rows] = gain[k] * (residual[rows] - gram[:before, rows].T @ steps[:before])
    out[:, width:] = weight.repeat_interleave(terms)[:, None] * steps


def _stepwise(both: Any, u: Any, v: Any, c: Any, weight: Any, gain: Any, damping: Floats, largest: Any) -> None:
    """Fold steps one by one, in place: those with damping, or with very many terms."""
    width = both.shape[1] // 2
    theta, offset = both[:, :width], both[:, width:]
    decay = sent(damping, both.device)[:, None]
    for t in range(len(u)):
        change = gain[t] * (u[t].T @ (c[t][:, None] - v[t] @ theta) - decay * theta)
        offset += weight[t] * change
        theta += change
        if (t + 1) % TILE == 0 or t + 1 == len(u):
            _write_largest(theta, largest[t // TILE : t // TILE + 1])


def _multipliers(draws: Draws, columns: list[Any], width: int) -> Callable[[slice, Any], None]:
    """Return a function that writes step sizes times multipliers of some rows into the first R columns of an array.

    The first column has no multipliers.
    """
    law = _LAWS.get(draws.multipliers.law)
    step, tick, stream = columns
    if step.is_cuda and law is not None:
        key = sent(np.array([draws.seed & 0xFFFFFFFF, draws.seed >> 32], np.uint32).view(np.int32), step.device)

        def drawn(rows: slice, out: Any) -> None:
            cuda.gains(tick[rows], stream[rows], step[rows], key, draws.first_replica, law, out[:, :width])

        return drawn
    replica = np.arange(draws.first_replica, draws.first_replica + width - 1)

    def copied(rows: slice, out: Any) -> None:
        own = draws.multipliers.draw(draws.seed, draws.tick[rows], draws.stream[rows], replica)
        out[:, 0], out[:, 1:width] = step[rows], sent(own.T, step.device) * step[rows, None]

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
        found = torch.zeros_like(size.tensor)
        _write_largest(v.tensor, found[None])
        torch.maximum(size.tensor, found, out=size.tensor)
    constants = sent(c, matrix.tensor.device)
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
    total.addmv_(batch.T, torch.ones(len(batch), dtype=torch.float64, device=batch.device))  # faster than a sum
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
    rows = [sent(x, blocks.device) for x in (closing, partner, streams, alone)]
    first = torch.where(rows[3][:, None], half[rows[2]], blocks[rows[1]])
    ends = np.flatnonzero(np.concatenate([opens[1:], [True]]))
    is_open[own[ends]] = ~second[ends]
    halves = (ends - second[ends])[rank[ends] >= second[ends]]  # the latest first half of each stream, if it came here
    half[sent(own[halves], blocks.device)] = blocks[sent(order[halves], blocks.device)]
    return first + blocks[rows[0]], streams


def evaluate(increments: Increments, theta: Any, threads: int = 1) -> Any:
    """Evaluate increments at one parameter vector; see `backend.Evaluate`."""
    if not isinstance(increments.u, DeviceArray):
        return _host().evaluate(increments, theta, threads)
    torch, u, v = import_torch(), increments.u.tensor, increments.v.tensor  # type: ignore[union-attr]
    there, c, damping = (sent(x, u.device) for x in (theta, increments.c, increments.damping))
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
    rows = value.tensor if sorted_already else value.tensor[sent(at_row, device)]
    sums = _segment_sums(rows, start, stop)
    going_on = sent(continues, device)[:, None]
    there = sent(stream, device)
    sums = torch.where(going_on, sum.tensor[there] + sums, sums)
    # What closes, in order of the rows that close it; an episode that is cut off closes before the row that does so.
    ended = ends[stop - 1]
    at = np.where(ended, 2 * at_row[stop - 1] + 1, 2 * at_row[np.minimum(stop, len(slot) - 1)])
    closes = np.flatnonzero(ended | follows)
    earlier = np.flatnonzero(cut_off)
    which = np.concatenate([closes, len(start) + earlier])
    which = which[np.argsort(np.concatenate([at[closes], 2 * at_row[start[earlier]]]), kind="stable")]
    kept = sum.tensor[sent(stream, device)] if len(earlier) else sums[:0]
    closed = torch.cat([sums, kept])[sent(which, device)]
    final = np.flatnonzero(~follows)
    open_now = ~ended[final]
    after = torch.where(sent(open_now, device)[:, None], sums[sent(final, device)], 0.0)
    sum.tensor[sent(stream[final], device)] = after
    is_open[stream[final]] = np.where(open_now, number[start[final]], 0)
    order[stream[final]] = rank[final]
    return len(slot), DeviceArray(closed), np.concatenate([rank, before])[which], begun + len(new)


def _segment_sums(rows: Any, start: Integers, stop: Integers) -> Any:
    """Sum rows start..stop of each segment: pieces first, so that a long one is not left to a single thread."""
    length = stop - start
    pieces = -(-length // PIECE)
    if (pieces > 1).any():
        sizes = np.full(int(pieces.sum()), PIECE)
        sizes[np.cumsum(pieces) - 1] = length - PIECE * (pieces - 1)
        rows, length = _reduced(rows, sizes), pieces
        stop = np.cumsum(length)
        return _segment_sums(rows, stop - length, stop)
    return _reduced(rows, length) if (length > 1).any() else rows[sent(start, rows.device)]


def _reduced(rows: Any, lengths: Integers) -> Any:
    torch = import_torch()
    return torch.segment_reduce(rows, "sum", lengths=sent(lengths, rows.device), axis=0, unsafe=True)


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


def subtract_scaled(x: Any, y: Any, factor: Floats, threads: int = 1) -> Any:
    """Compute x - factor y row by row; see `backend.SubtractScaled`."""
    return x - y * factor[:, None] if isinstance(y, DeviceArray) else _host().subtract_scaled(x, y, factor, threads)


def squared_norms(x: Any, threads: int = 1) -> Any:
    """Compute |x|^2 of each row; see `backend.SquaredNorms`."""
    return np.multiply(x, x).sum(axis=-1) if isinstance(x, DeviceArray) else _host().squared_norms(x, threads)


def largest(x: Any, threads: int = 1) -> Any:
    """Return the largest absolute value of each column; see `backend.LargestOf`."""
    return np.maximum(x.max(axis=0), -x.min(axis=0)) if isinstance(x, DeviceArray) else _host().largest(x, threads)


def sum_words(words: Any, keys: Words, threads: int = 1) -> Words:
    """Sum the words of each row times their keys; signed integers wrap around to the same bits."""
    if not isinstance(words, DeviceArray):
        return _host().sum_words(words, keys, threads)
    torch = import_torch()
    bits = words.tensor.view(torch.int64)
    there = sent(keys.view(np.int64), bits.device)
    if bits.is_cuda:
        found = torch.empty(len(bits), dtype=torch.int64, device=bits.device)
        cuda.sum_words(bits, there, found)
    else:
        found = (bits * there).sum(dim=1)
    whole: Words = found.cpu().numpy().view(np.uint64)
    return whole


def add_rows(sums: Any, row: Integers, index: Integers | None, value: Any, threads: int = 1) -> None:
    """Add rows to rows of sums; see `backend.AddRows`."""
    if not isinstance(value, DeviceArray):
        return _host().add_rows(sums, row, index, value, threads)
    one, never = np.ones(len(row), np.int64), np.zeros(len(row), np.bool_)  # one episode that does not end
    open, order = np.ones(len(sums), np.int64), np.zeros(len(sums), np.int64)
    wide: Any = value
    sum_episodes(None, lengthened(wide, sums.shape[1]), row, one, never, sums, open, order, 0, 0)
    return None


def sum_segments(
    index: Integers | None,
    value: Any,
    slot: Integers,
    number: Integers,
    length: int,
    stride: int,
    open: Any,
    looked: Integers,
    done: Integers,
    total: Any,
    squares: Any,
    means: Any,
    owner: Integers,
    filled: int,
    row: int,
) -> tuple[int, int, int]:
    """Sum rows over segments of each stream; see `backend.SumSegments`. The rows of a segment are summed at once."""
    if not isinstance(value, DeviceArray):
        sums = open, looked, done, total, squares, means, owner
        return _host().sum_segments(index, value, slot, number, length, stride, *sums, filled, row)
    seen = 0
    while row < len(slot) and filled < len(means):
        closes = np.flatnonzero(number[row:] & (length - 1) == 0)
        end = row + int(closes[0]) + 1 if len(closes) else len(slot)
        rows = row + np.flatnonzero((number[row:end] - 1) & (stride - 1) == 0)
        x = value[rows]
        for sums, own, y in ((open, slot[rows], x), (total[None], 0 * rows, x), (squares[None], 0 * rows, x * x)):
            add_rows(sums, own, None, y)
        np.add.at(looked, slot[rows], 1)
        done += np.bincount(slot[row:end], minlength=len(done))
        seen += len(rows)
        if len(closes):
            s = int(slot[end - 1])
            if looked[s]:
                means[filled], owner[filled] = open[s] / looked[s], s
                filled += 1
            open[s], looked[s], done[s] = 0.0, 0, 0
        row = end
    return row, filled, seen
