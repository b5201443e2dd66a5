// Counter-based random numbers: Philox-4x32-10. (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.)
#pragma once
#include "omni.cuh"

/// Four words of 32 random bits.
struct Draw {
    uint32_t word[4];
};

__device__ __forceinline__ Draw philox(Draw counter, uint32_t key_low, uint32_t key_high) {
    uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
    for (int round = 0; round < 10; round++) {
        uint32_t high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        uint32_t high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ key_low;
        c1 = low1;
        c2 = high0 ^ c3 ^ key_high;
        c3 = low0;
        key_low += 0x9E3779B9u;
        key_high += 0xBB67AE85u;
    }
    return Draw{{c0, c1, c2, c3}};
}
