// The kernels of `gemv.cuh`.
#include "gemv.cuh"

#define GEMV(name, M, R, normed)                                                                                                  \
    EARLY_KERNEL(name, 128, (gemv<M, R, normed, T>),                                                                                    \
           (Out<T> out, In<T> x, In<T> w, In<float> bias, In<float> scale, In<T> add, In<float> norm, uint32_t rows,              \
            uint32_t outputs, uint32_t inputs, uint32_t activation, uint32_t splits, uint32_t wide, float eps),                   \
           (out, x, w, bias, scale, add, norm, rows, outputs, inputs, activation, splits, wide, eps))
GEMV(gemv_1, 1, 1, false)
GEMV(gemv_2, 2, 2, false)
GEMV(gemv_4, 4, 2, false)
GEMV(gemv_8, 8, 4, false)
GEMV(normed_gemv_1, 1, 1, true)
GEMV(normed_gemv_2, 2, 2, true)
GEMV(normed_gemv_4, 4, 2, true)
GEMV(normed_gemv_8, 8, 4, true)
#define GATED(name, M, R, normed)                                                                                                 \
    EARLY_KERNEL(name, 128, (gated<M, R, normed, T>),                                                                                   \
           (Out<T> out, In<T> x, In<T> w, In<float> norm, uint32_t rows, uint32_t half, uint32_t inputs, uint32_t splits,         \
            uint32_t wide, float eps),                                                                                            \
           (out, x, w, norm, rows, half, inputs, splits, wide, eps))
GATED(gated_1, 1, 1, false)
GATED(gated_2, 2, 1, false)
GATED(gated_4, 4, 1, false)
GATED(gated_8, 8, 2, false)
GATED(normed_gated_1, 1, 1, true)
GATED(normed_gated_2, 2, 1, true)
GATED(normed_gated_4, 4, 1, true)
GATED(normed_gated_8, 8, 2, true)
#define GATED_BESIDE(name, M, R, L)                                                                                               \
    EARLY_KERNEL(name, 128, (gated_beside<M, R, L, T>),                                                                           \
           (Out<T> gated_out, In<T> gated_w, Out<T> out, In<T> w, In<T> x, In<float> norm, uint32_t rows, uint32_t half,          \
            uint32_t outputs, uint32_t inputs, uint32_t splits, uint32_t wide, float eps, uint32_t gated_blocks),                 \
           (gated_out, gated_w, out, w, x, norm, rows, half, outputs, inputs, splits, wide, eps, gated_blocks))
GATED_BESIDE(gated_beside_1, 1, 1, 1)
GATED_BESIDE(gated_beside_2, 2, 1, 2)
GATED_BESIDE(gated_beside_4, 4, 1, 2)
GATED_BESIDE(gated_beside_8, 8, 2, 4)
