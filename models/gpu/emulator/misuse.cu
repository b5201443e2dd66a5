// Incorrect kernels, each in one way. The emulator must report each; a device never runs them.
#include "omni.cuh"

__device__ void early_end(uint32_t from) {
    if (threadIdx.x >= from) return;
    __syncthreads();
}
PLAIN_KERNEL(misuse_early_end, 64, early_end, (uint32_t from), (from))

__device__ void two_barriers(uint32_t from) {
    if (threadIdx.x >= from) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}
PLAIN_KERNEL(misuse_two_barriers, 64, two_barriers, (uint32_t from), (from))

__device__ void missing_lanes(uint32_t from) {
    if (threadIdx.x < from) warp_sum(1.0f);
}
PLAIN_KERNEL(misuse_missing_lanes, 64, missing_lanes, (uint32_t from), (from))

__device__ void beyond_shared(uint32_t at) { shared_as<float>()[at] = 1.0f; }
PLAIN_KERNEL(misuse_beyond_shared, 64, beyond_shared, (uint32_t at), (at))

__device__ void beyond_prefetched(In<float> x, uint32_t at) { prefetch(x + at); }
PLAIN_KERNEL(misuse_beyond_prefetched, 64, beyond_prefetched, (In<float> x, uint32_t at), (x, at))

__device__ void not_aligned(Out<float> out, In<float> x, uint32_t at) { out[threadIdx.x] = load8(x, at).v[0]; }
PLAIN_KERNEL(misuse_not_aligned, 64, not_aligned, (Out<float> out, In<float> x, uint32_t at), (out, x, at))

__device__ void missing_barrier(Out<float> out) {
    Shared<float> mine = shared_as<float>();
    mine[threadIdx.x] = static_cast<float>(threadIdx.x);
    out[threadIdx.x] = mine[(threadIdx.x + 1) % blockDim.x];
}
PLAIN_KERNEL(misuse_missing_barrier, 64, missing_barrier, (Out<float> out), (out))

/// `late`: what is read before its copy was waited for. `left`: a copy that is never waited for.
__device__ void copies(Out<float> out, In<float> x, uint32_t late, uint32_t left) {
    Shared<float> mine = shared_as<float>();
    bool copied = threadIdx.x < 16;
    if (copied) copy_async(retyped<Bytes16>(mine + threadIdx.x * 4), retyped<const Bytes16>(x + threadIdx.x * 4), true);
    copies_asked();
    if (!late) wait_copies<0>();
    __syncthreads();
    out[threadIdx.x] = mine[threadIdx.x];
    if (!left) wait_copies<0>();
}
PLAIN_KERNEL(misuse_copies, 64, copies, (Out<float> out, In<float> x, uint32_t late, uint32_t left), (out, x, late, left))
