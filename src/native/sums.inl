// What least squares computes of dense rows: products of 128 rows at a time, scores, sizes.

// A tile of u' v, TILE_ROWS x TILE_COLUMNS, of panels u (rows, TILE_ROWS) and v (rows, TILE_COLUMNS). It stays in
// registers while all rows are added, one after the other.
constexpr int TILE_ROWS = INFERL_TILE_ROWS;
constexpr int TILE_VECTORS = INFERL_TILE_VECTORS;
constexpr int TILE_COLUMNS = TILE_VECTORS * WIDTH;

void product_tile(const double *u, const double *v, std::size_t rows, double *out) {
    vec sum[TILE_ROWS][TILE_VECTORS] = {};
    for (std::size_t t = 0; t < rows; ++t, u += TILE_ROWS, v += TILE_COLUMNS) {
        vec x[TILE_VECTORS];
        for (int j = 0; j < TILE_VECTORS; ++j) x[j] = load(v + j * WIDTH);
        for (int i = 0; i < TILE_ROWS; ++i)
            for (int j = 0; j < TILE_VECTORS; ++j) sum[i][j] += all(u[i]) * x[j];
    }
    for (int i = 0; i < TILE_ROWS; ++i)
        for (int j = 0; j < TILE_VECTORS; ++j) store(out + (i * TILE_VECTORS + j) * WIDTH, sum[i][j]);
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

void largest_of(const double *x, std::size_t rows, std::size_t p, std::size_t begin, std::size_t end, double *most) {
    for (std::size_t t = 0; t < rows; ++t, x += p)
        for (std::size_t i = begin; i < end; ++i) {
            const double size = std::abs(x[i]);
            most[i] = size > most[i] ? size : most[i];
        }
}
