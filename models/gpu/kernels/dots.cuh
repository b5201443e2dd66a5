// Products of a few rows with rows of a matrix, by a warp or by several.
#pragma once
#include "omni.cuh"

constexpr unsigned kGemvWarps = 4;

/// Eight weights of a norm from `index` on; without a norm, nothing that is used.
template <bool kNormed>
__device__ __forceinline__ Packed<float> load_norm(In<float> norm, size_t index) {
    if (kNormed) return load_packed<float>(norm, index);
    return {};
}

// Sums of products of `M` rows of x with `R` rows of W, over the warp's share of the inputs; equal in all lanes.
// `row_of(r)`: start of the r-th row of W. With a norm, x's columns are weighted by it, and `squares` are the sums of
// squares of x's rows. The first rows of W are loaded before previous launches are over.
template <int M, int R, bool kNormed, typename T, typename F>
__device__ __forceinline__ void dots(float (&sum)[M][R], float (&squares)[M], In<T> x, In<T> w, In<float> norm, F row_of, uint32_t rows,
                                     uint32_t inputs, unsigned part, unsigned splits, uint32_t wide) {
    unsigned lane = threadIdx.x % kWarp;
#pragma unroll
    for (int m = 0; m < M; m++) {
        squares[m] = 0.0f;
#pragma unroll
        for (int r = 0; r < R; r++) sum[m][r] = 0.0f;
    }
    // Rows of x beyond the last repeat it, and their sums are dropped: unconditional loads overlap.
    auto x_at = [&](int m) { return static_cast<size_t>(min(static_cast<uint32_t>(m), rows - 1)) * inputs; };
    if (wide) {
        // With few sums, loads of several rounds overlap.
        constexpr int kAhead = M * R >= 8 ? 1 : M * R >= 4 ? 2 : 4;
        unsigned step = splits * kWarp * 8;
        Packed<T> of_w[kAhead][R];
        // Rounds beyond the end are zeros.
        auto ask_for_w = [&](unsigned k) {
#pragma unroll
            for (int a = 0; a < kAhead; a++) {
                unsigned at = k + a * step;
#pragma unroll
                for (int r = 0; r < R; r++) of_w[a][r] = at < inputs ? load_packed<T>(w, row_of(r) + at) : Packed<T>{};
            }
        };
        unsigned k = (part * kWarp + lane) * 8;
        if (kAhead > 1) {
            ask_for_w(k);
        } else if (k < inputs) {
            // With many sums there are no registers for prefetching a round.
#pragma unroll
            for (int r = 0; r < R; r++) prefetch(w + (row_of(r) + k));
        }
        wait_for_launches_before();
#pragma unroll 1
        while (k < inputs) {
            if (kAhead == 1) ask_for_w(k);
            Packed<T> of_x[kAhead][M];
            Packed<float> of_norm[kAhead];
#pragma unroll
            for (int a = 0; a < kAhead; a++) {
                unsigned at = k + a * step;
                bool there = a == 0 || at < inputs;
#pragma unroll
                for (int m = 0; m < M; m++) of_x[a][m] = there ? load_packed<T>(x, x_at(m) + at) : Packed<T>{};
                of_norm[a] = there ? load_norm<kNormed>(norm, at) : Packed<float>{};
            }
#pragma unroll
            for (int a = 0; a < kAhead; a++)
#pragma unroll
                for (int m = 0; m < M; m++) {
                    Eight v = unpacked(of_x[a][m]);
                    if (kNormed) {
                        Eight by = unpacked(of_norm[a]);
#pragma unroll
                        for (int i = 0; i < 8; i++) {
                            squares[m] += v.v[i] * v.v[i];
                            v.v[i] *= by.v[i];
                        }
                    }
#pragma unroll
                    for (int r = 0; r < R; r++) {
                        Eight by = unpacked(of_w[a][r]);
#pragma unroll
                        for (int i = 0; i < 8; i++) sum[m][r] += v.v[i] * by.v[i];
                    }
                }
            k += kAhead * step;
            if (kAhead > 1) ask_for_w(k);
        }
    } else {
        wait_for_launches_before();
#pragma unroll 1
        for (unsigned k = part * kWarp + lane; k < inputs; k += splits * kWarp)
#pragma unroll
            for (int m = 0; m < M; m++) {
                float v = widen(x[x_at(m) + k]);
                if (kNormed) {
                    squares[m] += v * v;
                    v *= norm[k];
                }
#pragma unroll
                for (int r = 0; r < R; r++) sum[m][r] += v * widen(w[row_of(r) + k]);
            }
    }
#pragma unroll
    for (int m = 0; m < M; m++) {
        if (kNormed) squares[m] = warp_sum(squares[m]);
#pragma unroll
        for (int r = 0; r < R; r++) sum[m][r] = warp_sum(sum[m][r]);
    }
}

// Adds up the sums of the `splits` warps of each group; the totals are in the first warp.
template <int M, int R, bool kNormed>
__device__ __forceinline__ void gather_splits(float (&sum)[M][R], float (&squares)[M], unsigned part, unsigned splits) {
    constexpr int kSums = M * R, kAll = kSums + (kNormed ? M : 0);
    __shared__ float parts[kGemvWarps][kAll];
    if (splits == 1) return;
    unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
#pragma unroll
    for (int i = 0; i < kAll; i++)
        if (static_cast<int>(lane) == i % static_cast<int>(kWarp)) parts[warp][i] = i < kSums ? sum[i / R % M][i % R] : squares[i % M];
    __syncthreads();
    if (part != 0) return;
    for (unsigned other = 1; other < splits; other++) {
#pragma unroll
        for (int i = 0; i < kSums; i++) sum[i / R][i % R] += parts[warp + other][i];
#pragma unroll
        for (int m = 0; m < M; m++)
            if (kNormed) squares[m] += parts[warp + other][kSums + m];
    }
}

// Factor from the sums of a row with sum of squares `squares` to those of the normalised row.
template <int M, int R>
__device__ __forceinline__ void normalise_sums(float (&sum)[M][R], const float (&squares)[M], uint32_t inputs, float eps) {
#pragma unroll
    for (int m = 0; m < M; m++) {
        float factor = 1.0f / sqrtf(squares[m] / static_cast<float>(inputs) + eps);
#pragma unroll
        for (int r = 0; r < R; r++) sum[m][r] *= factor;
    }
}
