// The kernels of `attend.cuh`.
#include "attend.cuh"

#define ATTEND(name, G)                                                                                                           \
    KERNEL(name, 128, (attend<G, T>),                                                                                             \
           (Out<T> out, Out<T> qkv, Out<T> k, Out<T> v, In<float> q_norm, In<float> k_norm, In<float> angles, In<uint32_t> slots, \
            In<uint32_t> table, In<uint32_t> ranges, uint32_t heads, uint32_t kv_heads, uint32_t head_dim, uint32_t capacity,     \
            uint32_t kv_stride, uint32_t shift, uint32_t lanes_per_key, uint32_t wide, float eps, float scale),                   \
           (out, qkv, k, v, q_norm, k_norm, angles, slots, table, ranges, heads, kv_heads, head_dim, capacity, kv_stride, shift,  \
            lanes_per_key, wide, eps, scale))
ATTEND(attend_1, 1)
ATTEND(attend_2, 2)
ATTEND(attend_4, 4)
