// Products of a few rows with rows of a matrix, by a warp or by several.
#pragma once
#include "omni.cuh"

constexpr unsigned kGemvWarps = 4;

/// Adds the products of eight inputs from `k` on.
template <int M, int R, typename T>
__device__ __forceinline__ void add_products(float (&sum)[M][R], In<T> x, const Packed<T> (&of_w)[R], uint32_t rows, uint32_t inputs,
                                             unsigned k) {
#pragma unroll
    for (int m = 0; m < M; m++) {
        if (m >= static_cast<int>(rows)) continue;
        Eight of_x = load8(x, static_cast<size_t>(m) * inputs + k);
#pragma unroll
        for (int r = 0; r < R; r++) {
            Eight w = unpacked(of_w[r]);
#pragma unroll
            for (int i = 0; i < 8; i++) sum[m][r] += of_x.v[i] * w.v[i];
        }
    }
}

/// Sums of products of `M` rows of x with `R` rows of W, over the warp's share of the inputs; the same in all lanes.
/// `row_of(r)`: where the r-th row of W begins.
template <int M, int R, typename T, typename F>
__device__ __forceinline__ void dots(float (&sum)[M][R], In<T> x, In<T> w, F row_of, uint32_t rows, uint32_t inputs, unsigned part,
                                     unsigned splits, uint32_t wide) {
    unsigned lane = threadIdx.x % kWarp;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int r = 0; r < R; r++) sum[m][r] = 0.0f;
    if (wide) {
        unsigned k = (part * kWarp + lane) * 8, step = splits * kWarp * 8;
        // With few sums, reads of W for several rounds are under way at once.
        constexpr int kAhead = M * R >= 8 ? 1 : M * R >= 4 ? 2 : 4;
        if (kAhead > 1)
            for (; k + (kAhead - 1) * step < inputs; k += kAhead * step) {
                Packed<T> of_w[kAhead][R];
#pragma unroll
                for (int a = 0; a < kAhead; a++)
#pragma unroll
                    for (int r = 0; r < R; r++) of_w[a][r] = load_packed<T>(w, row_of(r) + k + a * step);
#pragma unroll
                for (int a = 0; a < kAhead; a++) add_products<M, R, T>(sum, x, of_w[a], rows, inputs, k + a * step);
            }
#pragma unroll 1
        for (; k < inputs; k += step) {
            Packed<T> of_w[R];
#pragma unroll
            for (int r = 0; r < R; r++) of_w[r] = load_packed<T>(w, row_of(r) + k);
            add_products<M, R, T>(sum, x, of_w, rows, inputs, k);
        }
    } else {
#pragma unroll 1
        for (unsigned k = part * kWarp + lane; k < inputs; k += splits * kWarp)
#pragma unroll
            for (int r = 0; r < R; r++) {
                float of_w = widen(w[row_of(r) + k]);
#pragma unroll
                for (int m = 0; m < M; m++)
                    if (m < static_cast<int>(rows)) sum[m][r] += widen(x[static_cast<size_t>(m) * inputs + k]) * of_w;
            }
    }
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int r = 0; r < R; r++) sum[m][r] = warp_sum(sum[m][r]);
}

/// Adds up what the `splits` warps of each group have; the sums of the first are whole afterwards.
template <int M, int R>
__device__ __forceinline__ void gather_splits(float (&sum)[M][R], unsigned part, unsigned splits) {
    __shared__ float parts[kGemvWarps][M * R];
    if (splits == 1) return;
    unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
#pragma unroll
    for (int i = 0; i < M * R; i++)
        if (static_cast<int>(lane) == i) parts[warp][i] = sum[i / R][i % R];
    __syncthreads();
    if (part != 0) return;
#pragma unroll
    for (int i = 0; i < M * R; i++)
        for (unsigned other = 1; other < splits; other++) sum[i / R][i % R] += parts[warp + other][i];
}
