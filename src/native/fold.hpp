// The arithmetic of Algorithm 1, one entry point per form of increment. Each instruction set compiles fold.inl once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace inferl {

enum class Law : int { uniform = 0, two_point = 1, exponential = 2, poisson = 3 };
enum class Gradient : int { gtd = 0, gtd2 = 1, tdc = 2 };

// Where the multipliers of T rows come from; see docs/method.md for the layout of the random words.
struct Draws {
    Law law;
    std::uint64_t seed;
    std::uint64_t first_replica;
    const std::int64_t *tick;    // (T,)
    const std::int64_t *stream;  // (T,)
};

// The rows that are folded into: parameters down, columns across. Column 0 is the estimate (multiplier 1).
struct State {
    double *iterate;  // (p, columns)
    double *lag;      // (p, columns)
    std::size_t p;
    std::size_t columns;
};

// What all forms share. After every `tile` rows the largest |parameter| of each column is noted.
struct Schedule {
    const double *step_size;  // (T,)
    const double *mass;       // (T,) sum of the averaging weights before each row
    std::size_t rows;
    std::size_t tile;
    double *largest;  // (ceil(T / tile), columns)
    Draws draws;
};

// One rank-one term a row: u (c - v . theta).
struct SingleTerm {
    const double *u, *v, *c;  // (T, p), (T, p), (T,)
};

// Terms given by their non-zeros.
struct SparseTerms {
    const std::int64_t *u_index, *v_index;  // (T, K, m_u), (T, K, m_v)
    const double *u_value, *v_value, *c;    // the same, and (T, K)
    std::size_t terms, m_u, m_v;
};

// GTD, GTD2 and TDC: parameters (theta, y), each of length d.
struct GradientRows {
    Gradient kind;
    const double *phi, *dphi, *ratio, *reward;  // (T, d), (T, d), (T,), (T,)
    double auxiliary_step;
    std::size_t d;
};

// Any number of dense terms, with damping.
struct DenseTerms {
    const double *u, *v, *c, *damping;  // (T, K, p), (T, K, p), (T, K), (p,)
    std::size_t terms;
};

// Resamples that walk along rows of their own: walker b takes row rows[b, t] at its t-th step, up to lengths[b].
struct Walk {
    double *iterate, *lag;               // (walkers, p)
    const std::int64_t *rows, *lengths;  // (walkers, steps), (walkers,)
    const double *step_size, *mass;      // (steps,)
    const double *limit;                 // (T,) of the step size, a row
    std::size_t p, walkers, steps;
};

struct Kernel {
    const char *name;
    int lanes;
    void (*single)(const State &, const Schedule &, const SingleTerm &, std::size_t begin, std::size_t end);
    void (*sparse)(const State &, const Schedule &, const SparseTerms &, std::size_t begin, std::size_t end);
    void (*gradient)(const State &, const Schedule &, const GradientRows &, std::size_t begin, std::size_t end);
    void (*dense)(const State &, const Schedule &, const DenseTerms &, std::size_t begin, std::size_t end);
    void (*walk_dense)(const Walk &, const DenseTerms &);
    void (*walk_sparse)(const Walk &, const SparseTerms &);
    int tile_rows, tile_columns;
    void (*product_tile)(const double *u, const double *v, std::size_t rows, double *out, std::size_t stride);
    void (*pack_rows)(const double *from, std::size_t rows, std::size_t stride, std::size_t there, double *to);
    void (*pack_columns)(const double *from, std::size_t rows, std::size_t stride, std::size_t there, double *to);
    void (*evaluate)(const DenseTerms &, const double *theta, std::size_t p, std::size_t begin, std::size_t end,
                     double *out);
    void (*largest_of)(const double *x, std::size_t rows, std::size_t p, double *most);
    void (*weighted_rows)(const double *x, const double *weight, std::size_t rows, std::size_t stride, std::size_t n,
                          double *sum);
    void (*sum_of)(const double *x, const double *y, std::size_t n, double *out);
    void (*add_to)(const double *x, std::size_t n, double *sum);
    void (*subtract_scaled)(const double *x, const double *y, const double *factor, std::size_t rows, std::size_t p,
                            double *out);
    void (*squared_norms)(const double *x, std::size_t rows, std::size_t p, double *out);
    void (*sum_words)(const std::uint64_t *x, const std::uint64_t *keys, std::size_t rows, std::size_t p,
                      std::uint64_t *out);
};

extern const Kernel generic_kernel;
#ifdef INFERL_X86
extern const Kernel avx2_kernel;
extern const Kernel avx512_kernel;
#endif

}  // namespace inferl
