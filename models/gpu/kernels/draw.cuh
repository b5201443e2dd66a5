// Shared by all sampling kernels: an order of floats, random numbers, votes and a block's maximum.
#pragma once
#include "philox.cuh"

// Bits that, as unsigned numbers, sort like the floats in IEEE 754's totalOrder.
__device__ __forceinline__ uint32_t ordered(float value) {
    uint32_t bits = __float_as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float unordered(uint32_t bits) {
    return __uint_as_float(bits & 0x80000000u ? bits ^ 0x80000000u : ~bits);
}

/// A number in [0, 1) with 24 random bits, of counter (step, group, 0, 0) and the seed as key.
__device__ __forceinline__ float uniform(uint32_t seed_low, uint32_t seed_high, uint32_t step, uint32_t group) {
    return static_cast<float>(philox(Draw{{step, group, 0, 0}}, seed_low, seed_high).word[0] >> 8) / 16777216.0f;
}

// True if any thread votes true.
__device__ __forceinline__ bool block_any(bool vote) {
    __shared__ uint32_t any;
    if (threadIdx.x == 0) any = 0;
    __syncthreads();
    if (vote) any = 1;
    __syncthreads();
    bool result = any != 0;
    __syncthreads();
    return result;
}

// Index of the block's largest value, the first of equals; `value` and `index` are each thread's own best.
__device__ __forceinline__ uint32_t block_argmax(float value, uint32_t index) {
    __shared__ float values[kWarp];
    __shared__ uint32_t indices[kWarp];
    for (int round = 0; round < 2; round++) {
#pragma unroll
        for (unsigned lanes = 16; lanes > 0; lanes /= 2) {
            float other = __shfl_xor_sync(kAllLanes, value, lanes);
            uint32_t other_index = __shfl_xor_sync(kAllLanes, index, lanes);
            if (other > value || (other == value && other_index < index)) {
                value = other;
                index = other_index;
            }
        }
        unsigned warps = blockDim.x / kWarp, lane = threadIdx.x % kWarp;
        if (round == 1 || warps == 1) break;
        if (lane == 0) {
            values[threadIdx.x / kWarp] = value;
            indices[threadIdx.x / kWarp] = index;
        }
        __syncthreads();
        value = lane < warps ? values[lane] : -INFINITY;
        index = lane < warps ? indices[lane] : kNone;
    }
    __syncthreads();
    return index;
}
