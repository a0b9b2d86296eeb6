// The Python side of the native kernel: arrays in, threads over groups of columns, the GIL released.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "fold.hpp"
#include "workers.hpp"

namespace nb = nanobind;
using namespace inferl;

// What is only read. Arrays are checked here once a call, whoever checked them before: nothing that Python hands over
// may lead outside of them.
template <class Scalar, class... Shape>
using Given = nb::ndarray<const Scalar, nb::c_contig, nb::device::cpu, Shape...>;
using Reals = Given<double>;
using Counts = Given<std::int64_t>;
using Column = Given<double, nb::ndim<1>>;
using Labels = Given<std::int64_t, nb::ndim<1>>;
using Flags = Given<bool, nb::ndim<1>>;

// What is changed in place.
template <class Scalar, std::size_t dimensions>
using Own = nb::ndarray<Scalar, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;
using Sums = Own<double, 1>;
using Rows = Own<double, 2>;
using Levels = Own<double, 3>;
using Numbers = Own<std::int64_t, 1>;

namespace {

std::vector<const Kernel *> available() {
    std::vector<const Kernel *> found;
#ifdef INFERL_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) found.push_back(&avx512_kernel);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.push_back(&avx2_kernel);
#endif
    found.push_back(&generic_kernel);
    return found;
}

const Kernel *chosen = available().front();

std::vector<std::string> instruction_sets() {
    std::vector<std::string> names;
    for (const Kernel *kernel : available()) names.emplace_back(kernel->name);
    return names;
}

void choose(const std::string &name) {
    for (const Kernel *kernel : available())
        if (name == kernel->name) {
            chosen = kernel;
            return;
        }
    throw std::invalid_argument("this machine has no instruction set " + name);
}

void expect(bool fits) {
    if (!fits) throw std::invalid_argument("arrays that do not fit together, or numbers that lead outside of them");
}

template <class Array>
bool all_below(const Array &index, std::size_t bound) {
    for (std::size_t i = 0; i < index.size(); ++i)
        if (index.data()[i] < 0 || static_cast<std::size_t>(index.data()[i]) >= bound) return false;
    return true;
}

// Everything that does not depend on the form of the increments.
struct Call {
    State state;
    Schedule schedule;
    int threads;
};

Call call_of(Rows iterate, Rows lag, Column step_size, Column mass, std::size_t tile, Rows largest, int law,
             std::uint64_t seed, std::uint64_t first_replica, Labels tick, Labels stream, int threads) {
    const std::size_t rows = step_size.size(), columns = iterate.shape(1);
    expect(lag.shape(0) == iterate.shape(0) && lag.shape(1) == columns && mass.size() == rows && tick.size() == rows &&
           stream.size() == rows && tile % 8 == 0 && tile > 0 && largest.shape(0) == (rows + tile - 1) / tile &&
           largest.shape(1) == columns && law >= 0 && law <= 2);
    Draws draws{static_cast<Law>(law), seed, first_replica, tick.data(), stream.data()};
    return {State{iterate.data(), lag.data(), iterate.shape(0), columns},
            Schedule{step_size.data(), mass.data(), rows, tile, largest.data(), draws}, threads};
}

// Threads that are worth waking for so many operations.
int worth(int threads, std::size_t operations) {
    return static_cast<int>(std::min<std::size_t>(std::max(threads, 1), 1 + operations / 100'000));
}

// Share the groups of columns out to threads; each column belongs to one.
template <class Form>
void run(const Call &call, const Form &form,
         void (*fold)(const State &, const Schedule &, const Form &, std::size_t, std::size_t)) {
    nb::gil_scoped_release release;
    const std::size_t lanes = chosen->lanes, groups = (call.state.columns + lanes - 1) / lanes;
    const int threads = worth(call.threads, call.schedule.rows * call.state.columns * call.state.p);
    const std::size_t workers = std::min<std::size_t>(threads, std::max<std::size_t>(groups, 1));
    auto part = [&](std::size_t worker) {
        const std::size_t begin = groups * worker / workers * lanes;
        const std::size_t end = std::min(groups * (worker + 1) / workers * lanes, call.state.columns);
        fold(call.state, call.schedule, form, begin, end);
    };
    Workers::share(workers, threads, part);
}

SparseTerms sparse_terms(Counts u_index, Reals u_value, Counts v_index, Reals v_value, Reals c, std::size_t rows,
                         std::size_t p) {
    expect(u_index.ndim() == 3 && v_index.ndim() == 3 && c.ndim() == 2 && u_index.shape(0) == rows &&
           v_index.shape(0) == rows && c.shape(0) == rows && u_index.shape(1) == c.shape(1) &&
           v_index.shape(1) == c.shape(1) && u_value.size() == u_index.size() && v_value.size() == v_index.size() &&
           all_below(u_index, p) && all_below(v_index, p));
    return {u_index.data(), v_index.data(), u_value.data(), v_value.data(), c.data(), c.shape(1), u_index.shape(2),
            v_index.shape(2)};
}

#define CALL_PARAMETERS                                                                                              \
    Rows iterate, Rows lag, Column step_size, Column mass, std::size_t tile, Rows largest, int law,                  \
        std::uint64_t seed, std::uint64_t first_replica, Labels tick, Labels stream, int threads
#define CALL \
    call_of(iterate, lag, step_size, mass, tile, largest, law, seed, first_replica, tick, stream, threads)

void fold_single(CALL_PARAMETERS, Reals u, Reals v, Reals c) {
    const Call call = CALL;
    expect(u.size() == call.schedule.rows * call.state.p && v.size() == u.size() && c.size() == call.schedule.rows);
    run(call, SingleTerm{u.data(), v.data(), c.data()}, chosen->single);
}

void fold_sparse(CALL_PARAMETERS, Counts u_index, Reals u_value, Counts v_index, Reals v_value, Reals c) {
    const Call call = CALL;
    run(call, sparse_terms(u_index, u_value, v_index, v_value, c, call.schedule.rows, call.state.p), chosen->sparse);
}

void fold_gradient(CALL_PARAMETERS, int kind, Reals phi, Reals dphi, Reals ratio, Reals reward, double auxiliary_step) {
    const Call call = CALL;
    const std::size_t rows = call.schedule.rows, d = call.state.p / 2;
    expect(call.state.p == 2 * d && phi.size() == rows * d && dphi.size() == rows * d && ratio.size() == rows &&
           reward.size() == rows && kind >= 0 && kind <= 2);
    run(call,
        GradientRows{static_cast<Gradient>(kind), phi.data(), dphi.data(), ratio.data(), reward.data(), auxiliary_step,
                     d},
        chosen->gradient);
}

void fold_dense(CALL_PARAMETERS, Reals u, Reals v, Reals c, Reals damping) {
    const Call call = CALL;
    const std::size_t rows = call.schedule.rows, p = call.state.p, terms = c.ndim() == 2 ? c.shape(1) : 0;
    expect(c.size() == rows * terms && u.size() == rows * terms * p && v.size() == u.size() && damping.size() == p);
    run(call, DenseTerms{u.data(), v.data(), c.data(), damping.data(), terms}, chosen->dense);
}

Walk walk_of(Rows iterate, Rows lag, Counts rows, Labels lengths, Column step_size, Column mass, Column limit) {
    const std::size_t walkers = iterate.shape(0), steps = step_size.size();
    expect(lag.shape(0) == walkers && lag.shape(1) == iterate.shape(1) && rows.size() == walkers * steps &&
           lengths.size() == walkers && mass.size() == steps && all_below(rows, limit.size()) &&
           all_below(lengths, steps + 1));
    return {iterate.data(),   lag.data(),  rows.data(),  lengths.data(),   step_size.data(),
            mass.data(), limit.data(), iterate.shape(1), walkers, steps};
}

void walk_dense(Rows iterate, Rows lag, Counts rows, Labels lengths, Column step_size, Column mass, Column limit,
                Reals u, Reals v, Reals c, Column damping) {
    const Walk walk = walk_of(iterate, lag, rows, lengths, step_size, mass, limit);
    const std::size_t terms = c.ndim() == 2 ? c.shape(1) : 0;
    expect(c.size() == limit.size() * terms && u.size() == c.size() * walk.p && v.size() == u.size() &&
           (damping.size() == 0 || damping.size() == walk.p));
    nb::gil_scoped_release release;
    chosen->walk_dense(walk, {u.data(), v.data(), c.data(), damping.size() ? damping.data() : nullptr, terms});
}

void walk_sparse(Rows iterate, Rows lag, Counts rows, Labels lengths, Column step_size, Column mass, Column limit,
                 Counts u_index, Reals u_value, Counts v_index, Reals v_value, Reals c) {
    const Walk walk = walk_of(iterate, lag, rows, lengths, step_size, mass, limit);
    const SparseTerms terms = sparse_terms(u_index, u_value, v_index, v_value, c, limit.size(), walk.p);
    nb::gil_scoped_release release;
    chosen->walk_sparse(walk, terms);
}

// A matrix to which u' v of several batches is added, one after the other; of a symmetric one, the lower triangle.
struct Product {
    struct Batch {
        const double *u, *v;  // (rows, p) both
    };
    double *matrix;  // (p, p)
    bool lower;
    std::vector<Batch> batches;
};

// Numbers that are worked on before others take their place in the caches, which are those of all threads.
std::size_t at_once(int threads) { return 262'144 * std::min<std::size_t>(std::max(threads, 1), 8); }

// Add the products. Tiles of the matrices are shared out to threads, each with all its batches in order. Panels of the
// rows are copied first, so that a tile reads memory from front to back.
void multiply(const std::vector<Product> &products, std::size_t rows, std::size_t p, int threads) {
    const Kernel &kernel = *chosen;
    const std::size_t height = kernel.tile_rows, width = kernel.tile_columns;
    const std::size_t tall = (p + height - 1) / height, wide = (p + width - 1) / width;  // panels
    const std::size_t u_size = tall * height * rows, each = u_size + wide * width * rows;
    static thread_local std::vector<double> space;
    // Some batches of one product, the first of them packed at a place among those of all products.
    struct Part {
        const Product *product;
        std::size_t begin, end, place;
    };
    std::vector<Part> parts;
    std::vector<std::pair<const Product::Batch *, std::size_t>> packing;  // a batch and its place
    const auto work = [&] {
        if (space.size() < packing.size() * each) space.resize(packing.size() * each);
        double *const packed = space.data();
        const int useful = worth(threads, packing.size() * rows * p * p);
        const auto pack = [&](const double *from, std::size_t panel, std::size_t size, double *to) {
            const std::size_t first = panel * size, there = std::min(size, p - first);
            for (std::size_t t = 0; t < rows; ++t, to += size) {
                std::copy_n(from + t * p + first, there, to);
                std::fill(to + there, to + size, 0.0);
            }
        };
        Workers::share(packing.size() * (tall + wide), useful, [&](std::size_t task) {
            const auto [batch, place] = packing[task / (tall + wide)];
            const std::size_t panel = task % (tall + wide);
            double *to = packed + place * each;
            if (panel < tall)
                pack(batch->u, panel, height, to + panel * height * rows);
            else
                pack(batch->v, panel - tall, width, to + u_size + (panel - tall) * width * rows);
        });
        // A task is some panels of u with one of v, which stays in the cache; of a small matrix, fewer for each thread.
        std::size_t block = std::max<std::size_t>(128 / height, 1), blocks = (tall + block - 1) / block;
        for (; block > 1 && parts.size() * wide * blocks < 4 * static_cast<std::size_t>(useful) && useful > 1;
             blocks = (tall + block - 1) / block)
            block /= 2;
        Workers::share(parts.size() * wide * blocks, useful, [&](std::size_t task) {
            const Part &part = parts[task / (wide * blocks)];
            const std::size_t panel = task / blocks % wide, first = panel * width, there = std::min(width, p - first);
            const std::size_t top = task % blocks * block, bottom = std::min(top + block, tall);
            double tile[16 * 32];
            for (std::size_t b = part.begin; b < part.end; ++b) {
                const double *from = packed + (part.place + b - part.begin) * each;
                for (std::size_t i = top; i < bottom; ++i) {
                    if (part.product->lower && (i + 1) * height <= first) continue;  // above the diagonal
                    kernel.product_tile(from + i * height * rows, from + u_size + panel * width * rows, rows, tile);
                    for (std::size_t k = 0; k < std::min(height, p - i * height); ++k) {
                        const std::size_t row = i * height + k, below = row < first ? 0 : row - first + 1;
                        const std::size_t stop = part.product->lower ? std::min(there, below) : there;
                        double *to = part.product->matrix + row * p + first;
                        for (std::size_t j = 0; j < stop; ++j) to[j] += tile[k * width + j];
                    }
                }
            }
        });
        parts.clear();
        packing.clear();
    };
    const std::size_t most = std::max<std::size_t>(at_once(threads) / (rows * p), 1);
    for (const Product &product : products)
        for (std::size_t b = 0; b < product.batches.size(); ++b) {
            if (parts.empty() || parts.back().product != &product) parts.push_back({&product, b, b, packing.size()});
            packing.emplace_back(&product.batches[b], packing.size());
            ++parts.back().end;
            if (packing.size() == most) work();
        }
    if (!packing.empty()) work();
}

// Add the sum of w_t x_t over the rows of each batch to a vector, batch after batch; without weights, of x_t.
void add_sums(const std::vector<Product::Batch> &batches, const std::vector<const double *> &weights, std::size_t rows,
              std::size_t p, double *vector, int threads) {
    const std::size_t width = 64;
    Workers::share((p + width - 1) / width, worth(threads, batches.size() * rows * p), [&](std::size_t task) {
        const std::size_t begin = task * width, n = std::min(width, p - begin);
        double sum[width];
        for (std::size_t b = 0; b < batches.size(); ++b) {
            std::fill_n(sum, n, 0.0);
            const double *x = batches[b].u + begin;
            for (std::size_t t = 0; t < rows; ++t, x += p) {
                const double weight = weights.empty() ? 1.0 : weights[b][t];
                for (std::size_t i = 0; i < n; ++i) sum[i] += weight * x[i];
            }
            for (std::size_t i = 0; i < n; ++i) vector[begin + i] += sum[i];
        }
    });
}

// Add u' v to a matrix and u' c to a vector, in batches of as many rows as the buffers have; returns how many wait.
std::size_t add_products(Rows matrix, Sums vector, Sums size, Rows u_buffer, Rows v_buffer, Sums c_buffer,
                         std::size_t waiting, Given<double, nb::ndim<2>> u, Given<double, nb::ndim<2>> v, Column c,
                         int threads) {
    const std::size_t p = vector.size(), rows = u.shape(0), capacity = u_buffer.shape(0);
    expect(matrix.shape(0) == p && matrix.shape(1) == p && size.size() == p && capacity > 0 && waiting < capacity &&
           u_buffer.shape(1) == p && v_buffer.shape(0) == capacity && v_buffer.shape(1) == p &&
           c_buffer.size() == capacity && u.shape(1) == p && v.shape(0) == rows && v.shape(1) == p && c.size() == rows);
    nb::gil_scoped_release release;
    const auto keep = [&](std::size_t begin, std::size_t end) {
        std::copy(u.data() + begin * p, u.data() + end * p, u_buffer.data() + waiting * p);
        std::copy(v.data() + begin * p, v.data() + end * p, v_buffer.data() + waiting * p);
        std::copy(c.data() + begin, c.data() + end, c_buffer.data() + waiting);
        waiting += end - begin;
    };
    Product product{matrix.data(), false, {}};
    std::vector<const double *> constants;
    std::size_t row = 0;
    if (waiting > 0) {
        row = std::min(rows, capacity - waiting);
        keep(0, row);
        if (waiting == capacity) {
            product.batches.push_back({u_buffer.data(), v_buffer.data()});
            constants.push_back(c_buffer.data());
            waiting = 0;
        }
    }
    for (; row + capacity <= rows; row += capacity) {
        product.batches.push_back({u.data() + row * p, v.data() + row * p});
        constants.push_back(c.data() + row);
    }
    multiply({product}, capacity, p, threads);
    add_sums(product.batches, constants, capacity, p, vector.data(), threads);
    const std::size_t waited = constants.empty() || constants[0] != c_buffer.data() ? 0 : capacity;
    Workers::share((p + 63) / 64, worth(threads, rows * p), [&](std::size_t task) {
        chosen->largest_of(v.data(), rows, p, task * 64, std::min(task * 64 + 64, p), size.data());
    });
    std::fill_n(u_buffer.data(), waited * p, 0.0);  // what does not wait is 0: the same state has the same bits
    std::fill_n(v_buffer.data(), waited * p, 0.0);
    std::fill_n(c_buffer.data(), waited, 0.0);
    if (row < rows) keep(row, rows);
    return waiting;
}

// The state of sums over blocks of 1, 2, 4, ... rows along each stream.
struct Blocks {
    double *half, *gathered, *outer, *total;  // (S, J, p), (J, capacity, p), (J, p, p), (J, p)
    bool *is_open;                            // (S, J)
    std::int64_t *waiting, *count;            // (J,)
    std::size_t levels, capacity, p;
};

// Add some rows. As many blocks as the buffer of a level holds are added to its moments at once.
void add_rows(const Blocks &x, const double *scores, const std::int64_t *slot, std::size_t rows, int threads) {
    const std::size_t levels = x.levels, capacity = x.capacity, p = x.p;
    // The level at which each row, with the blocks that it completes, waits; `levels` if it completes them all.
    std::vector<std::size_t> top(rows), filled(x.waiting, x.waiting + levels);
    for (std::size_t t = 0; t < rows; ++t) {
        bool *open = x.is_open + slot[t] * levels;
        std::size_t j = 0;
        for (; j < levels; ++j) {
            ++filled[j];
            open[j] = !open[j];
            if (open[j]) break;  // the first half of a block: it waits for the second
        }
        top[t] = j;
    }
    // Levels that fill their buffers collect their blocks elsewhere.
    static thread_local std::vector<std::vector<double>> more;
    if (more.size() < levels) more.resize(levels);
    std::vector<double *> into(levels);
    for (std::size_t j = 0; j < levels; ++j) {
        into[j] = x.gathered + j * capacity * p;
        if (filled[j] < capacity) continue;
        if (more[j].size() < filled[j] * p) more[j].resize(filled[j] * p);
        std::copy_n(into[j], x.waiting[j] * p, more[j].data());
        into[j] = more[j].data();
    }
    const std::size_t parts = worth(threads, 4 * rows * p), width = std::max<std::size_t>((p + parts - 1) / parts, 16);
    Workers::share((p + width - 1) / width, threads, [&](std::size_t task) {
        const std::size_t begin = task * width, n = std::min(width, p - begin);
        std::vector<std::size_t> place(x.waiting, x.waiting + levels);
        std::vector<double> sum(n);
        for (std::size_t t = 0; t < rows; ++t) {
            const double *g = scores + t * p + begin;
            for (std::size_t j = 0; j <= top[t] && j < levels; ++j) {
                std::copy_n(g, n, into[j] + place[j]++ * p + begin);
                double *waits = x.half + (slot[t] * levels + j) * p + begin;
                if (j == top[t]) {
                    std::copy_n(g, n, waits);
                    break;
                }
                for (std::size_t i = 0; i < n; ++i) sum[i] = waits[i] + g[i];
                g = sum.data();
            }
        }
    });
    std::vector<Product> products;
    for (std::size_t j = 0; j < levels; ++j) {
        const std::size_t whole = filled[j] / capacity * capacity;
        if (whole) {
            Product product{x.outer + j * p * p, true, {}};
            for (std::size_t row = 0; row < whole; row += capacity) {
                const double *g = into[j] + row * p;
                product.batches.push_back({g, g});
            }
            add_sums(product.batches, {}, capacity, p, x.total + j * p, threads);
            products.push_back(std::move(product));
            double *buffer = x.gathered + j * capacity * p;
            std::fill_n(buffer, x.waiting[j] * p, 0.0);  // what does not wait is 0: the same state has the same bits
            std::copy_n(into[j] + whole * p, (filled[j] - whole) * p, buffer);
        }
        x.count[j] += static_cast<std::int64_t>(whole);
        x.waiting[j] = static_cast<std::int64_t>(filled[j] - whole);
    }
    multiply(products, capacity, p, threads);
}

void add_blocks(Given<double, nb::ndim<2>> scores, Labels slot, Levels half, Own<bool, 2> is_open, Levels gathered,
                Numbers waiting, Levels outer, Rows total, Numbers count, int threads) {
    const std::size_t rows = scores.shape(0), p = gathered.shape(2), levels = gathered.shape(0);
    const std::size_t capacity = gathered.shape(1), streams = half.shape(0);
    expect(scores.shape(1) == p && slot.size() == rows && half.shape(1) == levels && half.shape(2) == p &&
           is_open.shape(0) == streams && is_open.shape(1) == levels && waiting.size() == levels && capacity > 0 &&
           outer.shape(0) == levels && outer.shape(1) == p && outer.shape(2) == p && total.shape(0) == levels &&
           total.shape(1) == p && count.size() == levels && all_below(waiting, capacity) && all_below(slot, streams));
    nb::gil_scoped_release release;
    const Blocks blocks{half.data(),    gathered.data(), outer.data(), total.data(), is_open.data(),
                        waiting.data(), count.data(),    levels,       capacity,     p};
    const std::size_t slice = std::max<std::size_t>(at_once(threads) / std::max<std::size_t>(p, 1), capacity);
    for (std::size_t row = 0; row < rows; row += slice)
        add_rows(blocks, scores.data() + row * p, slot.data() + row, std::min(slice, rows - row), threads);
}

// The increments at a parameter vector: sum of u (c - v . theta), minus the damping.
void evaluate(Given<double, nb::ndim<3>> u, Given<double, nb::ndim<3>> v, Given<double, nb::ndim<2>> c, Column damping,
              Column theta, Rows out, int threads) {
    const std::size_t rows = u.shape(0), terms = u.shape(1), p = u.shape(2), size = 256;
    expect(v.shape(0) == rows && v.shape(1) == terms && v.shape(2) == p && c.shape(0) == rows && c.shape(1) == terms &&
           terms > 0 && damping.size() == p && theta.size() == p && out.shape(0) == rows && out.shape(1) == p);
    nb::gil_scoped_release release;
    const DenseTerms x{u.data(), v.data(), c.data(), damping.data(), terms};
    Workers::share((rows + size - 1) / size, worth(threads, 4 * rows * terms * p), [&](std::size_t task) {
        chosen->evaluate(x, theta.data(), p, task * size, std::min((task + 1) * size, rows), out.data());
    });
}

// Short blocks of sparse scores, entry by entry; sums of the longest blocks go out as vectors.
void add_entries(Given<std::int64_t, nb::ndim<2>> index, Given<double, nb::ndim<2>> value, Labels slot,
                 Own<std::int64_t, 3> kept_index, Levels kept_value, Numbers kept_rows, Levels outer, Rows total,
                 Numbers count, Rows sums, Numbers closed_by) {
    const std::size_t rows = index.shape(0), m = kept_index.shape(2), longest = kept_index.shape(1);
    const std::size_t levels = count.size(), p = sums.shape(1), streams = kept_rows.size();
    expect(index.shape(1) == m && value.shape(0) == rows && value.shape(1) == m && slot.size() == rows &&
           kept_index.shape(0) == streams && kept_value.shape(0) == streams && kept_value.shape(1) == longest &&
           kept_value.shape(2) == m && levels < 32 && longest == std::size_t(1) << levels &&
           outer.shape(0) == levels && outer.shape(1) == p && outer.shape(2) == p && total.shape(0) == levels &&
           total.shape(1) == p && closed_by.size() == sums.shape(0) && all_below(index, p) &&
           all_below(slot, streams) && all_below(kept_rows, longest) && all_below(kept_index, p));
    std::vector<std::size_t> seen(kept_rows.data(), kept_rows.data() + streams);  // rows of each stream by the end
    std::size_t closing = 0;
    for (std::size_t t = 0; t < rows; ++t) closing += ++seen[slot.data()[t]] % longest == 0;
    expect(closing <= sums.shape(0));
    nb::gil_scoped_release release;
    std::size_t closed = 0;
    for (std::size_t t = 0; t < rows; ++t) {
        const std::size_t s = slot.data()[t];
        std::int64_t *places = kept_index.data() + s * longest * m;
        double *entries = kept_value.data() + s * longest * m;
        const std::size_t filled = kept_rows.data()[s];
        std::copy_n(index.data() + t * m, m, places + filled * m);
        std::copy_n(value.data() + t * m, m, entries + filled * m);
        const std::size_t now = filled + 1;
        for (std::size_t j = 0; j < levels && now % (std::size_t(1) << j) == 0; ++j) {
            const std::size_t first = (now - (std::size_t(1) << j)) * m, last = now * m;
            double *square = outer.data() + j * p * p, *sum = total.data() + j * p;
            for (std::size_t a = first; a < last; ++a) {
                if (entries[a] == 0.0) continue;
                sum[places[a]] += entries[a];
                square[places[a] * p + places[a]] += entries[a] * entries[a];
                for (std::size_t b = first; b < a; ++b) {
                    const std::size_t high = std::max(places[a], places[b]), low = std::min(places[a], places[b]);
                    square[high * p + low] += (high == low ? 2.0 : 1.0) * entries[a] * entries[b];
                }
            }
            ++count.data()[j];
        }
        kept_rows.data()[s] = now;
        if (now == longest) {
            for (std::size_t a = 0; a < longest * m; ++a) sums.data()[closed * p + places[a]] += entries[a];
            closed_by.data()[closed++] = t;
            kept_rows.data()[s] = 0;
        }
    }
}

// A sum that decays along each stream: carried = decay (carried + add), restarted where an episode opens.
void decaying_sum(Column add, Column decay, Labels slot, Flags first, double most, Sums carried, Sums out) {
    const std::size_t rows = add.size();
    expect(decay.size() == rows && slot.size() == rows && first.size() == rows && out.size() == rows &&
           all_below(slot, carried.size()));
    nb::gil_scoped_release release;
    for (std::size_t t = 0; t < rows; ++t) {
        double &before = carried.data()[slot.data()[t]];
        const double now = (first.data()[t] ? 0.0 : before) + add.data()[t];
        out.data()[t] = now;
        const double after = decay.data()[t] * now;
        before = std::min(after, most);
    }
}

// Sums of scores over episodes; returns the row to go on with when there is no room for more that have closed.
// Those that begin are numbered on from `begun`, and `order` holds the numbers of those that are open.
std::tuple<std::size_t, std::size_t, std::int64_t> sum_episodes(Counts index, Given<double, nb::ndim<2>> value,
                                                                Labels slot, Labels episode, Flags last, Rows sum,
                                                                Numbers open, Numbers order, std::int64_t begun,
                                                                Rows closed, Numbers which, std::size_t row) {
    const std::size_t rows = slot.size(), p = sum.shape(1), room = closed.shape(0), streams = sum.shape(0);
    const bool sparse = index.size() > 0;
    expect(value.shape(0) == rows && episode.size() == rows && last.size() == rows && closed.shape(1) == p &&
           open.size() == streams && order.size() == streams && room > 1 && which.size() == room &&
           all_below(slot, streams) &&
           (sparse ? index.size() == value.size() && all_below(index, p) : value.shape(1) == p));
    nb::gil_scoped_release release;
    const std::size_t m = value.shape(1);
    std::size_t filled = 0;
    auto close = [&](std::size_t s) {
        which.data()[filled] = order.data()[s];
        std::copy_n(sum.data() + s * p, p, closed.data() + filled++ * p);
        std::fill_n(sum.data() + s * p, p, 0.0);
        open.data()[s] = 0;
    };
    for (; row < rows && filled + 2 <= room; ++row) {
        const std::size_t s = slot.data()[row];
        if (open.data()[s] != episode.data()[row]) {  // a new one begins, announced by `last` before or not
            if (open.data()[s] > 0) close(s);
            open.data()[s] = episode.data()[row];
            order.data()[s] = begun++;
        }
        double *into = sum.data() + s * p;
        const double *g = value.data() + row * m;
        if (sparse)
            for (std::size_t i = 0; i < m; ++i) into[index.data()[row * m + i]] += g[i];
        else
            for (std::size_t i = 0; i < p; ++i) into[i] += g[i];
        if (last.data()[row]) close(s);
    }
    return {row, filled, begun};
}

// Follow episodes: what each of those that closed had earned, its weight, and what was left beyond its end.
std::pair<std::size_t, std::size_t> follow_episodes(Column reward, Column discount, Column ratio, Labels slot,
                                                    Flags first, Flags last, double most, Rows open, Rows closed,
                                                    std::size_t row) {
    const std::size_t rows = slot.size(), room = closed.shape(0);
    expect(reward.size() == rows && discount.size() == rows && ratio.size() == rows && first.size() == rows &&
           last.size() == rows && open.shape(1) == 5 && closed.shape(1) == 5 && room > 1 &&
           all_below(slot, open.shape(0)));
    nb::gil_scoped_release release;
    std::size_t filled = 0;
    for (; row < rows && filled + 2 <= room; ++row) {
        double *now = open.data() + slot.data()[row] * 5;  // earned, weight, discount, mean weight, whether open
        auto close = [&](double at) {
            std::copy_n(now, 4, closed.data() + filled * 5);
            closed.data()[filled++ * 5 + 4] = at;
            now[4] = 0.0;
        };
        if (first.data()[row]) {
            if (now[4] > 0) close(-1.0);  // nobody said where it ended
            now[0] = now[3] = 0.0;
            now[1] = now[2] = now[4] = 1.0;
        }
        const double before = now[2];
        now[1] = std::min(now[1] * ratio.data()[row], most);
        now[0] += now[2] * reward.data()[row];
        now[2] *= discount.data()[row];
        now[3] += (before - now[2]) * now[1];
        if (last.data()[row]) close(static_cast<double>(row));
    }
    return {row, filled};
}

template <class>
struct IsArray : std::false_type {};
template <class... Traits>
struct IsArray<nb::ndarray<Traits...>> : std::true_type {};

// Arrays of another type or layout are refused: nanobind would hand over a copy, and what is changed in it be lost.
template <class Argument>
auto argument() {
    if constexpr (IsArray<Argument>::value)
        return nb::arg().noconvert();
    else
        return nb::arg();
}

template <class Result, class... Arguments>
void define(nb::module_ &m, const char *name, Result (*function)(Arguments...)) {
    m.def(name, function, argument<Arguments>()...);
}

}  // namespace

NB_MODULE(_native, m) {
    m.def("instruction_sets", &instruction_sets);
    m.def("choose", &choose);
    m.def("chosen", [] { return std::string(chosen->name); });
    define(m, "fold_single", &fold_single);
    define(m, "fold_sparse", &fold_sparse);
    define(m, "fold_gradient", &fold_gradient);
    define(m, "fold_dense", &fold_dense);
    define(m, "walk_dense", &walk_dense);
    define(m, "walk_sparse", &walk_sparse);
    define(m, "add_products", &add_products);
    define(m, "add_blocks", &add_blocks);
    define(m, "evaluate", &evaluate);
    define(m, "add_entries", &add_entries);
    define(m, "decaying_sum", &decaying_sum);
    define(m, "sum_episodes", &sum_episodes);
    define(m, "follow_episodes", &follow_episodes);
}
