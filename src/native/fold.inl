// The kernels, written once with vector extensions of the compiler and compiled for each instruction set.
//
// A group of LANES columns (replicas) is worked on together, each in its own lane, so that a column's result does not
// depend on its neighbours: sharding and threading over groups are exact to the bit. Rows are taken STEPS at a time: one
// pass over the parameters applies the updates of the last STEPS rows and computes the dot products of the next ones;
// what the rows of a group owe to each other goes through their small Gram matrix, which all columns share.
//
// The including file defines INFERL_NAMESPACE, INFERL_NAME, INFERL_WIDTH (doubles in a vector), INFERL_VECTORS (vectors
// in a group), INFERL_STEPS (rows that are taken at a time), and INFERL_TILE_ROWS and INFERL_TILE_VECTORS (the part of a
// matrix product that fits into the registers).

#include <algorithm>
#include <cmath>
#include <cstring>
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
typedef std::int64_t whole __attribute__((vector_size(WIDTH * 8)));

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

// The largest |x| seen; infinity once an x was not finite. Magnitudes compare like their bits, and those of infinities
// and NaNs are the largest.
struct Largest {
    whole most[VECTORS] = {};
    void see(const Lanes &x) {
        for (int i = 0; i < VECTORS; ++i) {
            whole bits;
            std::memcpy(&bits, &x.x[i], sizeof bits);
            bits &= whole{} + 0x7FFFFFFFFFFFFFFFll;
            most[i] = bits > most[i] ? bits : most[i];
        }
    }
    void see(const Largest &other) {
        for (int i = 0; i < VECTORS; ++i) most[i] = other.most[i] > most[i] ? other.most[i] : most[i];
    }
    Lanes value() const {
        Lanes y;
        const whole infinity = whole{} + 0x7FF0000000000000ll;
        for (int i = 0; i < VECTORS; ++i) {
            const whole bits = most[i] < infinity ? most[i] : infinity;
            std::memcpy(&y.x[i], &bits, sizeof bits);
        }
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

// The smallest words w with (w + 1/2) / 2^32 >= P(W <= k), W Poisson(1), k = 0, 1, ...
constexpr std::uint64_t POISSON[] = {
    1580030169u, 3160060337u, 3950075422u, 4213413783u, 4279248374u, 4292415292u, 4294609778u, 4294923276u,
    4294962463u, 4294966817u, 4294967253u, 4294967292u};

// Upper halves hold rubbish, which products do not look at.
inline void philox(words x[4][VECTORS], const Key &key) {
    for (int round = 0; round < 10; ++round)
        for (int i = 0; i < VECTORS; ++i) {
            const words p0 = low_product(x[0][i], 0xD2511F53u), p1 = low_product(x[2][i], 0xCD9E8D57u);
            x[0][i] = (p1 >> 32) ^ x[1][i] ^ (words{} + key.word[round][0]);
            x[2][i] = (p0 >> 32) ^ x[3][i] ^ (words{} + key.word[round][1]);
            x[1][i] = p1;
            x[3][i] = p0;
        }
}

// Gains, step size x multiplier, of a group of columns for a stretch of rows.
class Gains {
  public:
    Gains(const Schedule &schedule, std::size_t column, std::size_t columns, Lanes *space)
        : s_(schedule), key_(schedule.draws.seed), space_(space) {
        // The uniform law makes 1 + (2 (word + 1/2) / 2^32 - 1) / sqrt(3) of a word.
        const bool uniform = s_.draws.law == Law::uniform;
        const double root = 1.0 / std::sqrt(3.0);
        const double slope = uniform ? 0x1p-31 * root : 1.0, start = uniform ? 1.0 + (0x1p-32 - 1.0) * root : 0.0;
        for (int lane = 0; lane < LANES; ++lane) {
            const std::size_t own = column + lane;
            const bool replica = own > 0 && own < columns;
            // Replica of column c is first_replica + c - 1. Column 0 is the estimate, with multiplier 1; columns that
            // do not exist have multiplier 0.
            replica_[lane / WIDTH][lane % WIDTH] = (s_.draws.first_replica + own - 1) & 0xFFFFFFFFu;
            slope_[lane / WIDTH][lane % WIDTH] = replica ? slope : 0.0;
            start_[lane / WIDTH][lane % WIDTH] = replica ? start : own == 0 ? 1.0 : 0.0;
        }
    }

    const Lanes &operator[](std::size_t row) const { return space_[row - first_]; }

    // Compute the gains of up to a tile of rows.
    void fill(std::size_t first, std::size_t end) {
        first_ = first;
        while (first < end) first = fill_call(first, end);
    }

    // Compute the gains of the rows that one call of the generator serves, and return the row after them.
    std::size_t next(std::size_t first, std::size_t end) {
        first_ = first;
        return fill_call(first, end);
    }

  private:
    std::size_t fill_call(std::size_t first, std::size_t end) {
        switch (s_.draws.law) {
            case Law::uniform: return fill_law<Law::uniform>(first, end);
            case Law::two_point: return fill_law<Law::two_point>(first, end);
            case Law::poisson: return fill_law<Law::poisson>(first, end);
            default: return fill_law<Law::exponential>(first, end);
        }
    }

    template <Law law>
    std::size_t fill_law(std::size_t first, std::size_t end) {
        constexpr std::uint64_t ticks = law == Law::two_point ? 128 : 4;  // that one call of the generator serves
        const auto call_of = [&](std::size_t t) { return static_cast<std::uint64_t>(s_.draws.tick[t]) / ticks; };
        const std::uint64_t call = call_of(first), stream = static_cast<std::uint64_t>(s_.draws.stream[first]);
        words word[4][VECTORS];
        for (int i = 0; i < VECTORS; ++i) {
            word[0][i] = words{} + (call & 0xFFFFFFFFu);
            word[1][i] = words{} + (call >> 32);
            word[2][i] = replica_[i];
            word[3][i] = words{} + stream;
        }
        philox(word, key_);
        std::size_t t = first;
        do {
            const std::size_t lane = static_cast<std::uint64_t>(s_.draws.tick[t]) % ticks;
            for (int i = 0; i < VECTORS; ++i) {
                vec w;
                if (law == Law::two_point)
                    w = 2.0 * as_double((word[lane / 32][i] >> (lane % 32)) & 1);
                else if (law == Law::poisson)
                    w = as_double(poisson(word[lane][i] & 0xFFFFFFFFu));
                else
                    w = as_double(word[lane][i]);
                if (law == Law::exponential)
                    for (int j = 0; j < WIDTH; ++j) w[j] = -std::log((w[j] + 0.5) * 0x1p-32);
                space_[t - first_].x[i] = s_.step_size[t] * (slope_[i] * w + start_[i]);
            }
            ++t;
        } while (t < end && call_of(t) == call && static_cast<std::uint64_t>(s_.draws.stream[t]) == stream);
        return t;
    }

    // Poisson(1): how many of the probabilities P(W <= k), as words, are not above the word.
    static words poisson(words x) {
        words count{};
        for (const std::uint64_t below : POISSON) count += reinterpret_cast<words>(x >= below) & 1;
        return count;
    }

    // The lower half of each word as a number.
    static vec as_double(words x) {
        const words magic = (x & 0xFFFFFFFFu) | 0x4330000000000000ull;
        vec y;
        std::memcpy(&y, &magic, sizeof y);
        return y - 0x1p52;
    }

    const Schedule &s_;
    Key key_;
    std::size_t first_ = 0;
    words replica_[VECTORS];
    vec slope_[VECTORS], start_[VECTORS];
    Lanes *space_;  // room for a tile of rows
};

// A group of columns copied out of the state, so that its lanes lie side by side, and back.

class Packed {
  public:
    explicit Packed(const State &state) : state_(state), space_(2 * state.p) {}
    void pack(std::size_t column) {
        each(column, [](double *own, double *packed, std::size_t width) { move(own, packed, width); });
    }
    void unpack(std::size_t column) {
        each(column, [](double *own, double *packed, std::size_t width) { move(packed, own, width); });
    }
    double *iterate() { return reinterpret_cast<double *>(space_.data()); }  // (p, LANES)
    double *lag() { return iterate() + state_.p * LANES; }

  private:
    static void move(const double *from, double *to, std::size_t width) {
        if (width == LANES)
            Lanes::at(from).put(to);
        else
            std::copy_n(from, width, to);
    }
    template <class Copy>
    void each(std::size_t column, Copy copy) {
        const std::size_t width = std::min<std::size_t>(LANES, state_.columns - column);
        for (std::size_t i = 0; i < state_.p; ++i) {
            copy(state_.iterate + i * state_.columns + column, iterate() + i * LANES, width);
            copy(state_.lag + i * state_.columns + column, lag() + i * LANES, width);
        }
    }
    const State state_;
    std::vector<Lanes> space_;
};

// Write the largest |parameter| of each column of a group after a tile.
inline void note(const State &state, const Schedule &s, std::size_t column, std::size_t tile, const Largest &largest) {
    double values[LANES];
    largest.value().put(values);
    const std::size_t width = std::min<std::size_t>(LANES, state.columns - column);
    std::copy_n(values, width, s.largest + tile * state.columns + column);
}

inline double dot(const double *x, const double *y, std::size_t p) {
    vec sum[4] = {};
    std::size_t i = 0;
    for (; i + 4 * WIDTH <= p; i += 4 * WIDTH)
        for (int j = 0; j < 4; ++j) sum[j] += load(x + i + j * WIDTH) * load(y + i + j * WIDTH);
    for (; i + WIDTH <= p; i += WIDTH) sum[0] += load(x + i) * load(y + i);
    sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    double total = 0.0;
    for (int j = 0; j < WIDTH; ++j) total += sum[0][j];
    for (; i < p; ++i) total += x[i] * y[i];
    return total;
}

// Rows are taken STEPS at a time, a chunk. The pass of a chunk applies what the chunk before left pending, so after the
// last row one more pass is due, of a chunk without rows.
struct Chunks {
    std::size_t number, per_tile;
    explicit Chunks(const Schedule &s) : number((s.rows + STEPS - 1) / STEPS), per_tile(s.tile / STEPS) {}
    bool completes_tile(std::size_t q) const { return q == number || (q > 0 && q % per_tile == 0); }
    std::size_t tile_before(std::size_t q) const { return (q - 1) / per_tile; }
};

// Rows (T, p), a chunk of them at a time. Where a row is missing another one stands in, to no effect: nothing is
// pending for it, and nobody looks at its product.
struct Chunked {
    struct Chunk {
        const double *row[STEPS];
    };
    const double *x;
    std::size_t p, rows;
    Chunk seen(std::size_t q) const {
        Chunk chunk;
        for (std::size_t k = 0; k < STEPS; ++k) chunk.row[k] = x + (q * STEPS + k < rows ? q * STEPS + k : 0) * p;
        return chunk;
    }
    Chunk applied(std::size_t q) const { return seen(q > 0 ? q - 1 : 0); }  // by the pass of chunk q
};

// Products x_t . y_j of each row with those before it in its chunk: what rows taken together owe to each other.
class Gram {
  public:
    Gram(const double *x, const double *y, std::size_t p, std::size_t rows) : space_(rows * STEPS) {
        for (std::size_t t = 0; t < rows; ++t)
            for (std::size_t j = t - t % STEPS; j < t; ++j)
                space_[t * STEPS + j % STEPS] = dot(x + t * p, y + j * p, p);
    }
    const double *operator[](std::size_t t) const { return space_.data() + t * STEPS; }

  private:
    std::vector<double> space_;
};

// What the rows of a chunk add to a block of parameters and to its lag, until the next pass applies it.
struct Pending {
    Lanes coef[STEPS], moved[STEPS];
    Pending() {
        for (int k = 0; k < STEPS; ++k) clear(k);
    }
    void clear(int k) { coef[k] = moved[k] = Lanes::zero(); }
    void set(int k, const Lanes &change, double mass) {
        coef[k] = change;
        moved[k] = mass * change;
    }
};

// theta += sum x_k coef_k, lag += sum x_k moved_k, then dots_k = y_k . theta, for STEPS rows in one pass.
template <bool Note>
inline void pass(double *theta, double *lag, std::size_t p, const Chunked::Chunk x, const Chunked::Chunk y,
                 const Pending &pending, Lanes dots[STEPS], Largest &largest) {
    Lanes c[STEPS], m[STEPS], d[STEPS];
    for (int k = 0; k < STEPS; ++k) {
        c[k] = pending.coef[k];
        m[k] = pending.moved[k];
        d[k] = Lanes::zero();
    }
    Largest most;
    for (std::size_t i = 0; i < p; ++i) {
        Lanes now = Lanes::at(theta + i * LANES), behind = Lanes::at(lag + i * LANES);
        for (int k = 0; k < STEPS; ++k) {
            add(now, x.row[k][i], c[k]);
            add(behind, x.row[k][i], m[k]);
        }
        now.put(theta + i * LANES);
        behind.put(lag + i * LANES);
        if (Note) most.see(now);
        for (int k = 0; k < STEPS; ++k) add(d[k], y.row[k][i], now);
    }
    for (int k = 0; k < STEPS; ++k) dots[k] = d[k];
    if (Note) largest.see(most);
}

inline void pass(bool noted, double *theta, double *lag, std::size_t p, const Chunked::Chunk &x,
                 const Chunked::Chunk &y, const Pending &pending, Lanes dots[STEPS], Largest &largest) {
    if (noted)
        pass<true>(theta, lag, p, x, y, pending, dots, largest);
    else
        pass<false>(theta, lag, p, x, y, pending, dots, largest);
}

void fold_single(const State &state, const Schedule &s, const SingleTerm &term, std::size_t begin, std::size_t end) {
    const std::size_t p = state.p;
    const Chunks chunks(s);
    const Chunked u{term.u, p, s.rows}, v{term.v, p, s.rows};
    const Gram gram(term.v, term.u, p, s.rows);
    std::vector<Lanes> space(s.tile);
    Packed packed(state);
    for (std::size_t column = begin; column < end; column += LANES) {
        packed.pack(column);
        Gains gain(s, column, state.columns, space.data());
        Pending pending;
        Lanes dots[STEPS];
        for (std::size_t q = 0; q <= chunks.number; ++q) {
            Largest largest;
            const bool noted = chunks.completes_tile(q);
            pass(noted, packed.iterate(), packed.lag(), p, u.applied(q), v.seen(q), pending, dots, largest);
            if (noted) note(state, s, column, chunks.tile_before(q), largest);
            const std::size_t first = q * STEPS;
            if (q % chunks.per_tile == 0) gain.fill(first, std::min(first + s.tile, s.rows));
            for (int k = 0; k < STEPS; ++k) {
                const std::size_t t = first + k;
                if (t >= s.rows) {
                    pending.clear(k);
                    continue;
                }
                Lanes rest = term.c[t] - dots[k];
                for (int j = 0; j < k; ++j) add(rest, -gram[t][j], pending.coef[j]);
                pending.set(k, gain[t] * rest, s.mass[t]);
            }
        }
        packed.unpack(column);
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
void fold_table(InPlace<Whole> theta, InPlace<Whole> lag, const Schedule &s, SparseTerms x, Gains &gain,
                std::size_t first, std::size_t stop, Largest &largest) {
    Largest most;
    while (first < stop) {  // drawing for a few rows at a time fills the gaps that looking entries up leaves
        const std::size_t end = gain.next(first, stop);
        for (std::size_t t = first; t < end; ++t) {
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
        first = end;
    }
    largest = most;
}

template <bool Whole>
void fold_entries(const InPlace<Whole> &theta, const InPlace<Whole> &lag, const Schedule &s, const SparseTerms &x,
                  Gains &gain, std::size_t first, std::size_t stop, Largest &largest) {
    std::vector<Lanes> rest(x.terms);
    gain.fill(first, stop);
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
    std::vector<Lanes> space(s.tile);
    Gains gain(s, column, state.columns, space.data());
    const bool table = x.terms == 1 && x.m_u == 1 && x.m_v == 2;
    for (std::size_t first = 0; first < s.rows; first += s.tile) {
        const std::size_t stop = std::min(first + s.tile, s.rows);
        Largest largest;  // of what is touched in this tile; the rest was noted before
        if (table)
            fold_table(theta, lag, s, x, gain, first, stop, largest);
        else
            fold_entries(theta, lag, s, x, gain, first, stop, largest);
        note(state, s, column, first / s.tile, largest);
    }
}

// One-hot features: only the parameters that a row names are touched.
void fold_sparse(const State &state, const Schedule &s, const SparseTerms &x, std::size_t begin, std::size_t end) {
    // Packed lanes lie on cache lines; packing costs a pass over the table, so it must be small beside the rows.
    const bool pack = state.p <= s.rows;
    Packed packed(pack ? state : State{});
    for (std::size_t column = begin; column < end; column += LANES) {
        const std::size_t width = std::min<std::size_t>(LANES, state.columns - column), stride = state.columns;
        if (pack) {
            packed.pack(column);
            fold_sparse_group(state, s, x, column, InPlace<true>(packed.iterate(), LANES, LANES),
                              InPlace<true>(packed.lag(), LANES, LANES));
            packed.unpack(column);
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
    const std::size_t d = g.d;
    constexpr bool mixes = Kind == Gradient::tdc;
    const Chunks chunks(s);
    const Chunked dphi{g.dphi, d, s.rows}, phi{g.phi, d, s.rows};
    const Gram dd(g.dphi, g.dphi, d, s.rows), pp(g.phi, g.phi, d, s.rows), dp(g.dphi, g.phi, d, mixes ? s.rows : 0);
    std::vector<Lanes> space(s.tile);
    Packed packed(state);
    double *theta = packed.iterate(), *lag = packed.lag(), *y = theta + d * LANES, *y_lag = lag + d * LANES;
    Lanes one;
    for (int i = 0; i < VECTORS; ++i) one.x[i] = all(1.0);
    for (std::size_t column = begin; column < end; column += LANES) {
        packed.pack(column);
        Gains gain(s, column, state.columns, space.data());
        Pending f, e, o;                                // along dphi, along phi in y, and along phi
        Lanes kappa = one, kappa_moved = Lanes::zero();  // GTD: what is left of the old y, and what it adds to its lag
        Lanes along[STEPS], h[STEPS], unused[STEPS];
        for (std::size_t q = 0; q <= chunks.number; ++q) {
            Largest largest;
            const bool noted = chunks.completes_tile(q);
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
                kappa = one;
                kappa_moved = Lanes::zero();
            }
            if (mixes) pass<false>(theta, lag, d, phi.applied(q), phi.seen(q), o, unused, largest);
            pass(noted, theta, lag, d, dphi.applied(q), dphi.seen(q), f, along, largest);
            pass(noted, y, y_lag, d, phi.applied(q), phi.seen(q), e, h, largest);
            if (noted) note(state, s, column, chunks.tile_before(q), largest);
            const std::size_t first = q * STEPS;
            if (q % chunks.per_tile == 0) gain.fill(first, std::min(first + s.tile, s.rows));
            for (int k = 0; k < STEPS; ++k) {
                const std::size_t t = first + k;
                if (t >= s.rows) {
                    f.clear(k), e.clear(k), o.clear(k);
                    continue;
                }
                Lanes delta = g.reward[t] - along[k], inside = h[k];
                if (Kind == Gradient::gtd) inside = kappa * inside;
                for (int j = 0; j < k; ++j) {
                    add(delta, -dd[t][j], f.coef[j]);
                    if (mixes) add(delta, -dp[t][j], o.coef[j]);
                    add(inside, pp[t][j], e.coef[j]);
                }
                const Lanes a = gain[t];
                const double rho = g.ratio[t], x = g.auxiliary_step, mass = s.mass[t];
                f.set(k, rho * (a * inside), mass);
                if (mixes) o.set(k, rho * (a * (delta - inside)), mass);
                if (Kind == Gradient::gtd) {
                    const Lanes decay = x * a;  // y loses decay times itself: the old part and the rows before
                    for (int i = 0; i < VECTORS; ++i) {
                        kappa_moved.x[i] -= mass * decay.x[i] * kappa.x[i];
                        kappa.x[i] *= 1.0 - decay.x[i];
                        for (int j = 0; j < k; ++j) {
                            e.moved[j].x[i] -= mass * decay.x[i] * e.coef[j].x[i];
                            e.coef[j].x[i] *= 1.0 - decay.x[i];
                        }
                    }
                    e.set(k, (x * rho) * (a * delta), mass);
                } else {
                    e.set(k, x * (a * (rho * delta - inside)), mass);
                }
            }
        }
        packed.unpack(column);
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
    std::vector<Lanes> rest(terms), space(s.tile);
    Packed packed(state);
    double *iterate = packed.iterate(), *behind = packed.lag();
    for (std::size_t column = begin; column < end; column += LANES) {
        packed.pack(column);
        Gains gain(s, column, state.columns, space.data());
        for (std::size_t t = 0; t < s.rows; ++t) {
            if (t % s.tile == 0) gain.fill(t, std::min(t + s.tile, s.rows));
            const double *u = x.u + t * terms * p, *v = x.v + t * terms * p;
            for (std::size_t k = 0; k < terms; ++k) {
                Lanes dots = Lanes::zero();
                for (std::size_t i = 0; i < p; ++i) add(dots, v[k * p + i], Lanes::at(iterate + i * LANES));
                rest[k] = x.c[t * terms + k] - dots;
            }
            Largest largest;
            for (std::size_t i = 0; i < p; ++i) {
                Lanes theta = Lanes::at(iterate + i * LANES), lag = Lanes::at(behind + i * LANES);
                Lanes change = -x.damping[i] * theta;
                for (std::size_t k = 0; k < terms; ++k) add(change, u[k * p + i], rest[k]);
                change = gain[t] * change;
                add(lag, s.mass[t], change);
                add(theta, 1.0, change);
                theta.put(iterate + i * LANES);
                lag.put(behind + i * LANES);
                largest.see(theta);
            }
            if ((t + 1) % s.tile == 0 || t + 1 == s.rows) note(state, s, column, t / s.tile, largest);
        }
        packed.unpack(column);
    }
}

#include "walk.inl"
#include "sums.inl"

}  // namespace INFERL_NAMESPACE

extern const Kernel INFERL_KERNEL = {INFERL_NAME,
                                     INFERL_NAMESPACE::LANES,
                                     INFERL_NAMESPACE::fold_single,
                                     INFERL_NAMESPACE::fold_sparse,
                                     INFERL_NAMESPACE::fold_gradient,
                                     INFERL_NAMESPACE::fold_dense,
                                     INFERL_NAMESPACE::walk_dense,
                                     INFERL_NAMESPACE::walk_sparse,
                                     INFERL_NAMESPACE::TILE_ROWS,
                                     INFERL_NAMESPACE::TILE_COLUMNS,
                                     INFERL_NAMESPACE::product_tile,
                                     INFERL_NAMESPACE::pack<INFERL_NAMESPACE::TILE_ROWS>,
                                     INFERL_NAMESPACE::pack<INFERL_NAMESPACE::TILE_COLUMNS>,
                                     INFERL_NAMESPACE::evaluate,
                                     INFERL_NAMESPACE::largest_of,
                                     INFERL_NAMESPACE::weighted_rows,
                                     INFERL_NAMESPACE::sum_of,
                                     INFERL_NAMESPACE::add_to,
                                     INFERL_NAMESPACE::subtract_scaled,
                                     INFERL_NAMESPACE::squared_norms,
                                     INFERL_NAMESPACE::sum_words};

}  // namespace inferl
