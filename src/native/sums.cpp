// What least squares sums of dense rows: products of rows, and blocks of 1, 2, 4, ... of them.

#include <algorithm>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "passes.hpp"

namespace inferl {
namespace {

// A matrix to which u' v of several batches is added, one after the other; of a symmetric one, the lower triangle.
struct Product {
    struct Batch {
        const double *u, *v;   // (rows, p) both
        const double *weight;  // (rows,) of the rows of u in `vector`; none: 1
    };
    double *matrix;  // (p, p)
    double *vector;  // (p,) to which the weighted rows of u are added
    bool lower;
    std::vector<Batch> batches;
};

// Numbers that are worked on before others take their place in the caches, which are those of all threads.
std::size_t at_once(int threads) { return 262'144 * std::min<std::size_t>(std::max(threads, 1), 8); }

// Of one product: some batches, packed one after the other, and how its matrix is cut into tasks.
struct Part {
    const Product *product;
    std::size_t begin, end, place;
};

// Add the products. Blocks of the matrices are shared out to threads, each with all its batches in order.
void multiply(const std::vector<Product> &products, std::size_t rows, std::size_t p, int threads) {
    const Kernel &kernel = *chosen;
    const std::size_t height = kernel.tile_rows, width = kernel.tile_columns;
    const std::size_t tall = (p + height - 1) / height, wide = (p + width - 1) / width;  // panels
    const std::size_t u_size = tall * height * rows, each = u_size + wide * width * rows;
    static thread_local std::vector<double> space;
    std::vector<Part> parts;
    std::vector<std::pair<const Product::Batch *, std::size_t>> packing;  // a batch and its place
    const auto work = [&] {
        if (space.size() < packing.size() * each) space.resize(packing.size() * each);
        double *const packed = space.data();
        const int useful = worth(threads, packing.size() * rows * p * p);
        Workers::share(packing.size() * (tall + wide), useful, [&](std::size_t task) {
            const auto [batch, place] = packing[task / (tall + wide)];
            const std::size_t panel = task % (tall + wide), first = panel < tall ? panel * height : (panel - tall) * width;
            double *to = packed + place * each + (panel < tall ? first * rows : u_size + first * rows);
            if (panel < tall)
                kernel.pack_rows(batch->u + first, rows, p, p - first, to);
            else
                kernel.pack_columns(batch->v + first, rows, p, p - first, to);
        });
        // A task is a block of the matrix. The larger it is, the more often a number is used that was brought into the
        // cache of a core; of a small matrix, blocks are smaller, so that there is one for each thread.
        std::size_t down = std::max<std::size_t>(128 / height, 1), across = std::max<std::size_t>(96 / width, 1);
        const auto blocks = [&] { return ((tall + down - 1) / down) * ((wide + across - 1) / across); };
        while (useful > 1 && down * across > 1 && parts.size() * blocks() < 2 * static_cast<std::size_t>(useful))
            (across > 1 ? across : down) /= 2;
        const std::size_t rows_of_blocks = (tall + down - 1) / down, number = blocks();
        Workers::share(parts.size() * number, useful, [&](std::size_t task) {
            const Part &part = parts[task / number];
            const std::size_t top = task % number % rows_of_blocks * down, bottom = std::min(top + down, tall);
            const std::size_t left = task % number / rows_of_blocks * across, right = std::min(left + across, wide);
            double tile[16 * 32];
            for (std::size_t b = part.begin; b < part.end; ++b) {
                const double *from = packed + (part.place + b - part.begin) * each;
                for (std::size_t panel = left; panel < right; ++panel) {
                    const std::size_t first = panel * width, there = std::min(width, p - first);
                    for (std::size_t i = top; i < bottom; ++i) {
                        const bool lower = part.product->lower;
                        if (lower && (i + 1) * height <= first) continue;  // above the diagonal
                        const double *u = from + i * height * rows, *v = from + u_size + first * rows;
                        double *const corner = part.product->matrix + i * height * p + first;
                        if ((!lower || i * height >= first + width) && there == width && (i + 1) * height <= p) {
                            kernel.product_tile(u, v, rows, corner, p);
                            continue;
                        }
                        std::fill_n(tile, height * width, 0.0);
                        kernel.product_tile(u, v, rows, tile, width);
                        for (std::size_t k = 0; k < std::min(height, p - i * height); ++k) {
                            const std::size_t row = i * height + k, below = row < first ? 0 : row - first + 1;
                            const std::size_t stop = lower ? std::min(there, below) : there;
                            for (std::size_t j = 0; j < stop; ++j) corner[k * p + j] += tile[k * width + j];
                        }
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

// Add the weighted rows of each batch to the vectors, batch after batch.
void add_sums(const std::vector<Product> &products, std::size_t rows, std::size_t p, int threads) {
    constexpr std::size_t width = 32;
    std::size_t batches = 0;
    for (const Product &product : products) batches += product.batches.size();
    const std::size_t parts = (p + width - 1) / width;
    Workers::share(products.size() * parts, worth(threads, batches * rows * p), [&](std::size_t task) {
        const Product &product = products[task / parts];
        const std::size_t begin = task % parts * width, n = std::min(width, p - begin);
        double sum[width];
        for (const Product::Batch &batch : product.batches) {
            std::fill_n(sum, n, 0.0);
            chosen->weighted_rows(batch.u + begin, batch.weight, rows, p, n, sum);
            for (std::size_t i = 0; i < n; ++i) product.vector[begin + i] += sum[i];
        }
    });
}

}  // namespace

// Add u' v to a matrix and u' c to a vector, in batches of as many rows as the buffers have; returns how many wait.
std::size_t add_products(Rows matrix, Sums vector, Sums size, Rows u_buffer, Rows v_buffer, Sums c_buffer,
                         std::size_t waiting, Table u, Table v, Column c, int threads) {
    const std::size_t p = vector.size(), rows = u.shape(0), capacity = u_buffer.shape(0);
    expect(matrix.shape(0) == p && matrix.shape(1) == p && size.size() == p && capacity > 0 && waiting < capacity &&
           u_buffer.shape(1) == p && v_buffer.shape(0) == capacity && v_buffer.shape(1) == p &&
           c_buffer.size() == capacity && u.shape(1) == p && v.shape(0) == rows && v.shape(1) == p && c.size() == rows);
    const Working working;
    const auto keep = [&](std::size_t begin, std::size_t end) {
        std::copy(u.data() + begin * p, u.data() + end * p, u_buffer.data() + waiting * p);
        std::copy(v.data() + begin * p, v.data() + end * p, v_buffer.data() + waiting * p);
        std::copy(c.data() + begin, c.data() + end, c_buffer.data() + waiting);
        waiting += end - begin;
    };
    std::vector<Product> product{{matrix.data(), vector.data(), false, {}}};
    std::size_t row = 0, waited = 0;
    if (waiting > 0) {
        row = std::min(rows, capacity - waiting);
        keep(0, row);
        if (waiting == capacity) {
            product[0].batches.push_back({u_buffer.data(), v_buffer.data(), c_buffer.data()});
            waited = capacity;
            waiting = 0;
        }
    }
    for (; row + capacity <= rows; row += capacity)
        product[0].batches.push_back({u.data() + row * p, v.data() + row * p, c.data() + row});
    multiply(product, capacity, p, threads);
    add_sums(product, capacity, p, threads);
    widen(v.data(), rows, p, size.data(), threads);
    std::fill_n(u_buffer.data(), waited * p, 0.0);  // what does not wait is 0: the same state has the same bits
    std::fill_n(v_buffer.data(), waited * p, 0.0);
    std::fill_n(c_buffer.data(), waited, 0.0);
    if (row < rows) keep(row, rows);
    return waiting;
}

namespace {

// The state of sums over blocks of 1, 2, 4, ... rows along each stream.
struct Blocks {
    double *half, *gathered, *outer, *total;  // (S, J, p), (J, capacity, p), (J, p, p), (J, p)
    bool *is_open;                            // (S, J)
    std::int64_t *waiting, *count;            // (J,)
    std::size_t levels, capacity, p;
};

// Two blocks that make one of the next level: their places among those of their level.
struct Pair {
    const double *first;  // where the first one waited since an earlier call; null: in `place`
    std::size_t place, second;
};

// A first half: where it waits for the second one.
struct Half {
    std::size_t stream, level, place;
};

// Add some rows. Blocks are numbered first, level by level, in the order in which they are complete; then all of a level
// are summed at once. As many blocks as the buffer of a level holds are added to its moments at once.
void add_rows_to(const Blocks &x, const double *scores, const std::int64_t *slot, std::size_t rows, int threads) {
    const std::size_t levels = x.levels, capacity = x.capacity, p = x.p;
    constexpr std::size_t nowhere = -1;
    static thread_local std::vector<std::size_t> latest;  // (S, J) index in `halves` of the first half of this call
    std::vector<std::size_t> filled(x.waiting, x.waiting + levels);
    std::vector<std::vector<Pair>> pairs(levels);  // that make the blocks of each level
    std::vector<Half> halves;
    for (std::size_t t = 0; t < rows; ++t) {
        const std::size_t stream = slot[t];
        if (latest.size() < (stream + 1) * levels) latest.resize((stream + 1) * levels, nowhere);
        for (std::size_t j = 0; j < levels; ++j) {
            const std::size_t at = stream * levels + j, place = filled[j]++;
            bool &open = x.is_open[at];
            open = !open;
            if (open) {  // it waits for its other half
                if (latest[at] == nowhere) {
                    latest[at] = halves.size();
                    halves.push_back({stream, j, place});
                }
                halves[latest[at]].place = place;
                break;
            }
            if (j + 1 == levels) break;
            const bool before = latest[at] == nowhere;
            pairs[j + 1].push_back({before ? x.half + at * p : nullptr, before ? 0 : halves[latest[at]].place, place});
        }
    }
    for (const Half &half : halves) latest[half.stream * levels + half.level] = nowhere;
    // Rows of level 0 stay where they are, unless they wait. Levels that fill their buffers collect blocks elsewhere.
    static thread_local std::vector<std::vector<double>> more;
    if (more.size() < levels) more.resize(levels);
    std::vector<double *> into(levels);
    for (std::size_t j = 1; j < levels; ++j) {
        into[j] = x.gathered + j * capacity * p;
        if (filled[j] < capacity) continue;
        if (more[j].size() < filled[j] * p) more[j].resize(filled[j] * p);
        std::copy_n(into[j], x.waiting[j] * p, more[j].data());
        into[j] = more[j].data();
    }
    const std::size_t waited = x.waiting[0];
    const auto block = [&](std::size_t level, std::size_t place) {
        return level == 0 ? scores + (place - waited) * p : into[level] + place * p;
    };
    const std::size_t together = std::max<std::size_t>(16'384 / std::max<std::size_t>(p, 1), 1);
    for (std::size_t j = 1; j < levels; ++j)
        Workers::share((pairs[j].size() + together - 1) / together, worth(threads, 4 * pairs[j].size() * p),
                       [&, j](std::size_t task) {
                           const std::size_t stop = std::min((task + 1) * together, pairs[j].size());
                           for (std::size_t k = task * together; k < stop; ++k) {
                               const Pair &pair = pairs[j][k];
                               const double *a = pair.first ? pair.first : block(j - 1, pair.place);
                               chosen->sum_of(a, block(j - 1, pair.second), p, into[j] + (x.waiting[j] + k) * p);
                           }
                       });
    std::vector<Product> products;
    double *const first = x.gathered;  // the buffer of level 0
    std::size_t kept = 0;              // rows that are in it
    for (std::size_t j = 0; j < levels; ++j) {
        const std::size_t whole = filled[j] / capacity * capacity;
        if (whole == 0) continue;
        products.push_back({x.outer + j * p * p, x.total + j * p, true, {}});
        for (std::size_t k = 0; k < whole; k += capacity) {
            const double *g = into[j] + k * p;
            if (j == 0 && k == 0 && waited > 0) {
                kept = capacity - waited;
                std::copy_n(scores, kept * p, first + waited * p);
                g = first;
            } else if (j == 0) {
                g = block(0, k);
            }
            products.back().batches.push_back({g, g, nullptr});
        }
    }
    multiply(products, capacity, p, threads);
    add_sums(products, capacity, p, threads);
    for (const Half &half : halves)
        std::copy_n(block(half.level, half.place), p, x.half + (half.stream * levels + half.level) * p);
    for (std::size_t j = 0; j < levels; ++j) {
        const std::size_t whole = filled[j] / capacity * capacity, left = filled[j] - whole;
        double *buffer = x.gathered + j * capacity * p;
        if (whole > 0) {  // what does not wait is 0: the same state has the same bits
            const std::size_t dirty = j == 0 ? (kept > 0 ? capacity : 0) : x.waiting[j];
            std::fill_n(buffer, dirty * p, 0.0);
            std::copy_n(block(j, whole), left * p, buffer);
        } else if (j == 0) {
            std::copy_n(scores, rows * p, buffer + waited * p);
        }
        x.count[j] += static_cast<std::int64_t>(whole);
        x.waiting[j] = static_cast<std::int64_t>(left);
    }
}

}  // namespace

void add_blocks(Table scores, Labels slot, Levels half, Own<bool, 2> is_open, Levels gathered, Numbers waiting,
                Levels outer, Rows total, Numbers count, int threads) {
    const std::size_t rows = scores.shape(0), p = gathered.shape(2), levels = gathered.shape(0);
    const std::size_t capacity = gathered.shape(1), streams = half.shape(0);
    expect(scores.shape(1) == p && slot.size() == rows && half.shape(1) == levels && half.shape(2) == p &&
           is_open.shape(0) == streams && is_open.shape(1) == levels && waiting.size() == levels && capacity > 0 &&
           outer.shape(0) == levels && outer.shape(1) == p && outer.shape(2) == p && total.shape(0) == levels &&
           total.shape(1) == p && count.size() == levels && all_below(waiting, capacity) && all_below(slot, streams));
    const Working working;
    const Blocks blocks{half.data(),    gathered.data(), outer.data(), total.data(), is_open.data(),
                        waiting.data(), count.data(),    levels,       capacity,     p};
    const std::size_t slice = std::max<std::size_t>(at_once(threads) / std::max<std::size_t>(p, 1), capacity);
    for (std::size_t row = 0; row < rows; row += slice)
        add_rows_to(blocks, scores.data() + row * p, slot.data() + row, std::min(slice, rows - row), threads);
}

// The increments at a parameter vector: sum of u (c - v . theta), minus the damping.
void evaluate(Given<double, nb::ndim<3>> u, Given<double, nb::ndim<3>> v, Table c, Column damping, Column theta,
              Rows out, int threads) {
    const std::size_t rows = u.shape(0), terms = u.shape(1), p = u.shape(2), size = 256;
    expect(v.shape(0) == rows && v.shape(1) == terms && v.shape(2) == p && c.shape(0) == rows && c.shape(1) == terms &&
           terms > 0 && damping.size() == p && theta.size() == p && out.shape(0) == rows && out.shape(1) == p);
    const Working working;
    const DenseTerms x{u.data(), v.data(), c.data(), damping.data(), terms};
    Workers::share((rows + size - 1) / size, worth(threads, 4 * rows * terms * p), [&](std::size_t task) {
        chosen->evaluate(x, theta.data(), p, task * size, std::min((task + 1) * size, rows), out.data());
    });
}

}  // namespace inferl
