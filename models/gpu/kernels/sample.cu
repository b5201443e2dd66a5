// The kernels of `sample.cuh`.
#include "sample.cuh"

KERNEL(sample, 512, sample<T>,
       (Out<uint32_t> out, In<T> logits, In<uint32_t> settings, In<uint32_t> generated, In<uint32_t> said, Out<T> rows, In<T> table,
        uint32_t vocab, uint32_t stride, uint32_t keys_at, uint32_t table_rows, uint32_t width, uint32_t wide),
       (out, logits, settings, generated, said, rows, table, vocab, stride, keys_at, table_rows, width, wide))
KERNEL(argmax, 1024, argmax<T>, (Out<uint32_t> out, In<T> logits, uint32_t vocab, uint32_t stride), (out, logits, vocab, stride))
