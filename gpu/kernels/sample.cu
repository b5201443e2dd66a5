// The kernels of `sample.cuh`.
#include "sample.cuh"

KERNEL(sample, 512, sample<T>,
       (Out<uint32_t> out, In<T> logits, In<uint32_t> settings, In<uint32_t> generated, In<uint32_t> said, uint32_t vocab, uint32_t stride,
        uint32_t keys_at),
       (out, logits, settings, generated, said, vocab, stride, keys_at))
KERNEL(argmax, 1024, argmax<T>, (Out<uint32_t> out, In<T> logits, uint32_t vocab, uint32_t stride), (out, logits, vocab, stride))
