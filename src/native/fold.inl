// The kernels, written once with vector extensions of the compiler and compiled for each instruction set.
//
// A group of LANES columns (replicas) is worked on together, each in its own lane, so that a column's result does not
// depend on its neighbours: sharding and threading over groups are exact to the bit. Rows are taken STEPS at a time: one
// pass over the parameters applies the updates of the last STEPS rows and computes the dot products of the next ones;
// what the rows of a group owe to each other goes through their small Gram matrix, which all columns share.
//
// The including file defines INFERL_NAMESPACE, INFERL_NAME, INFERL_WIDTH (doubles in a vector), INFERL_VECTORS (vectors
// in a group) and INFERL_STEPS (rows that are taken at a time).

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "fold.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace inferl {
namespace INFERL_NAMESPACE {

constexpr int WIDTH = INFERL_WIDTH;
constexpr int VECTORS = INFERL_VECTORS;
constexpr int LANES = WIDTH * VECTORS;
constexpr int STEPS = INFERL_STEPS;

typedef double vec __attribute__((vector_size(WIDTH * 8)));
typedef double loose __attribute__((vector_size(WIDTH * 8), aligned(8), may_alias));  // at any address
typedef std::uint64_t words __attribute__((vector_size(WIDTH * 8)));

inline vec load(const double *from) { return *reinterpret_cast<const loose *>(from); }
inline void store(double *to, vec x) { *reinterpret_cast<loose *>(to) = x; }
inline vec all(double x) { return vec{} + x; }

// LANES columns as VECTORS vectors.
struct Lanes {
    vec x[VECTORS];
    static Lanes zero() {
        Lanes y;
        for (int i = 0; i < VECTORS; ++i) y.x[i] = vec{};
        return y;
    }
    static Lanes at(const double *from) {
        Lanes y;
        for (int i = 0; i < VECTORS; ++i) y.x[i] = load(from + i * WIDTH);
        return y;
    }
    void put(double *to) const {
        for (int i = 0; i < VECTORS; ++i) store(to + i * WIDTH, x[i]);
    }
};

inline Lanes operator*(const Lanes &a, const Lanes &b) {
    Lanes y;
    for (int i = 0; i < VECTORS; ++i) y.x[i] = a.x[i] * b.x[i];
    return y;
}
inline Lanes operator*(double a, const Lanes &b) {
    Lanes y;
    for (int i = 0; i < VECTORS; ++i) y.x[i] = a * b.x[i];
    return y;
}
inline Lanes operator-(const Lanes &a, const Lanes &b) {
    Lanes y;
    for (int i = 0; i < VECTORS; ++i) y.x[i] = a.x[i] - b.x[i];
    return y;
}
inline Lanes operator-(double a, const Lanes &b) {
    Lanes y;
    for (int i = 0; i < VECTORS; ++i) y.x[i] = a - b.x[i];
    return y;
}
// y += a b
inline void add(Lanes &y, double a, const Lanes &b) {
    for (int i = 0; i < VECTORS; ++i) y.x[i] += a * b.x[i];
}

// The largest |x| seen; infinity once an x was not finite.
struct Largest {
    Lanes most = Lanes::zero(), poison = Lanes::zero();
    void see(const Lanes &x) {
        for (int i = 0; i < VECTORS; ++i) {
            words bits;
            std::memcpy(&bits, &x.x[i], sizeof bits);
            bits &= words{} + 0x7FFFFFFFFFFFFFFFull;
            vec size;
            std::memcpy(&size, &bits, sizeof size);
            most.x[i] = size > most.x[i] ? size : most.x[i];
            poison.x[i] += 0.0 * x.x[i];  // becomes NaN, and stays it
        }
    }
    void see(const Largest &other) {
        see(other.most);
        for (int i = 0; i < VECTORS; ++i) poison.x[i] += other.poison.x[i];
    }
    Lanes value() const {
        Lanes y;
        for (int i = 0; i < VECTORS; ++i)
            y.x[i] = poison.x[i] == poison.x[i] ? most.x[i] : all(std::numeric_limits<double>::infinity());
        return y;
    }
};

// Random words of a group of columns: philox 4x32-10.

// The product of the lower halves of two 64-bit words.
inline words low_product(words a, std::uint32_t b) {
#if defined(__AVX512F__) && INFERL_WIDTH == 8
    return reinterpret_cast<words>(_mm512_mul_epu32(reinterpret_cast<__m512i>(a), _mm512_set1_epi64(b)));
#elif defined(__AVX2__) && INFERL_WIDTH == 4
    return reinterpret_cast<words>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), _mm256_set1_epi64x(b)));
