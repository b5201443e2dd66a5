// From projections to attention in one pass: norms of query and key heads, rotations, and storing new keys and values
// in the cache.
#pragma once
#include "omni.cuh"

// A warp's head: `v / rms(v) * norm` if there is a norm, then its two halves rotated against each other by `angles`.
// Writes to `to`, which may be its input.
template <typename T>
__device__ __forceinline__ void normalise_and_rotate(Out<T> to, In<T> from, In<float> norm, In<float> angles, uint32_t head_dim, float eps) {
    // Heads are at most 256 wide: at most four pairs per lane.
    unsigned lane = threadIdx.x % kWarp, half = head_dim / 2;
    float low[4], high[4], angle[4], low_norm[4], high_norm[4], squares = 0.0f;
    // All loads are issued before the first use.
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        unsigned c = lane + i * kWarp;
        bool there = c < half;
        low[i] = there ? widen(from[c]) : 0.0f;
        high[i] = there ? widen(from[c + half]) : 0.0f;
        angle[i] = there ? angles[c] : 0.0f;
        low_norm[i] = there && norm ? norm[c] : 1.0f;
        high_norm[i] = there && norm ? norm[c + half] : 1.0f;
    }
#pragma unroll
    for (unsigned i = 0; i < 4; i++) squares += low[i] * low[i] + high[i] * high[i];
    float factor = 1.0f;
    if (norm) factor = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(head_dim) + eps);
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        unsigned c = lane + i * kWarp;
        if (c >= half) continue;
        if (norm) {
            low[i] *= factor * low_norm[i];
            high[i] *= factor * high_norm[i];
        }
        float sine = sinf(angle[i]), cosine = cosf(angle[i]);
        to[c] = narrow<T>(low[i] * cosine - high[i] * sine);
        to[c + half] = narrow<T>(high[i] * cosine + low[i] * sine);
    }
}

// Rows `[queries | keys | values]`: query heads are normalised and rotated in place, key heads normalised, rotated
// and stored in row `slots[row]` of `k`, value heads in that of `v`. Without a slot only the queries are computed.
// One warp per head. Reads and writes each element once; keys and values in qkv stay unchanged.
template <typename T>
__device__ void rotate_and_store(Out<T> qkv, Out<T> k, Out<T> v, In<float> q_norm, In<float> k_norm, In<float> angles, In<uint32_t> slots,
                                 uint32_t heads, uint32_t kv_heads, uint32_t head_dim, uint32_t capacity, float eps) {
    unsigned head = blockIdx.y * (blockDim.x / kWarp) + threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    uint32_t row = blockIdx.x, all = heads + 2 * kv_heads;
    if (head >= all) return;
    Out<T> from = qkv + (static_cast<size_t>(row) * all + head) * head_dim;
    angles = angles + static_cast<size_t>(row) * (head_dim / 2);
    if (head < heads) {
        normalise_and_rotate<T>(from, from, q_norm, angles, head_dim, eps);
        return;
    }
    uint32_t slot = slots[row];
    if (slot >= capacity) return;
    size_t at = static_cast<size_t>(slot) * kv_heads * head_dim;
    if (head < heads + kv_heads) {
        normalise_and_rotate<T>(k + (at + (head - heads) * head_dim), from, k_norm, angles, head_dim, eps);
        return;
    }
    Out<T> to = v + (at + (head - heads - kv_heads) * head_dim);
    for (unsigned c = lane; c < head_dim; c += kWarp) to[c] = from[c];
}
