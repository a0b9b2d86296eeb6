#define INFERL_NAMESPACE avx2
#define INFERL_KERNEL avx2_kernel
#define INFERL_NAME "avx2"
#define INFERL_WIDTH 4
#define INFERL_VECTORS 2
#define INFERL_STEPS 4
#define INFERL_TILE_ROWS 4
#define INFERL_TILE_VECTORS 3
#include "fold.inl"
