// The Python side of the native kernel: arrays in, threads over groups of columns, the GIL released.

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "arrays.hpp"
#include "passes.hpp"
#ifdef INFERL_X86
#include "processor.hpp"
#endif

using namespace inferl;

namespace {

std::vector<const Kernel *> available() {
    std::vector<const Kernel *> found;
#ifdef INFERL_X86
    const Processor processor;
    if (processor.avx512) found.push_back(&avx512_kernel);
    if (processor.avx2) found.push_back(&avx2_kernel);
#endif
    found.push_back(&generic_kernel);
    return found;
}

}  // namespace

const Kernel *inferl::chosen = available().front();

namespace {

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
           largest.shape(1) == columns && law >= 0 && law <= 3);
    Draws draws{static_cast<Law>(law), seed, first_replica, tick.data(), stream.data()};
    return {State{iterate.data(), lag.data(), iterate.shape(0), columns},
            Schedule{step_size.data(), mass.data(), rows, tile, largest.data(), draws}, threads};
}

// Share the groups of columns out to threads; each column belongs to one.
template <class Form>
void run(const Call &call, const Form &form,
         void (*fold)(const State &, const Schedule &, const Form &, std::size_t, std::size_t)) {
    const Working working;
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
    const Working working;
    chosen->walk_dense(walk, {u.data(), v.data(), c.data(), damping.size() ? damping.data() : nullptr, terms});
}

void walk_sparse(Rows iterate, Rows lag, Counts rows, Labels lengths, Column step_size, Column mass, Column limit,
                 Counts u_index, Reals u_value, Counts v_index, Reals v_value, Reals c) {
    const Walk walk = walk_of(iterate, lag, rows, lengths, step_size, mass, limit);
    const SparseTerms terms = sparse_terms(u_index, u_value, v_index, v_value, c, limit.size(), walk.p);
    const Working working;
    chosen->walk_sparse(walk, terms);
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
    define(m, "subtract_scaled", &subtract_scaled);
    define(m, "squared_norms", &squared_norms);
    define(m, "sum_words", &sum_words);
    define(m, "largest", &largest);
    define(m, "add_rows", &add_rows);
    define(m, "sum_segments", &sum_segments);
    define(m, "add_entries", &add_entries);
    define(m, "decaying_sum", &decaying_sum);
    define(m, "sum_episodes", &sum_episodes);
    define(m, "follow_episodes", &follow_episodes);
}
