// The offline bootstrap's walk; a part of fold.inl.

// Resamples share nothing, but a few of them side by side fill the time in which each waits for its last step.
template <class Step>
void walk(const Walk &w, Step step) {
    constexpr std::size_t side_by_side = 4;
    for (std::size_t first = 0; first < w.walkers; first += side_by_side) {
        const std::size_t stop = std::min(first + side_by_side, w.walkers);
        for (std::size_t t = 0; t < w.steps; ++t)
            for (std::size_t b = first; b < stop; ++b) {
                if (t >= static_cast<std::size_t>(w.lengths[b])) continue;
                const std::int64_t *own = w.rows + b * w.steps;
                if (t + 1 < w.steps) step.prefetch(static_cast<std::size_t>(own[t + 1]));
                const std::size_t row = static_cast<std::size_t>(own[t]);
                const double gain = std::min(w.step_size[t], w.limit[row]);
                step(w.iterate + b * w.p, w.lag + b * w.p, row, gain, w.mass[t]);
            }
    }
}

struct DenseStep {
    const DenseTerms x;
    const std::size_t p;
    std::vector<double> rest, change;
    void prefetch(std::size_t row) const {
        for (std::size_t i = row * x.terms * p; i < (row + 1) * x.terms * p; i += 8) {
            __builtin_prefetch(x.u + i);
            __builtin_prefetch(x.v + i);
        }
    }
    void operator()(double *theta, double *lag, std::size_t row, double gain, double mass) {
        const double *u = x.u + row * x.terms * p, *v = x.v + row * x.terms * p;
        if (x.terms == 1 && x.damping == nullptr) {
            const double rest_of_one = gain * (x.c[row] - dot(v, theta, p)), moved = mass * rest_of_one;
            std::size_t i = 0;
            for (; i + WIDTH <= p; i += WIDTH) {
                const vec own = load(u + i);
                store(theta + i, load(theta + i) + rest_of_one * own);
                store(lag + i, load(lag + i) + moved * own);
            }
            for (; i < p; ++i) {
                theta[i] += rest_of_one * u[i];
                lag[i] += moved * u[i];
            }
            return;
        }
        for (std::size_t k = 0; k < x.terms; ++k) rest[k] = gain * (x.c[row * x.terms + k] - dot(v + k * p, theta, p));
        for (std::size_t i = 0; i < p; ++i) change[i] = x.damping == nullptr ? 0.0 : -gain * x.damping[i] * theta[i];
        for (std::size_t k = 0; k < x.terms; ++k)
            for (std::size_t i = 0; i < p; ++i) change[i] += rest[k] * u[k * p + i];
        for (std::size_t i = 0; i < p; ++i) {
            theta[i] += change[i];
            lag[i] += mass * change[i];
        }
    }
};

void walk_dense(const Walk &w, const DenseTerms &x) {
    walk(w, DenseStep{x, w.p, std::vector<double>(x.terms), std::vector<double>(w.p)});
}

struct SparseStep {
    const SparseTerms x;
    std::vector<double> rest;
    void prefetch(std::size_t) const {}
    void operator()(double *theta, double *lag, std::size_t row, double gain, double mass) {
        for (std::size_t k = row * x.terms; k < (row + 1) * x.terms; ++k) {
            double sum = x.c[k];
            for (std::size_t i = k * x.m_v; i < (k + 1) * x.m_v; ++i) sum -= x.v_value[i] * theta[x.v_index[i]];
            rest[k - row * x.terms] = gain * sum;
        }
        for (std::size_t k = row * x.terms; k < (row + 1) * x.terms; ++k)
            for (std::size_t i = k * x.m_u; i < (k + 1) * x.m_u; ++i) {
                const double change = x.u_value[i] * rest[k - row * x.terms];
                theta[x.u_index[i]] += change;
                lag[x.u_index[i]] += mass * change;
            }
    }
};

void walk_sparse(const Walk &w, const SparseTerms &x) { walk(w, SparseStep{x, std::vector<double>(x.terms)}); }
