// What is computed of rows outside of the recursion: products of 128 rows at a time, scores, sizes, sums.

// Add a tile of u' v, TILE_ROWS x TILE_COLUMNS, of panels u (rows, TILE_ROWS) and v (rows, TILE_COLUMNS), to a part of a
// matrix. It stays in registers while all rows are added, one after the other.
constexpr int TILE_ROWS = INFERL_TILE_ROWS;
constexpr int TILE_VECTORS = INFERL_TILE_VECTORS;
constexpr int TILE_COLUMNS = TILE_VECTORS * WIDTH;

void product_tile(const double *u, const double *v, std::size_t rows, double *out, std::size_t stride) {
    vec sum[TILE_ROWS][TILE_VECTORS] = {};
    for (std::size_t t = 0; t < rows; ++t, u += TILE_ROWS, v += TILE_COLUMNS) {
        vec x[TILE_VECTORS];
        for (int j = 0; j < TILE_VECTORS; ++j) x[j] = load(v + j * WIDTH);
        for (int i = 0; i < TILE_ROWS; ++i)
            for (int j = 0; j < TILE_VECTORS; ++j) sum[i][j] += all(u[i]) * x[j];
    }
    for (int i = 0; i < TILE_ROWS; ++i)
        for (int j = 0; j < TILE_VECTORS; ++j) {
            double *to = out + i * stride + j * WIDTH;
            store(to, load(to) + sum[i][j]);
        }
}

// Copy SIZE columns of the rows of a matrix to a panel, side by side, so that a product reads memory from front to back;
// beyond the last column there are zeros.
template <std::size_t SIZE>
void pack(const double *from, std::size_t rows, std::size_t stride, std::size_t there, double *to) {
    if (there >= SIZE) {
        for (std::size_t t = 0; t < rows; ++t, from += stride, to += SIZE)
            for (std::size_t i = 0; i < SIZE; ++i) to[i] = from[i];
        return;
    }
    for (std::size_t t = 0; t < rows; ++t, from += stride, to += SIZE)
        for (std::size_t i = 0; i < SIZE; ++i) to[i] = i < there ? from[i] : 0.0;
}

void evaluate(const DenseTerms &x, const double *theta, std::size_t p, std::size_t begin, std::size_t end, double *out) {
    for (std::size_t t = begin; t < end; ++t) {
        double *to = out + t * p;
        for (std::size_t k = 0; k < x.terms; ++k) {
            const double *u = x.u + (t * x.terms + k) * p;
            const double rest = x.c[t * x.terms + k] - dot(x.v + (t * x.terms + k) * p, theta, p);
            if (k == 0)
                for (std::size_t i = 0; i < p; ++i) to[i] = rest * u[i];
            else
                for (std::size_t i = 0; i < p; ++i) to[i] += rest * u[i];
        }
        for (std::size_t i = 0; i < p; ++i) to[i] -= x.damping[i] * theta[i];
    }
}

void largest_of(const double *x, std::size_t rows, std::size_t p, double *most) {
    for (std::size_t t = 0; t < rows; ++t, x += p)
        for (std::size_t i = 0; i < p; ++i) {
            const double size = std::abs(x[i]);
            most[i] = size > most[i] ? size : most[i];
        }
}

// Add the rows of x, n of `stride` numbers each, times their weights to a sum.
void weighted_rows(const double *x, const double *weight, std::size_t rows, std::size_t stride, std::size_t n,
                   double *sum) {
    constexpr std::size_t most = 32 / WIDTH;
    if (n < most * WIDTH) {
        for (std::size_t t = 0; t < rows; ++t, x += stride)
            for (std::size_t i = 0; i < n; ++i) sum[i] += (weight ? weight[t] : 1.0) * x[i];
        return;
    }
    vec own[most];
    for (std::size_t i = 0; i < most; ++i) own[i] = load(sum + i * WIDTH);
    for (std::size_t t = 0; t < rows; ++t, x += stride)
        for (std::size_t i = 0; i < most; ++i) own[i] += all(weight ? weight[t] : 1.0) * load(x + i * WIDTH);
    for (std::size_t i = 0; i < most; ++i) store(sum + i * WIDTH, own[i]);
}

void sum_of(const double *x, const double *y, std::size_t n, double *out) {
    for (std::size_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

void add_to(const double *x, std::size_t n, double *sum) {
    for (std::size_t i = 0; i < n; ++i) sum[i] += x[i];
}

void subtract_scaled(const double *x, const double *y, const double *factor, std::size_t rows, std::size_t p,
                     double *out) {
    for (std::size_t t = 0; t < rows; ++t, x += p, y += p, out += p)
        for (std::size_t i = 0; i < p; ++i) out[i] = x[i] - factor[t] * y[i];
}

void squared_norms(const double *x, std::size_t rows, std::size_t p, double *out) {
    for (std::size_t t = 0; t < rows; ++t) out[t] = dot(x + t * p, x + t * p, p);
}

void sum_words(const std::uint64_t *x, const std::uint64_t *keys, std::size_t rows, std::size_t p, std::uint64_t *out) {
    for (std::size_t t = 0; t < rows; ++t, x += p) {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < p; ++i) sum += x[i] * keys[i];
        out[t] = sum;
    }
}
