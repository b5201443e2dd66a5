// Products of a few rows with a matrix: y = x W^T for at most eight rows of x, W [outputs, inputs] as it is stored.
//
// All time goes into reading W, once whatever the number of rows (2 * outputs * inputs bytes for bf16; x comes from the first-level
// cache). A warp makes R outputs of all M rows; each lane reads 16 bytes (bf16) of W at a time, so that a warp reads 512 neighbouring
// bytes. If rows of W are long, `splits` warps of a block share one, which keeps more reads under way. An output's sum has the same
// order whatever M is.
//
// `normed_`: x's rows are normalised on their way, `x / sqrt(mean(x^2) + eps) * norm`. The squares add up beside the products, and the
// factor comes at the end, so no sum waits for another.
#pragma once
#include "omni.cuh"
#include "dots.cuh"

// `out = add + scale * activation(x W^T + bias)`; bias, scale and add are optional.
template <int M, int R, bool kNormed, typename T>
__device__ __forceinline__ void gemv_block(uint32_t block, Out<T> out, In<T> x, In<T> w, In<float> bias, In<float> scale, In<T> add, In<float> norm, uint32_t rows,
                                           uint32_t outputs, uint32_t inputs, uint32_t activation, uint32_t splits, uint32_t wide, float eps) {
    unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, part = warp % splits;
    uint32_t first = (block * (kGemvWarps / splits) + warp / splits) * R;
    float sum[M][R], squares[M];
    // Rows of W beyond the last repeat it, and their results are dropped.
    auto row_of = [&](int r) { return static_cast<size_t>(min(first + r, outputs - 1)) * inputs; };
    dots<M, R, kNormed, T>(sum, squares, x, w, norm, row_of, rows, inputs, part, splits, wide);
    gather_splits<M, R, kNormed>(sum, squares, part, splits);
    if (part != 0) return;
    if (kNormed) normalise_sums(sum, squares, inputs, eps);
    // One lane per sum.
    float v = 0.0f;
#pragma unroll
    for (int i = 0; i < M * R; i++)
        if (static_cast<int>(lane) == i) v = sum[i / R][i % R];
    uint32_t m = lane / R, n = first + lane % R;
    if (lane >= M * R || m >= rows || n >= outputs) return;
    size_t at = static_cast<size_t>(m) * outputs + n;
    v = activated(activation, bias ? v + bias[n] : v);
    if (scale) v *= scale[n];
    out[at] = narrow<T>(add ? widen(add[at]) + v : v);
}
template <int M, int R, bool kNormed, typename T>
__device__ void gemv(Out<T> out, In<T> x, In<T> w, In<float> bias, In<float> scale, In<T> add, In<float> norm, uint32_t rows,
                     uint32_t outputs, uint32_t inputs, uint32_t activation, uint32_t splits, uint32_t wide, float eps) {
    gemv_block<M, R, kNormed, T>(blockIdx.x, out, x, w, bias, scale, add, norm, rows, outputs, inputs, activation, splits, wide, eps);
}

/// `out = silu(x G^T) * (x U^T)` for W = [G | U], `half` rows each.
template <int M, int R, bool kNormed, typename T>
__device__ __forceinline__ void gated_block(uint32_t block, Out<T> out, In<T> x, In<T> w, In<float> norm, uint32_t rows, uint32_t half,
                                            uint32_t inputs, uint32_t splits, uint32_t wide, float eps) {
    unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, part = warp % splits;
    uint32_t first = (block * (kGemvWarps / splits) + warp / splits) * R;
    float sum[M][2 * R], squares[M];
    auto row_of = [&](int r) { return (static_cast<size_t>(r < R ? 0 : half) + min(first + r % R, half - 1)) * inputs; };
    dots<M, 2 * R, kNormed, T>(sum, squares, x, w, norm, row_of, rows, inputs, part, splits, wide);
    gather_splits<M, 2 * R, kNormed>(sum, squares, part, splits);
    if (part != 0) return;
    if (kNormed) normalise_sums(sum, squares, inputs, eps);
    float gate = 0.0f, up = 0.0f;
#pragma unroll
    for (int i = 0; i < M * R; i++)
        if (static_cast<int>(lane) == i) {
            gate = sum[i / R][i % R];
            up = sum[i / R][R + i % R];
        }
    uint32_t m = lane / R, n = first + lane % R;
    if (lane >= M * R || m >= rows || n >= half) return;
    out[static_cast<size_t>(m) * half + n] = narrow<T>(silu(gate) * up);
}
template <int M, int R, bool kNormed, typename T>
__device__ void gated(Out<T> out, In<T> x, In<T> w, In<float> norm, uint32_t rows, uint32_t half, uint32_t inputs, uint32_t splits,
                      uint32_t wide, float eps) {
    gated_block<M, R, kNormed, T>(blockIdx.x, out, x, w, norm, rows, half, inputs, splits, wide, eps);
}

/// `gated` and `gemv` of the same normalised rows side by side: the first `gated_blocks` blocks are the former's, R outputs a warp, the others
/// the latter's, L outputs a warp. Results are those of the two, to the bit.
template <int M, int R, int L, typename T>
__device__ void gated_beside(Out<T> gated_out, In<T> gated_w, Out<T> out, In<T> w, In<T> x, In<float> norm, uint32_t rows, uint32_t half,
                             uint32_t outputs, uint32_t inputs, uint32_t splits, uint32_t wide, float eps, uint32_t gated_blocks) {
    // Uniform over the block.
    if (blockIdx.x < gated_blocks) gated_block<M, R, true, T>(blockIdx.x, gated_out, x, gated_w, norm, rows, half, inputs, splits, wide, eps);
    else gemv_block<M, L, true, T>(blockIdx.x - gated_blocks, out, x, w, {}, {}, {}, norm, rows, outputs, inputs, 0, splits, wide, eps);
}
