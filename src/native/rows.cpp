// Passes over rows: what is made of each one, and what follows streams and episodes.

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "passes.hpp"

namespace inferl {
namespace {

// Call work(begin, end) for blocks of rows that fit into the cache of a core.
template <class Work>
void by_rows(std::size_t rows, std::size_t p, int threads, const Work &work) {
    const std::size_t together = std::max<std::size_t>(16'384 / std::max<std::size_t>(p, 1), 1);
    Workers::share((rows + together - 1) / together, worth(threads, 2 * rows * p), [&](std::size_t task) {
        work(task * together, std::min((task + 1) * together, rows));
    });
}

}  // namespace

// x - factor y, row by row.
void subtract_scaled(Table x, Table y, Column factor, Rows out, int threads) {
    const std::size_t rows = x.shape(0), p = x.shape(1);
    expect(y.shape(0) == rows && y.shape(1) == p && factor.size() == rows && out.shape(0) == rows && out.shape(1) == p);
    const Working working;
    by_rows(rows, p, threads, [&](std::size_t begin, std::size_t end) {
        const std::size_t at = begin * p;
        chosen->subtract_scaled(x.data() + at, y.data() + at, factor.data() + begin, end - begin, p, out.data() + at);
    });
}

// The squared length of each row.
void squared_norms(Table x, Sums out, int threads) {
    const std::size_t rows = x.shape(0), p = x.shape(1);
    expect(out.size() == rows);
    const Working working;
    by_rows(rows, p, threads, [&](std::size_t begin, std::size_t end) {
        chosen->squared_norms(x.data() + begin * p, end - begin, p, out.data() + begin);
    });
}

// The sum of the words of each row, each multiplied by its key; words wrap around, so that any order will do.
void sum_words(Given<std::uint64_t, nb::ndim<2>> words, Given<std::uint64_t, nb::ndim<1>> keys,
               Own<std::uint64_t, 1> out, int threads) {
    const std::size_t rows = words.shape(0), p = words.shape(1);
    expect(keys.size() == p && out.size() == rows);
    const Working working;
    by_rows(rows, p, threads, [&](std::size_t begin, std::size_t end) {
        chosen->sum_words(words.data() + begin * p, keys.data(), end - begin, p, out.data() + begin);
    });
}

void widen(const double *x, std::size_t rows, std::size_t p, double *most, int threads) {
    const int parts = worth(threads, rows * p);
    std::vector<double> found(parts * p);
    Workers::share(parts, parts, [&](std::size_t part) {
        const std::size_t begin = rows * part / parts, end = rows * (part + 1) / parts;
        chosen->largest_of(x + begin * p, end - begin, p, found.data() + part * p);
    });
    for (std::size_t i = 0; i < found.size(); ++i) most[i % p] = std::max(most[i % p], found[i]);
}

// The largest |x| of each column.
void largest(Table x, Sums out, int threads) {
    expect(out.size() == x.shape(1));
    const Working working;
    widen(x.data(), x.shape(0), x.shape(1), out.data(), threads);
}

// Add rows to rows of `sums`, one after the other; threads share the columns.
void add_rows(Rows sums, Labels row, Counts index, Table value, int threads) {
    const std::size_t rows = row.size(), p = sums.shape(1), m = value.shape(1), width = 16;
    const bool sparse = index.size() > 0;
    expect(value.shape(0) == rows && all_below(row, sums.shape(0)) &&
           (sparse ? index.size() == value.size() && all_below(index, p) : m <= p));
    const Working working;
    if (sparse) {
        for (std::size_t t = 0; t < rows; ++t)
            for (std::size_t i = t * m; i < (t + 1) * m; ++i) sums.data()[row.data()[t] * p + index.data()[i]] += value.data()[i];
        return;
    }
    const int useful = worth(threads, 2 * rows * m);
    const std::size_t parts = std::min<std::size_t>(useful, (m + width - 1) / width);
    Workers::share(parts, useful, [&](std::size_t part) {
        const std::size_t panels = (m + width - 1) / width;
        const std::size_t begin = panels * part / parts * width, end = std::min(panels * (part + 1) / parts * width, m);
        for (std::size_t t = 0; t < rows; ++t)
            chosen->add_to(value.data() + t * m + begin, end - begin, sums.data() + row.data()[t] * p + begin);
    });
}

// Sum some of the rows over segments of each stream, until as many are complete as there is room for.
std::tuple<std::size_t, std::size_t, std::size_t> sum_segments(Counts index, Table value, Labels slot, Labels number,
                                                               std::size_t length, std::size_t stride, Rows open,
                                                               Numbers looked, Numbers done, Sums total, Sums squares,
                                                               Rows means, Numbers owner, std::size_t filled,
                                                               std::size_t row) {
    const std::size_t rows = slot.size(), p = open.shape(1), m = value.shape(1), streams = open.shape(0);
    const std::size_t room = means.shape(0);
    const bool sparse = index.size() > 0;
    expect(value.shape(0) == rows && number.size() == rows && looked.size() == streams && done.size() == streams &&
           total.size() == p && squares.size() == p && means.shape(1) == p && owner.size() == room &&
           length > 0 && stride > 0 && (length & (length - 1)) == 0 && (stride & (stride - 1)) == 0 &&
           all_below(slot, streams) &&
           (sparse ? index.size() == value.size() && all_below(index, p) : m <= p));
    const Working working;
    std::size_t seen = 0;
    for (; row < rows && filled < room; ++row) {
        const std::size_t s = slot.data()[row], at = number.data()[row];
        double *const own = open.data() + s * p;
        if (((at - 1) & (stride - 1)) == 0) {
            for (std::size_t i = 0; i < m; ++i) {
                const double x = value.data()[row * m + i];
                const std::size_t to = sparse ? index.data()[row * m + i] : i;
                own[to] += x;
                total.data()[to] += x;
                squares.data()[to] += x * x;
            }
            ++looked.data()[s];
            ++seen;
        }
        ++done.data()[s];
        if ((at & (length - 1)) != 0) continue;
        if (looked.data()[s] > 0) {
            const double steps = static_cast<double>(looked.data()[s]);
            for (std::size_t i = 0; i < p; ++i) means.data()[filled * p + i] = own[i] / steps;
            owner.data()[filled++] = s;
        }
        std::fill_n(own, p, 0.0);
        looked.data()[s] = done.data()[s] = 0;
    }
    return {row, filled, seen};
}

// Short blocks of sparse scores, entry by entry; sums of the longest blocks go out as vectors.
void add_entries(Given<std::int64_t, nb::ndim<2>> index, Table value, Labels slot,
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
    for (std::size_t t = 0; t < rows; ++t) closing += (++seen[slot.data()[t]] & (longest - 1)) == 0;
    expect(closing <= sums.shape(0));
    const Working working;
    std::size_t closed = 0;
    for (std::size_t t = 0; t < rows; ++t) {
        const std::size_t s = slot.data()[t];
        std::int64_t *places = kept_index.data() + s * longest * m;
        double *entries = kept_value.data() + s * longest * m;
        const std::size_t filled = kept_rows.data()[s];
        std::copy_n(index.data() + t * m, m, places + filled * m);
        std::copy_n(value.data() + t * m, m, entries + filled * m);
        const std::size_t now = filled + 1;
        for (std::size_t j = 0; j < levels && (now & ((std::size_t(1) << j) - 1)) == 0; ++j) {
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
    const Working working;
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
std::tuple<std::size_t, std::size_t, std::int64_t> sum_episodes(Counts index, Table value,
                                                                Labels slot, Labels episode, Flags last, Rows sum,
                                                                Numbers open, Numbers order, std::int64_t begun,
                                                                Rows closed, Numbers which, std::size_t row) {
    const std::size_t rows = slot.size(), p = sum.shape(1), room = closed.shape(0), streams = sum.shape(0);
    const bool sparse = index.size() > 0;
    expect(value.shape(0) == rows && episode.size() == rows && last.size() == rows && closed.shape(1) == p &&
           open.size() == streams && order.size() == streams && room > 1 && which.size() == room &&
           all_below(slot, streams) &&
           (sparse ? index.size() == value.size() && all_below(index, p) : value.shape(1) == p));
    const Working working;
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
    const Working working;
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

}  // namespace inferl
