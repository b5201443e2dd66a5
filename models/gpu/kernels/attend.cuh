// `rotate_and_store` and `attention` fused, for rows that do not see each other's new keys: each block computes its
// queries, and the key and value that they meet. Blocks with the same key head write the same key. Results are
// bit-identical to the two kernels.
#pragma once
#include "attention.cuh"
#include "rope.cuh"

// `out [rows, heads * head_dim]` of rows `[queries | keys | values]`, without splits.
template <int G, typename T>
__device__ void attend(Out<T> out, Out<T> qkv, Out<T> k, Out<T> v, In<float> q_norm, In<float> k_norm, In<float> angles, In<uint32_t> slots,
                       In<uint32_t> table, In<uint32_t> ranges, uint32_t heads, uint32_t kv_heads, uint32_t head_dim, uint32_t capacity,
                       uint32_t kv_stride, uint32_t shift, uint32_t lanes_per_key, uint32_t wide, float eps, float scale) {
    uint32_t row = blockIdx.x, group = heads / kv_heads, parts = group / G, width = (heads + 2 * kv_heads) * head_dim;
    uint32_t kv_head = blockIdx.y / parts, first_head = kv_head * group + blockIdx.y % parts * G, slot = slots[row];
    Out<T> from = qkv + static_cast<size_t>(row) * width;
    In<float> turned = angles + static_cast<size_t>(row) * (head_dim / 2);
    size_t at = static_cast<size_t>(slot) * kv_stride + static_cast<size_t>(kv_head) * head_dim;
    for (unsigned head = threadIdx.x / kWarp; head < G + 2; head += kAttentionThreads / kWarp) {
        if (head < G) {
            Out<T> query = from + (first_head + head) * head_dim;
            normalise_and_rotate<T>(query, query, q_norm, turned, head_dim, eps);
        } else if (slot < capacity && head == G) {
            normalise_and_rotate<T>(k + at, from + (heads + kv_head) * head_dim, k_norm, turned, head_dim, eps);
        } else if (slot < capacity) {
            Out<T> value = from + (heads + kv_heads + kv_head) * head_dim, to = v + at;
            for (unsigned c = threadIdx.x % kWarp; c < head_dim; c += kWarp) to[c] = value[c];
        }
    }
    // The block reads its own writes below.
    __syncthreads();
    attention<G, T>(out, {}, qkv, k, v, table, ranges, heads, kv_heads, head_dim, width, kv_stride, shift, 1, kNone, lanes_per_key, scale, wide);
}
