// Random weights, generated on the device instead of uploaded.
#include "philox.cuh"

/// `out[i] = (2 h + 1 - 2^16) * step`, rounded to bf16 whatever T is; h is the `i mod 8`-th half word of Philox of counter
/// (i / 8, tensor, 0) and the seed as key. Eight elements at a time per thread. Writes each element once.
template <typename T>
__device__ void uniform_numbers(Out<T> out, uint32_t count, uint32_t seed_low, uint32_t seed_high, uint32_t tensor_low,
                                uint32_t tensor_high, float step, uint32_t wide) {
    uint32_t stride = gridDim.x * blockDim.x, eights = count / 8 + (count % 8 != 0);
    for (uint32_t eight = blockIdx.x * blockDim.x + threadIdx.x; eight < eights; eight += stride) {
        Draw draw = philox(Draw{{eight, tensor_low, tensor_high, 0}}, seed_low, seed_high);
        Eight values;
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            uint32_t half = draw.word[i / 2] >> (16 * (i % 2)) & 0xffffu;
            // Integers of 17 bits: the product is rounded once, fused or not.
            float whole = static_cast<float>(static_cast<int32_t>(2 * half + 1) - 65536);
            values.v[i] = widen(narrow<bf16>(whole * step));
        }
        size_t at = static_cast<size_t>(eight) * 8;
        if (wide) {
            store8(out, at, values);
        } else {
            for (unsigned i = 0; i < 8 && at + i < count; i++) out[at + i] = narrow<T>(values.v[i]);
        }
    }
}
KERNEL(uniform_numbers, 256, uniform_numbers<T>,
       (Out<T> out, uint32_t count, uint32_t seed_low, uint32_t seed_high, uint32_t tensor_low, uint32_t tensor_high, float step,
        uint32_t wide),
       (out, count, seed_low, seed_high, tensor_low, tensor_high, step, wide))
