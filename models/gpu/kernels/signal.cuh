// Signal of a row.
#pragma once
#include "omni.cuh"

/// The last signal that begins at or before `row`, rows having `keep` rows of past before each signal if `padded`.
__device__ __forceinline__ uint32_t find_signal(In<uint32_t> from, uint32_t signals, uint32_t keep, uint32_t row) {
    uint32_t low = 0, high = signals;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (from[middle] + middle * keep <= row) low = middle;
        else high = middle;
    }
    return low;
}
/// The signal of a row of x. Empty signals have none.
__device__ __forceinline__ uint32_t signal_of(In<uint32_t> from, uint32_t signals, uint32_t row) {
    return find_signal(from, signals, 0, row);
}
/// The signal of a row of the padded signals.
__device__ __forceinline__ uint32_t signal_of_padded(In<uint32_t> from, uint32_t signals, uint32_t keep, uint32_t row) {
    return find_signal(from, signals, keep, row);
}
