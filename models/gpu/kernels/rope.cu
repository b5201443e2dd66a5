// The kernels of `rope.cuh`.
#include "rope.cuh"

KERNEL(rotate_and_store, 128, rotate_and_store<T>,
       (Out<T> qkv, Out<T> k, Out<T> v, In<float> q_norm, In<float> k_norm, In<float> angles, In<uint32_t> slots, uint32_t heads,
        uint32_t kv_heads, uint32_t head_dim, uint32_t capacity, float eps),
       (qkv, k, v, q_norm, k_norm, angles, slots, heads, kv_heads, head_dim, capacity, eps))
