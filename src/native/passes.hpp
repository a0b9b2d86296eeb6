// What sums.cpp and rows.cpp offer to Python; `inferl.engine.backend` says what each function does.
#pragma once

#include <tuple>
#include <utility>

#include "arrays.hpp"

namespace inferl {

std::size_t add_products(Rows matrix, Sums vector, Sums size, Rows u_buffer, Rows v_buffer, Sums c_buffer,
                         std::size_t waiting, Table u, Table v, Column c, int threads);
void add_blocks(Table scores, Labels slot, Levels half, Own<bool, 2> is_open, Levels gathered, Numbers waiting,
                Levels outer, Rows total, Numbers count, int threads);
void evaluate(Given<double, nb::ndim<3>> u, Given<double, nb::ndim<3>> v, Table c, Column damping, Column theta,
              Rows out, int threads);

void subtract_scaled(Table x, Table y, Column factor, Rows out, int threads);
void squared_norms(Table x, Sums out, int threads);
void sum_words(Given<std::uint64_t, nb::ndim<2>> words, Given<std::uint64_t, nb::ndim<1>> keys,
               Own<std::uint64_t, 1> out, int threads);
void largest(Table x, Sums out, int threads);
void widen(const double *x, std::size_t rows, std::size_t p, double *most, int threads);  // the largest |x| of columns
void add_rows(Rows sums, Labels row, Counts index, Table value, int threads);
std::tuple<std::size_t, std::size_t, std::size_t> sum_segments(Counts index, Table value, Labels slot, Labels number,
                                                               std::size_t length, std::size_t stride, Rows open,
                                                               Numbers looked, Numbers done, Sums total, Sums squares,
                                                               Rows means, Numbers owner, std::size_t filled,
                                                               std::size_t row);
void add_entries(Given<std::int64_t, nb::ndim<2>> index, Table value, Labels slot, Own<std::int64_t, 3> kept_index,
                 Levels kept_value, Numbers kept_rows, Levels outer, Rows total, Numbers count, Rows sums,
                 Numbers closed_by);
void decaying_sum(Column add, Column decay, Labels slot, Flags first, double most, Sums carried, Sums out);
std::tuple<std::size_t, std::size_t, std::int64_t> sum_episodes(Counts index, Table value, Labels slot, Labels episode,
                                                                Flags last, Rows sum, Numbers open, Numbers order,
                                                                std::int64_t begun, Rows closed, Numbers which,
                                                                std::size_t row);
std::pair<std::size_t, std::size_t> follow_episodes(Column reward, Column discount, Column ratio, Labels slot,
                                                    Flags first, Flags last, double most, Rows open, Rows closed,
                                                    std::size_t row);

}  // namespace inferl
