"""CUDA kernels of the torch backend, compiled by the driver's own compiler (NVRTC) when they are first used.

Matrix products are torch's. Two things are not products: the multipliers, a pure function of (seed, replica, tick), and
the triangular recurrence within a chunk, where each step needs the residuals of those before it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from inferl.data.batches import import_torch
from inferl.data.device import kernel

__all__ = ["gains", "largest", "solve", "sum_words"]

ROWS = 256  # most rows of a recurrence
NARROW = 2048  # columns, up to which speed depends on how soon each is done; beyond, on how many are done at once
PANEL = 8 * ROWS * 8  # bytes of eight rows of products
STAGES = 5  # panels that are used or under way, if the device has room for so many

# A warp has a few replicas, and each of its lanes every 32nd row of them: `left` is what is left of their residuals.
# Row after row, the lane of a row shows its step to the others, which subtract its products from their rows. What takes
# the time is this chain, one shuffle and one multiplication a row: gains are multiplied into the products beforehand.
# Products come from `gram` in panels of 8 rows, several of which are under way while one is used. After 32 rows, the
# slots of a lane move up by one, so that the loop is short code; the second half of a chunk has half as many slots.
# Few warps of few replicas are soonest done, many of many do the most at once; see `solve` below.
SOLVE = """
struct Chunk {
    const double *gram, *gain, *weight;
    double* out;
    int rows, padded, terms, width;
};

__device__ __forceinline__ void fetch(double2* to, const double* from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
#else
    *to = *(const double2*)from;
#endif
}

