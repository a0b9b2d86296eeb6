#define INFERL_NAMESPACE avx512
#define INFERL_KERNEL avx512_kernel
#define INFERL_NAME "avx512"
#define INFERL_WIDTH 8
#define INFERL_VECTORS 2
#define INFERL_STEPS 4
#define INFERL_TILE_ROWS 8
#define INFERL_TILE_VECTORS 3
#include "fold.inl"
