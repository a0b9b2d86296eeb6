// What the Python sides of the kernels share: arrays, their checks, and the state in which work is done.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "fold.hpp"
#include "workers.hpp"

namespace inferl {

namespace nb = nanobind;

// What is only read. Arrays are checked here once a call, whoever checked them before: nothing that Python hands over
// may lead outside of them.
template <class Scalar, class... Shape>
using Given = nb::ndarray<const Scalar, nb::c_contig, nb::device::cpu, Shape...>;
using Reals = Given<double>;
using Counts = Given<std::int64_t>;
using Column = Given<double, nb::ndim<1>>;
using Labels = Given<std::int64_t, nb::ndim<1>>;
using Flags = Given<bool, nb::ndim<1>>;
using Table = Given<double, nb::ndim<2>>;

// What is changed in place.
template <class Scalar, std::size_t dimensions>
using Own = nb::ndarray<Scalar, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;
using Sums = Own<double, 1>;
using Rows = Own<double, 2>;
using Levels = Own<double, 3>;
using Numbers = Own<std::int64_t, 1>;

inline void expect(bool fits) {
    if (!fits) throw std::invalid_argument("arrays that do not fit together, or numbers that lead outside of them");
}

template <class Array>
bool all_below(const Array &index, std::size_t bound) {
    for (std::size_t i = 0; i < index.size(); ++i)
        if (index.data()[i] < 0 || static_cast<std::size_t>(index.data()[i]) >= bound) return false;
    return true;
}

// Threads that are worth waking for so many operations.
inline int worth(int threads, std::size_t operations) {
    return static_cast<int>(std::min<std::size_t>(std::max(threads, 1), 1 + operations / 100'000));
}

// Around all work: Python's lock is released, and subnormal numbers count as 0.
struct Working {
    nb::gil_scoped_release release;
    Flushing flushing;
};

extern const Kernel *chosen;  // of the instruction sets that are there

}  // namespace inferl