__device__ __forceinline__ void load(const Chunk& x, double2 (*panels)[8][ROWS / 2], const int row) {
    const int first = row / 32 * 32, warp = threadIdx.y;  // columns before the rows of this panel are not needed
    if (row < x.padded) {
        for (int k = threadIdx.x; 2 * k < x.padded - first; k += 32) {
            #pragma unroll
            for (int j = 0; j < 8 / WARPS; j++) {
                const size_t line = row + WARPS * j + warp;
                fetch(&panels[row / 8 % STAGES][WARPS * j + warp][k], x.gram + line * x.padded + first + 2 * k);
            }
        }
    }
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

template <int SLOTS>
__device__ __forceinline__ void eliminate(const Chunk& x, double (&left)[SLOTS][COPIES],
                                          double2 (*panels)[8][ROWS / 2], int base, const int until, const int column) {
    const int lane = threadIdx.x, here = min(column, x.width - COPIES);
    double own[COPIES], step[COPIES], coming[COPIES];  // gains of these and of the following 32 rows
    #pragma unroll
    for (int c = 0; c < COPIES; c++) {
        const int row = min(base + lane, x.rows - 1);
        coming[c] = x.gain[(size_t)(row / x.terms) * x.width + here + c];
    }
    #pragma unroll 1
    for (; base < until; base += 32) {
        const int row = base + lane, following = min(row + 32, x.rows - 1);
        #pragma unroll
        for (int c = 0; c < COPIES; c++) {
            own[c] = coming[c];
            step[c] = own[c] * left[0][c];
            coming[c] = x.gain[(size_t)(following / x.terms) * x.width + here + c];
        }
        #pragma unroll 1
        for (int group = 0; group < 32; group += 8) {
#if __CUDA_ARCH__ >= 800
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
#endif
            __syncthreads();
            load(x, panels, base + group + 8 * (STAGES - 1));
            const double (*const panel)[ROWS] = (const double (*)[ROWS])panels[(base + group) / 8 % STAGES];
            #pragma unroll
            for (int i = 0; i < 8; i++) {
                double done[COPIES];
                #pragma unroll
                for (int c = 0; c < COPIES; c++) done[c] = __shfl_sync(0xFFFFFFFFu, step[c], group + i);
                const double within = lane > group + i ? panel[i][lane] : 0.0;
                #pragma unroll
                for (int c = 0; c < COPIES; c++) step[c] -= own[c] * within * done[c];
                #pragma unroll
                for (int s = 1; s < SLOTS; s++) {
                    const double product = panel[i][32 * s + lane];
                    #pragma unroll
                    for (int c = 0; c < COPIES; c++) left[s][c] -= product * done[c];
                }
            }
        }
        if (row < x.rows && column < x.width) {
            const double averaged = x.weight[row / x.terms];
            double* const to = x.out + (size_t)row * 2 * x.width + column;
            #pragma unroll
            for (int c = 0; c < COPIES; c += 2) {
                *(double2*)(to + c) = make_double2(step[c], step[c + 1]);
                *(double2*)(to + x.width + c) = make_double2(averaged * step[c], averaged * step[c + 1]);
            }
        }
        #pragma unroll
        for (int s = 1; s < SLOTS; s++) {
            #pragma unroll
            for (int c = 0; c < COPIES; c++) left[s - 1][c] = left[s][c];
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
solve(const double* __restrict__ expected, const double* __restrict__ constant, const double* __restrict__ gram,
      const double* __restrict__ gain, const double* __restrict__ weight, double* __restrict__ out, const int rows,
      const int terms, const int width) {
    extern __shared__ double2 panels[][8][ROWS / 2];
    const Chunk chunk = {gram, gain, weight, out, rows, (rows + 31) / 32 * 32, terms, width};
    for (int row = 0; row < 8 * (STAGES - 1); row += 8) load(chunk, panels, row);
    const int column = (blockIdx.x * WARPS + threadIdx.y) * COPIES, here = min(column, width - COPIES);
    double left[ROWS / 32][COPIES], rest[ROWS / 64][COPIES];
    #pragma unroll
    for (int s = 0; s < ROWS / 32; s++) {
        const int row = min(32 * s + (int)threadIdx.x, rows - 1);
        #pragma unroll
        for (int c = 0; c < COPIES; c += 2) {
            const double2 pair = *(const double2*)(expected + (size_t)row * width + here + c);
            left[s][c] = constant[row] - pair.x;
            left[s][c + 1] = constant[row] - pair.y;
        }
    }
    eliminate<ROWS / 32>(chunk, left, panels, 0, min(ROWS / 2, rows), column);
    #pragma unroll
    for (int s = 0; s < ROWS / 64; s++) {
        #pragma unroll
        for (int c = 0; c < COPIES; c++) rest[s][c] = left[s][c];
    }
    eliminate<ROWS / 64>(chunk, rest, panels, ROWS / 2, rows, column);
}
"""

# Philox 4x32-10 as in `multipliers.philox`: the same words, the same order of operations from word to multiplier.
GAINS = """
extern "C" __global__ void gains(const long long* __restrict__ tick, const long long* __restrict__ stream,
                                 const double* __restrict__ step, const unsigned int* __restrict__ seed,
                                 double* __restrict__ out, int rows, int width, int stride, int first_replica,
                                 int law) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, until = min(rows, 16 * ((int)blockIdx.y + 1));
    if (column >= width) return;
    const int bits = law == 1 ? 7 : 2;  // 128 or 4 ticks are served by one call
    unsigned long long last = ~0ull;
    long long owner = -1;
    unsigned int x[4] = {0u, 0u, 0u, 0u};
    for (int row = 16 * blockIdx.y; row < until; row++) {
        double multiplier = 1.0;
        if (column > 0) {
            const unsigned long long now = tick[row], call = now >> bits;
            if (call != last || stream[row] != owner) {
                last = call;
                owner = stream[row];
                x[0] = (unsigned int)call;
                x[1] = (unsigned int)(call >> 32);
                x[2] = (unsigned int)(first_replica + column - 1);
                x[3] = (unsigned int)owner;
                unsigned int k0 = seed[0], k1 = seed[1];
                #pragma unroll
                for (int round = 0; round < 10; round++) {
                    const unsigned long long p0 = 0xD2511F53ull * x[0], p1 = 0xCD9E8D57ull * x[2];
                    x[0] = (unsigned int)(p1 >> 32) ^ x[1] ^ k0;
                    x[1] = (unsigned int)p1;
                    x[2] = (unsigned int)(p0 >> 32) ^ x[3] ^ k1;
                    x[3] = (unsigned int)p0;
                    k0 += 0x9E3779B9u;
                    k1 += 0xBB67AE85u;
                }
            }
            const int lane = (int)(now >> (bits - 2)) % 4;
            const unsigned int word = lane == 0 ? x[0] : lane == 1 ? x[1] : lane == 2 ? x[2] : x[3];
            const double unit = ((double)word + 0.5) * 2.3283064365386963e-10;
            if (law == 0) multiplier = 1.0 + (2.0 * unit - 1.0) * 0.57735026918962584;
            else if (law == 1) multiplier = (double)((word >> (now % 32)) & 1u) * 2.0;
            else multiplier = -log(unit);
        }
        out[(size_t)row * stride + column] = step[row] * multiplier;
    }
}
"""


# The bits of positive numbers are in the order of the numbers, and those of NaN are above all; so the largest does not
# depend on who comes first.
LARGEST = """
extern "C" __global__ void largest(const double* __restrict__ matrix, unsigned long long* __restrict__ out,
                                   const int rows, const int columns, const long long stride, const int copies,
                                   const long long apart) {
    __shared__ unsigned long long found[8][32];
    const int column = blockIdx.x * 32 + threadIdx.x, here = min(column, columns - 1);
    unsigned long long most = 0;
    #pragma unroll 8
    for (int row = blockIdx.y * 8 + threadIdx.y; row < rows; row += 8 * gridDim.y)
        most = max(most, (unsigned long long)__double_as_longlong(fabs(matrix[row * stride + here])));
    found[threadIdx.y][threadIdx.x] = most;
    __syncthreads();
    if (threadIdx.y > 0 || column >= columns) return;
    #pragma unroll
    for (int i = 1; i < 8; i++) most = max(most, found[i][threadIdx.x]);
    for (int i = 0; i < copies; i++) atomicMax(out + i * apart + column, most);
}
"""

# The words of a row times their keys, for fingerprints: a warp adds up a row.
WORDS = """
extern "C" __global__ void words(const unsigned long long* __restrict__ bits,
                                 const unsigned long long* __restrict__ keys, unsigned long long* __restrict__ out,
                                 const int rows, const int columns) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    unsigned long long word = 0;
    for (int k = threadIdx.x; k < columns; k += 32) word += bits[(size_t)row * columns + k] * keys[k];
    for (int apart = 16; apart; apart /= 2) word += __shfl_down_sync(0xFFFFFFFFu, word, apart);
    if (threadIdx.x == 0) out[row] = word;
}
"""


def solve(expected: Any, c: Any, gram: Any, gain: Any, weight: Any, out: Any) -> None:
    """Solve the recurrence of a chunk: step_k = gain_k (c_k - expected_k - sum over j < k of gram_kj step_j).

    `expected` is (n, R) and `c` (n,) for n = K m rows, at most `ROWS`; `gain` is (K, R) and `weight` (K,), and R a
    multiple of 8. `gram` is transposed, and filled up with zeros to a multiple of 32 rows and columns. `out` (n, 2 R)
    becomes the steps, and beside them the steps times their weight.
    """
    rows, width = expected.shape
    warps, copies = (2, 2) if width <= NARROW else (8, 4)
    grid, block = (-(-width // (warps * copies)), 1, 1), (32, warps, 1)
    stages = _stages(expected.device)
    settings = f"#define ROWS {ROWS}\n#define WARPS {warps}\n#define COPIES {copies}\n#define STAGES {stages}\n"
    arguments = expected, c, gram, gain, weight, out, rows, rows // gain.shape[0], width
    kernel(settings + SOLVE, "solve", stages * PANEL)(grid, block, arguments, shared_mem=stages * PANEL)


@cache
def _stages(device: Any) -> int:
    there = import_torch().cuda.get_device_properties(device).shared_memory_per_block_optin
    return int(min(there // PANEL, STAGES))


def gains(tick: Any, stream: Any, step: Any, seed: Any, first_replica: int, law: int, out: Any) -> None:
    """Write step sizes times multipliers, (T, R); the first column has none."""
    (rows, width), stride = out.shape, out.stride(0)
    grid, block = (-(-width // 128), -(-rows // 16), 1), (128, 1, 1)
    sizes = rows, width, stride, first_replica, law
    kernel(GAINS, "gains")(grid, block, (tick, stream, step, seed, out, *sizes))


def largest(matrix: Any, out: Any) -> None:
    """Write the largest absolute entry of each column, NaN where there is one, into all rows of `out`, which are 0."""
    rows, columns = matrix.shape
    grid, block = (-(-columns // 32), min(-(-rows // 64), 128), 1), (32, 8, 1)
    kernel(LARGEST, "largest")(grid, block, (matrix, out, rows, columns, matrix.stride(0), len(out), out.stride(0)))


def sum_words(bits: Any, keys: Any, out: Any) -> None:
    """Write the words (T, m) of each row times their keys (m,), added up, into `out` (T,)."""
    kernel(WORDS, "words")((-(-len(bits) // 8), 1, 1), (32, 8, 1), (bits, keys, out, *bits.shape))