#else
    return (a & 0xFFFFFFFFu) * b;
#endif
}

// The two words of the key in each of the ten rounds.
struct Key {
    std::uint64_t word[10][2];
    explicit Key(std::uint64_t seed) {
        std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
        for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
            word[round][0] = k0;
            word[round][1] = k1;
        }
    }
};

// Upper halves hold rubbish between rounds, which products do not look at; they are cleared at the end.
inline void philox(words x[4], const Key &key) {
    for (int round = 0; round < 10; ++round) {
        const words p0 = low_product(x[0], 0xD2511F53u), p1 = low_product(x[2], 0xCD9E8D57u);
        x[0] = (p1 >> 32) ^ x[1] ^ (words{} + key.word[round][0]);
        x[2] = (p0 >> 32) ^ x[3] ^ (words{} + key.word[round][1]);
        x[1] = p1;
        x[3] = p0;
    }
    for (int k = 0; k < 4; ++k) x[k] &= words{} + 0xFFFFFFFFu;
}

// Gains, step size x multiplier, of a group of columns for a stretch of rows.
class Gains {
  public:
    Gains(const Schedule &schedule, std::size_t column, std::size_t columns)
        : s_(schedule), key_(schedule.draws.seed), space_(schedule.tile) {
        for (int lane = 0; lane < LANES; ++lane) {
            const std::size_t own = column + lane;
            // Replica of column c is first_replica + c - 1. Column 0 is the estimate, with multiplier 1; columns that do
            // not exist have multiplier 0 and stay as they are.
            replica_[lane / WIDTH][lane % WIDTH] = (s_.draws.first_replica + own - 1) & 0xFFFFFFFFu;
            keep_[lane / WIDTH][lane % WIDTH] = own > 0 && own < columns ? 1.0 : 0.0;
            base_[lane / WIDTH][lane % WIDTH] = own == 0 ? 1.0 : 0.0;
        }
    }

    const Lanes &operator[](std::size_t row) const { return space_[row - first_]; }

    // Compute the gains of up to a tile of rows.
    void fill(std::size_t first, std::size_t end) {
        first_ = first;
        switch (s_.draws.law) {
            case Law::uniform: return fill_law<Law::uniform>(end);
            case Law::two_point: return fill_law<Law::two_point>(end);
            case Law::exponential: return fill_law<Law::exponential>(end);
        }
    }

