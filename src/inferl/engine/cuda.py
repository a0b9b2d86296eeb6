"""CUDA kernels of the torch backend, compiled by the driver's own compiler (NVRTC) when they are first used.

Matrix products are torch's. Two things are not products: the multipliers, a pure function of (seed, replica, tick), and
the triangular recurrence within a chunk, where each step needs the residuals of those before it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from inferl.data.batches import import_torch
from inferl.errors import DeviceError

__all__ = ["gains", "solve"]

ORDINARY = 48 * 1024  # bytes of shared memory that a kernel gets without asking

# A block has 32 replicas (the lanes of a warp) and 8 warps, each with 4 of the 32 rows that are solved together. Tiles
# of 32 x 32 products pass through shared memory, the next one under way while one is used. A warp solves its rows in
# registers, shows them to the warps after it, and waits: one barrier for four rows.
SOLVE = """
extern "C" __global__ void solve(const double* __restrict__ residual, const double* __restrict__ gram,
                                 const double* __restrict__ gain, const double* __restrict__ weight,
                                 double* __restrict__ out, int rows, int terms, int width) {
    extern __shared__ double tile[];        // (32, 32) products; those of a warp's four rows lie side by side
    double* const solved = tile + 32 * 32;  // (rows, 32)
    const int lane = threadIdx.x, warp = threadIdx.y, column = blockIdx.x * 32 + lane;
    const int here = min(column, width - 1);
    for (int base = 0; base < rows; base += 32) {
        double left[4], own[4], next[4];
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row = min(base + 4 * warp + i, rows - 1);
            left[i] = residual[(size_t)row * width + here];
            own[i] = gain[(size_t)(row / terms) * width + here];
        }
        for (int from = -32; from <= base; from += 32) {  // a tile is loaded in one turn and used in the next
            if (from >= 0) {
                __syncthreads();
                #pragma unroll
                for (int i = 0; i < 4; i++) tile[32 * (warp + 8 * i) + lane] = next[i];
                __syncthreads();
            }
            if (from < base) {
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    const int row = base + lane, other = from + 32 + warp + 8 * i;
                    next[i] = row < rows && other < rows ? gram[(size_t)other * rows + row] : 0.0;
                }
            }
            if (from >= 0 && from < base) {
                #pragma unroll 8
                for (int j = 0; j < 32; j++) {
                    const double before = solved[32 * (from + j) + lane];
                    #pragma unroll
                    for (int i = 0; i < 4; i++) left[i] -= tile[32 * j + 4 * warp + i] * before;
                }
            }
        }
        double within[4][4];  // products of the warp's own rows, times the gain: one operation less in the chain
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            #pragma unroll
            for (int k = 0; k < i; k++) within[i][k] = own[i] * tile[32 * (4 * warp + k) + 4 * warp + i];
        }
        #pragma unroll
        for (int turn = 0; turn < 8; turn++) {
            if (warp == turn) {
                double mine[4];
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    mine[i] = own[i] * left[i];
                    #pragma unroll
                    for (int k = 0; k < i; k++) mine[i] -= within[i][k] * mine[k];
                    solved[32 * (base + 4 * turn + i) + lane] = mine[i];
                }
            }
            __syncthreads();
            if (warp > turn) {
                #pragma unroll
                for (int k = 0; k < 4; k++) {
                    const double before = solved[32 * (base + 4 * turn + k) + lane];
                    #pragma unroll
                    for (int i = 0; i < 4; i++) left[i] -= tile[32 * (4 * turn + k) + 4 * warp + i] * before;
                }
            }
        }
    }
    if (column >= width) return;
    for (int row = warp; row < rows; row += 8) {
        const double step = solved[32 * row + lane];
        out[(size_t)row * 2 * width + column] = step;
        out[(size_t)row * 2 * width + width + column] = weight[row / terms] * step;
    }
}
"""

# Philox 4x32-10 as in `multipliers.philox`: the same words, the same order of operations from word to multiplier.
GAINS = """
extern "C" __global__ void gains(const long long* __restrict__ tick, const long long* __restrict__ stream,
                                 const double* __restrict__ step, const unsigned int* __restrict__ seed,
                                 double* __restrict__ out, int rows, int width, int first_replica, int law) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
        double multiplier = 1.0;
        if (column > 0) {
            const int lanes = law == 1 ? 128 : 4;
            const unsigned long long now = tick[row], call = now / lanes;
            unsigned int x[4] = {(unsigned int)call, (unsigned int)(call >> 32),
                                 (unsigned int)(first_replica + column - 1), (unsigned int)stream[row]};
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
            const int lane = (int)(now % lanes) / (lanes / 4);
            const unsigned int word = lane == 0 ? x[0] : lane == 1 ? x[1] : lane == 2 ? x[2] : x[3];
            const double unit = ((double)word + 0.5) * 2.3283064365386963e-10;
            if (law == 0) multiplier = 1.0 + (2.0 * unit - 1.0) * 0.57735026918962584;
            else if (law == 1) multiplier = (double)((word >> (now % 32)) & 1u) * 2.0;
            else multiplier = -log(unit);
        }
        out[(size_t)row * width + column] = step[row] * multiplier;
    }
}
"""


@cache
def _compiled(source: str, name: str) -> Any:
    torch = import_torch()
    if not hasattr(torch.cuda, "_compile_kernel"):
        raise DeviceError(f"torch {torch.__version__} cannot compile kernels on a GPU; install torch 2.9 or newer")
    return torch.cuda._compile_kernel(source, name)


def solve(residual: Any, gram: Any, gain: Any, weight: Any, out: Any) -> None:
    """Solve the recurrence of a chunk: step_k = gain_k (residual_k - sum over j < k of gram_kj step_j).

    `residual` is (n, R) for n = K m rows, `gram` (n, n) is transposed, `gain` is (K, R) and `weight` (K,). `out`
    (n, 2 R) becomes the steps, and beside them the steps times their weight.
    """
    rows, width = residual.shape
    grid, block = (-(-width // 32), 1, 1), (32, 8, 1)
    kernel, shared = _compiled(SOLVE, "solve"), 256 * (32 + -(-rows // 32) * 32)
    if shared > ORDINARY:
        kernel.set_shared_memory_config(shared)
    kernel(grid, block, (residual, gram, gain, weight, out, rows, rows // gain.shape[0], width), shared_mem=shared)


def gains(tick: Any, stream: Any, step: Any, seed: Any, first_replica: int, law: int, out: Any) -> None:
    """Write step sizes times multipliers, (T, R); the first column has none."""
    rows, width = out.shape
    grid, block = (-(-width // 128), min(rows, 4096), 1), (128, 1, 1)
    _compiled(GAINS, "gains")(grid, block, (tick, stream, step, seed, out, rows, width, first_replica, law))
