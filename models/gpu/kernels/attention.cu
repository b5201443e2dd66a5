// The kernels of `attention.cuh`.
#include "attention.cuh"

#define ATTENTION(name, G)                                                                                                        \
    KERNEL(name, 128, (attention<G, T>),                                                                                          \
           (Out<T> out, Out<float> partial, In<T> q, In<T> k, In<T> v, In<uint32_t> table, In<uint32_t> ranges, uint32_t heads,   \
            uint32_t kv_heads, uint32_t head_dim, uint32_t q_stride, uint32_t kv_stride, uint32_t shift, uint32_t splits,         \
            uint32_t part, uint32_t lanes_per_key, float scale, uint32_t wide),                                                                  \
           (out, partial, q, k, v, table, ranges, heads, kv_heads, head_dim, q_stride, kv_stride, shift, splits, part,            \
            lanes_per_key, scale, wide))
ATTENTION(attention_1, 1)
ATTENTION(attention_2, 2)
ATTENTION(attention_4, 4)
KERNEL(attention_merge, 128, attention_merge<T>, (Out<T> out, In<float> partial, uint32_t head_dim, uint32_t splits),
       (out, partial, head_dim, splits))