  private:
    template <Law law>
    void fill_law(std::size_t end) {
        constexpr std::uint64_t ticks = law == Law::two_point ? 128 : 4;  // that one call of the generator serves
        words word[VECTORS][4];
        std::uint64_t call = 0, stream = 0;
        bool known = false;
        for (std::size_t t = first_; t < end; ++t) {
            const std::uint64_t tick = static_cast<std::uint64_t>(s_.draws.tick[t]);
            const std::uint64_t own_stream = static_cast<std::uint64_t>(s_.draws.stream[t]);
            if (!known || tick / ticks != call || own_stream != stream) {
                call = tick / ticks;
                stream = own_stream;
                known = true;
                for (int i = 0; i < VECTORS; ++i) {
                    word[i][0] = words{} + (call & 0xFFFFFFFFu);
                    word[i][1] = words{} + (call >> 32);
                    word[i][2] = replica_[i];
                    word[i][3] = words{} + stream;
                    philox(word[i], key_);
                }
            }
            const int lane = static_cast<int>(tick % ticks);
            for (int i = 0; i < VECTORS; ++i) {
                vec w;
                if (law == Law::two_point) {
                    w = 2.0 * as_double((word[i][lane / 32] >> (lane % 32)) & 1);
                } else {
                    const vec unit = (as_double(word[i][lane % 4]) + 0.5) * 0x1p-32;
                    if (law == Law::uniform) w = 1.0 + (2.0 * unit - 1.0) * (1.0 / std::sqrt(3.0));
                    if (law == Law::exponential)
                        for (int j = 0; j < WIDTH; ++j) w[j] = -std::log(unit[j]);
                }
                space_[t - first_].x[i] = s_.step_size[t] * (keep_[i] * w + base_[i]);
            }
        }
    }

    // Exact for integers below 2^52.
    static vec as_double(words x) {
        const words magic = x | (words{} + 0x4330000000000000ull);
        vec y;
        std::memcpy(&y, &magic, sizeof y);
        return y - 0x1p52;
    }

    const Schedule &s_;
    Key key_;
    std::size_t first_ = 0;
    words replica_[VECTORS];
    vec keep_[VECTORS], base_[VECTORS];
    std::vector<Lanes> space_;
};

// A group of columns copied out of the state, so that its lanes lie side by side, and back.

class Packed {
  public:
    Packed(const State &state, std::size_t column) : state_(state), column_(column) {
        width_ = std::min<std::size_t>(LANES, state.columns - column);
        space_.assign(2 * state.p * LANES + 8, 0.0);
        const auto address = reinterpret_cast<std::uintptr_t>(space_.data());
        iterate = space_.data() + ((64 - address % 64) % 64) / 8;
        lag = iterate + state.p * LANES;
        for (std::size_t i = 0; i < state.p; ++i) {
            std::copy_n(state.iterate + i * state.columns + column, width_, iterate + i * LANES);
            std::copy_n(state.lag + i * state.columns + column, width_, lag + i * LANES);
        }
    }
    void unpack() const {
        for (std::size_t i = 0; i < state_.p; ++i) {
            std::copy_n(iterate + i * LANES, width_, state_.iterate + i * state_.columns + column_);
            std::copy_n(lag + i * LANES, width_, state_.lag + i * state_.columns + column_);
        }
    }
    // Write the largest |parameter| of each column after a tile.
    void note(const Schedule &schedule, std::size_t tile, const Largest &largest) const {
        double values[LANES];
        largest.value().put(values);
        std::copy_n(values, width_, schedule.largest + tile * state_.columns + column_);
    }
    Largest scan() const {
        Largest largest;
        for (std::size_t i = 0; i < state_.p; ++i) largest.see(Lanes::at(iterate + i * LANES));
        return largest;
    }

    double *iterate, *lag;

  private:
    const State &state_;
    std::size_t column_, width_;
    std::vector<double> space_;
};

