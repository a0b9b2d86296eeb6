#define INFERL_NAMESPACE generic
#define INFERL_KERNEL generic_kernel
#define INFERL_NAME "generic"
#define INFERL_WIDTH 2
#define INFERL_VECTORS 2
#define INFERL_STEPS 4
#define INFERL_TILE_ROWS 4
#define INFERL_TILE_VECTORS 2
#include "fold.inl"