inline double dot(const double *x, const double *y, std::size_t p) {
    double sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    std::size_t i = 0;
    for (; i + 8 <= p; i += 8)
        for (int j = 0; j < 8; ++j) sum[j] += x[i + j] * y[i + j];
    for (; i < p; ++i) sum[i % 8] += x[i] * y[i];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

// Rows of two arrays, STEPS at a time and side by side: for each parameter first the STEPS entries of x that are applied,
// then the STEPS entries of y whose dot products are taken. Missing rows are 0.
class Interleaved {
  public:
    explicit Interleaved(std::size_t p) : p_(p), space_(2 * STEPS * p) {}
    void fill(const double *x, std::size_t x_rows, const double *y, std::size_t y_rows) {
        for (std::size_t i = 0; i < p_; ++i) {
            double *to = space_.data() + 2 * STEPS * i;
            for (std::size_t k = 0; k < STEPS; ++k) {
                to[k] = k < x_rows ? x[k * p_ + i] : 0.0;
                to[STEPS + k] = k < y_rows ? y[k * p_ + i] : 0.0;
            }
        }
    }
    const double *at(std::size_t i) const { return space_.data() + 2 * STEPS * i; }

  private:
    std::size_t p_;
    std::vector<double> space_;
};

// theta += sum x_k coef_k, lag += sum x_k moved_k, then dots_k = y_k . theta, for STEPS rows in one pass.
template <bool Note>
inline void pass(double *theta, double *lag, std::size_t p, const Interleaved &rows, const Lanes coef[STEPS],
                 const Lanes moved[STEPS], Lanes dots[STEPS], Largest &largest) {
    Lanes c[STEPS], m[STEPS], d[STEPS];
    for (int k = 0; k < STEPS; ++k) {
        c[k] = coef[k];
        m[k] = moved[k];
        d[k] = Lanes::zero();
    }
    Largest most;
    for (std::size_t i = 0; i < p; ++i) {
        const double *entry = rows.at(i);
        Lanes x = Lanes::at(theta + i * LANES), l = Lanes::at(lag + i * LANES);
        for (int k = 0; k < STEPS; ++k) {
            add(x, entry[k], c[k]);
            add(l, entry[k], m[k]);
        }
        x.put(theta + i * LANES);
        l.put(lag + i * LANES);
        if (Note) most.see(x);
        for (int k = 0; k < STEPS; ++k) add(d[k], entry[STEPS + k], x);
    }
    for (int k = 0; k < STEPS; ++k) dots[k] = d[k];
    if (Note) largest = most;
}

inline std::size_t chunk_rows(std::size_t rows, std::size_t chunk) {
    const std::size_t begin = chunk * STEPS;
    return begin >= rows ? 0 : std::min<std::size_t>(STEPS, rows - begin);
}

void fold_single(const State &state, const Schedule &s, const SingleTerm &term, std::size_t begin, std::size_t end) {
    const std::size_t p = state.p, chunks = (s.rows + STEPS - 1) / STEPS, per_tile = s.tile / STEPS;
    std::vector<Interleaved> rows(chunks + 1, Interleaved(p));
    std::vector<double> gram(chunks * STEPS * STEPS, 0.0);
    for (std::size_t q = 0; q <= chunks; ++q) {
        const std::size_t before = q == 0 ? 0 : chunk_rows(s.rows, q - 1), now = chunk_rows(s.rows, q);
        rows[q].fill(q == 0 ? term.u : term.u + (q - 1) * STEPS * p, before, term.v + q * STEPS * p, now);
        for (std::size_t k = 1; k < now; ++k)
            for (std::size_t j = 0; j < k; ++j)
                gram[(q * STEPS + k) * STEPS + j] =
                    dot(term.v + (q * STEPS + k) * p, term.u + (q * STEPS + j) * p, p);
    }
    for (std::size_t column = begin; column < end; column += LANES) {
        Packed packed(state, column);
        Gains gain(s, column, state.columns);
        Lanes coef[STEPS], moved[STEPS], dots[STEPS];
        Largest largest;
        for (int k = 0; k < STEPS; ++k) coef[k] = moved[k] = Lanes::zero();
        for (std::size_t q = 0; q <= chunks; ++q) {
            const bool edge = q == chunks || (q > 0 && q % per_tile == 0);
            if (edge) {
                pass<true>(packed.iterate, packed.lag, p, rows[q], coef, moved, dots, largest);
                packed.note(s, (q - 1) / per_tile, largest);
            } else {
                pass<false>(packed.iterate, packed.lag, p, rows[q], coef, moved, dots, largest);
            }
            const std::size_t now = chunk_rows(s.rows, q);
            if (q % per_tile == 0 && now) gain.fill(q * STEPS, std::min(q * STEPS + s.tile, s.rows));
            for (std::size_t k = 0; k < STEPS; ++k) {
                if (k >= now) {
                    coef[k] = moved[k] = Lanes::zero();
                    continue;
                }
                const std::size_t t = q * STEPS + k;
                Lanes rest = term.c[t] - dots[k];
                for (std::size_t j = 0; j < k; ++j) add(rest, -gram[t * STEPS + j], coef[j]);
                coef[k] = gain[t] * rest;
                moved[k] = s.mass[t] * coef[k];
            }
        }
        packed.unpack();
    }
}

// A group of columns where it lies, in the state or packed; in the state the last one may be narrower than the vectors.
template <bool Whole>
class InPlace {
  public:
    InPlace(double *base, std::size_t stride, std::size_t width) : base_(base), stride_(stride), width_(width) {}
    Lanes at(std::int64_t index) const {
        const double *from = base_ + static_cast<std::size_t>(index) * stride_;
        if (Whole) return Lanes::at(from);
        Lanes y;
        for (int i = 0; i < VECTORS; ++i)
            for (int j = 0; j < WIDTH; ++j)
                y.x[i][j] = i * WIDTH + j < static_cast<int>(width_) ? from[i * WIDTH + j] : 0.0;
        return y;
    }
    void put(std::int64_t index, const Lanes &y) const {
        double *to = base_ + static_cast<std::size_t>(index) * stride_;
        if (Whole) return y.put(to);
        for (int i = 0; i < VECTORS; ++i)
            for (int j = 0; j < WIDTH; ++j)
                if (i * WIDTH + j < static_cast<int>(width_)) to[i * WIDTH + j] = y.x[i][j];
    }

  private:
    double *base_;
    std::size_t stride_, width_;
};

// TD(0) on a table: one entry to update, two to look at.
template <bool Whole>
void fold_table(const InPlace<Whole> &theta, const InPlace<Whole> &lag, const Schedule &s, const SparseTerms &x,
                const Gains &gain, std::size_t first, std::size_t stop, Largest &largest) {
    Largest most;
    for (std::size_t t = first; t < stop; ++t) {
        Lanes error = x.c[t] - x.v_value[2 * t] * theta.at(x.v_index[2 * t]);
        add(error, -x.v_value[2 * t + 1], theta.at(x.v_index[2 * t + 1]));
        const Lanes change = x.u_value[t] * (gain[t] * error);
        const std::int64_t own = x.u_index[t];
        Lanes value = theta.at(own), behind = lag.at(own);
        add(value, 1.0, change);
        add(behind, s.mass[t], change);
        most.see(value);
        theta.put(own, value);
        lag.put(own, behind);
    }
    largest = most;
}

template <bool Whole>
void fold_entries(const InPlace<Whole> &theta, const InPlace<Whole> &lag, const Schedule &s, const SparseTerms &x,
                  const Gains &gain, std::size_t first, std::size_t stop, Largest &largest) {
    std::vector<Lanes> rest(x.terms);
    for (std::size_t t = first; t < stop; ++t) {
        for (std::size_t k = 0; k < x.terms; ++k) {
            Lanes dots = Lanes::zero();
            for (std::size_t i = (t * x.terms + k) * x.m_v; i < (t * x.terms + k + 1) * x.m_v; ++i)
                if (x.v_value[i] != 0.0) add(dots, x.v_value[i], theta.at(x.v_index[i]));
            rest[k] = gain[t] * (x.c[t * x.terms + k] - dots);
        }
        for (std::size_t k = 0; k < x.terms; ++k)
            for (std::size_t i = (t * x.terms + k) * x.m_u; i < (t * x.terms + k + 1) * x.m_u; ++i) {
                if (x.u_value[i] == 0.0) continue;
                Lanes value = theta.at(x.u_index[i]), behind = lag.at(x.u_index[i]);
                add(value, x.u_value[i], rest[k]);
                add(behind, x.u_value[i] * s.mass[t], rest[k]);
                largest.see(value);
                theta.put(x.u_index[i], value);
                lag.put(x.u_index[i], behind);
            }
    }
}

template <bool Whole>
void fold_sparse_group(const State &state, const Schedule &s, const SparseTerms &x, std::size_t column,
                       const InPlace<Whole> &theta, const InPlace<Whole> &lag) {
    Gains gain(s, column, state.columns);
    const bool table = x.terms == 1 && x.m_u == 1 && x.m_v == 2;
    for (std::size_t first = 0; first < s.rows; first += s.tile) {
        const std::size_t stop = std::min(first + s.tile, s.rows);
        gain.fill(first, stop);
        Largest largest;  // of what is touched in this tile; the rest was noted before
        if (table)
            fold_table(theta, lag, s, x, gain, first, stop, largest);
        else
            fold_entries(theta, lag, s, x, gain, first, stop, largest);
        double values[LANES];
        largest.value().put(values);
        std::copy_n(values, std::min<std::size_t>(LANES, state.columns - column),
                    s.largest + first / s.tile * state.columns + column);
    }
}

// One-hot features: only the parameters that a row names are touched.
void fold_sparse(const State &state, const Schedule &s, const SparseTerms &x, std::size_t begin, std::size_t end) {
    // Packed lanes lie on cache lines; packing costs a pass over the table, so it must be small beside the rows.
    const bool pack = state.p <= s.rows;
    for (std::size_t column = begin; column < end; column += LANES) {
        const std::size_t width = std::min<std::size_t>(LANES, state.columns - column), stride = state.columns;
        if (pack) {
            Packed packed(state, column);
            fold_sparse_group(state, s, x, column, InPlace<true>(packed.iterate, LANES, LANES),
                              InPlace<true>(packed.lag, LANES, LANES));
            packed.unpack();
        } else if (width == LANES) {
            fold_sparse_group(state, s, x, column, InPlace<true>(state.iterate + column, stride, width),
                              InPlace<true>(state.lag + column, stride, width));
        } else {
            fold_sparse_group(state, s, x, column, InPlace<false>(state.iterate + column, stride, width),
                              InPlace<false>(state.lag + column, stride, width));
        }
    }
}

// Two blocks of parameters, (theta, y). With delta = r - dphi . theta and h = phi . y before each row:
//   GTD2  theta += a rho h dphi                                 y += x a (rho delta - h) phi
//   TDC   theta += a rho (delta - h) phi + a rho h dphi         y += x a (rho delta - h) phi
//   GTD   theta += a rho h dphi                                 y += x a (rho delta phi - y)
template <Gradient Kind>
void fold_gradient_kind(const State &state, const Schedule &s, const GradientRows &g, std::size_t begin,
                        std::size_t end) {
    const std::size_t d = g.d, chunks = (s.rows + STEPS - 1) / STEPS, per_tile = s.tile / STEPS;
    std::vector<Interleaved> dphi(chunks + 1, Interleaved(d)), phi(chunks + 1, Interleaved(d));
    std::vector<Interleaved> mixed(Kind == Gradient::tdc ? chunks + 1 : 0, Interleaved(d));
    const std::size_t small = chunks * STEPS * STEPS;
    std::vector<double> dd(small), pp(small), dp(small);
    for (std::size_t q = 0; q <= chunks; ++q) {
        const std::size_t before = q == 0 ? 0 : chunk_rows(s.rows, q - 1), now = chunk_rows(s.rows, q);
        const std::size_t old = q == 0 ? 0 : (q - 1) * STEPS * d, next = q * STEPS * d;
        dphi[q].fill(g.dphi + old, before, g.dphi + next, now);
        phi[q].fill(g.phi + old, before, g.phi + next, now);
        if (Kind == Gradient::tdc) mixed[q].fill(g.phi + old, before, g.dphi + next, now);
        for (std::size_t k = 1; k < now; ++k)
            for (std::size_t j = 0; j < k; ++j) {
                const double *dk = g.dphi + next + k * d, *pk = g.phi + next + k * d;
                const std::size_t at = (q * STEPS + k) * STEPS + j;
                dd[at] = dot(dk, g.dphi + next + j * d, d);
                pp[at] = dot(pk, g.phi + next + j * d, d);
                if (Kind == Gradient::tdc) dp[at] = dot(dk, g.phi + next + j * d, d);
            }
    }
    for (std::size_t column = begin; column < end; column += LANES) {
        Packed packed(state, column);
        double *y = packed.iterate + d * LANES, *y_lag = packed.lag + d * LANES;
        Gains gain(s, column, state.columns);
        Lanes f[STEPS], f_moved[STEPS], e[STEPS], e_moved[STEPS], o[STEPS], o_moved[STEPS];  // of dphi, phi in y, phi
        Lanes along[STEPS], h[STEPS], unused[STEPS];
        Largest most, most_y;
        Lanes kappa = Lanes::zero(), kappa_moved = Lanes::zero();  // GTD: what is left of the old y, and its lag
        for (int i = 0; i < VECTORS; ++i) kappa.x[i] = all(1.0);
        for (int k = 0; k < STEPS; ++k) {
            f[k] = f_moved[k] = e[k] = e_moved[k] = o[k] = o_moved[k] = Lanes::zero();
        }
        for (std::size_t q = 0; q <= chunks; ++q) {
            const bool edge = q == chunks || (q > 0 && q % per_tile == 0);
            if (Kind == Gradient::gtd && q > 0) {  // decay y before the new rows are added to it
                for (std::size_t i = 0; i < d; ++i) {
                    Lanes old = Lanes::at(y + i * LANES), l = Lanes::at(y_lag + i * LANES);
                    for (int v = 0; v < VECTORS; ++v) {
                        l.x[v] += kappa_moved.x[v] * old.x[v];
                        old.x[v] *= kappa.x[v];
                    }
                    old.put(y + i * LANES);
                    l.put(y_lag + i * LANES);
                }
                kappa_moved = Lanes::zero();
                for (int i = 0; i < VECTORS; ++i) kappa.x[i] = all(1.0);
            }
            if (Kind == Gradient::tdc) pass<false>(packed.iterate, packed.lag, d, mixed[q], o, o_moved, unused, most);
            if (edge) {
                pass<true>(packed.iterate, packed.lag, d, dphi[q], f, f_moved, along, most);
                pass<true>(y, y_lag, d, phi[q], e, e_moved, h, most_y);
                most.see(most_y);
                packed.note(s, (q - 1) / per_tile, most);
            } else {
                pass<false>(packed.iterate, packed.lag, d, dphi[q], f, f_moved, along, most);
                pass<false>(y, y_lag, d, phi[q], e, e_moved, h, most_y);
            }
            const std::size_t now = chunk_rows(s.rows, q);
            if (q % per_tile == 0 && now) gain.fill(q * STEPS, std::min(q * STEPS + s.tile, s.rows));
            for (std::size_t k = 0; k < STEPS; ++k) {
                if (k >= now) {
                    f[k] = f_moved[k] = e[k] = e_moved[k] = o[k] = o_moved[k] = Lanes::zero();
                    continue;
                }
                const std::size_t t = q * STEPS + k;
                Lanes delta = g.reward[t] - along[k], inside = h[k];
                if (Kind == Gradient::gtd) inside = kappa * inside;
                for (std::size_t j = 0; j < k; ++j) {
                    add(delta, -dd[t * STEPS + j], f[j]);
                    if (Kind == Gradient::tdc) add(delta, -dp[t * STEPS + j], o[j]);
                    add(inside, pp[t * STEPS + j], e[j]);
                }
                const Lanes a = gain[t];
                const double rho = g.ratio[t], x = g.auxiliary_step, mass = s.mass[t];
                f[k] = rho * (a * inside);
                f_moved[k] = mass * f[k];
                if (Kind == Gradient::tdc) {
                    o[k] = rho * (a * (delta - inside));
                    o_moved[k] = mass * o[k];
                }
                if (Kind == Gradient::gtd) {
                    const Lanes decay = x * a;  // y loses decay times itself: the old part and the rows before
                    for (int i = 0; i < VECTORS; ++i) {
                        kappa_moved.x[i] -= mass * decay.x[i] * kappa.x[i];
                        kappa.x[i] *= 1.0 - decay.x[i];
                        for (std::size_t j = 0; j < k; ++j) {
                            e_moved[j].x[i] -= mass * decay.x[i] * e[j].x[i];
                            e[j].x[i] *= 1.0 - decay.x[i];
                        }
                    }
                    e[k] = (x * rho) * (a * delta);
                } else {
                    e[k] = x * (a * (rho * delta - inside));
                }
                e_moved[k] = mass * e[k];
            }
        }
        packed.unpack();
    }
}

void fold_gradient(const State &state, const Schedule &s, const GradientRows &g, std::size_t begin, std::size_t end) {
    switch (g.kind) {
        case Gradient::gtd: return fold_gradient_kind<Gradient::gtd>(state, s, g, begin, end);
        case Gradient::gtd2: return fold_gradient_kind<Gradient::gtd2>(state, s, g, begin, end);
        case Gradient::tdc: return fold_gradient_kind<Gradient::tdc>(state, s, g, begin, end);
    }
}

// Any dense terms, row by row.
void fold_dense(const State &state, const Schedule &s, const DenseTerms &x, std::size_t begin, std::size_t end) {
    const std::size_t p = state.p, terms = x.terms;
    std::vector<Lanes> rest(terms);
    for (std::size_t column = begin; column < end; column += LANES) {
        Packed packed(state, column);
        Gains gain(s, column, state.columns);
        for (std::size_t t = 0; t < s.rows; ++t) {
            if (t % s.tile == 0) gain.fill(t, std::min(t + s.tile, s.rows));
            const double *u = x.u + t * terms * p, *v = x.v + t * terms * p;
            for (std::size_t k = 0; k < terms; ++k) {
                Lanes dots = Lanes::zero();
                for (std::size_t i = 0; i < p; ++i) add(dots, v[k * p + i], Lanes::at(packed.iterate + i * LANES));
                rest[k] = x.c[t * terms + k] - dots;
            }
            for (std::size_t i = 0; i < p; ++i) {
                Lanes theta = Lanes::at(packed.iterate + i * LANES), lag = Lanes::at(packed.lag + i * LANES);
                Lanes change = -x.damping[i] * theta;
                for (std::size_t k = 0; k < terms; ++k) add(change, u[k * p + i], rest[k]);
                change = gain[t] * change;
                add(lag, s.mass[t], change);
                add(theta, 1.0, change);
                theta.put(packed.iterate + i * LANES);
                lag.put(packed.lag + i * LANES);
            }
            if ((t + 1) % s.tile == 0 || t + 1 == s.rows) packed.note(s, t / s.tile, packed.scan());
        }
        packed.unpack();
    }
}

}  // namespace INFERL_NAMESPACE

extern const Kernel INFERL_KERNEL = {INFERL_NAME,
                                     INFERL_NAMESPACE::LANES,
                                     INFERL_NAMESPACE::fold_single,
                                     INFERL_NAMESPACE::fold_sparse,
                                     INFERL_NAMESPACE::fold_gradient,
                                     INFERL_NAMESPACE::fold_dense};

}  // namespace inferl
