// Shared by all kernels: element types, vector loads and stores, sums over warps and blocks.
//
// Every kernel computes in f32 for any types in memory. Sums have a fixed order, and no kernel adds floats
// atomically: a result does not depend on timing nor, up to eight rows, on the other rows of a batch. A block
// consists of whole warps.
#pragma once

#ifndef OMNI_EMULATED

#include <cuda_bf16.h>
#include <mma.h>
#include <stdint.h>

template <typename T>
using In = const T*;
template <typename T>
using Out = T*;
template <typename T>
using Shared = T*;

template <typename T>
__device__ __forceinline__ T* shared_as() {
    extern __shared__ __align__(128) unsigned char omni_shared[];
    return reinterpret_cast<T*>(omni_shared);
}
template <typename T>
__device__ __forceinline__ T* at_address(uint64_t address) {
    return reinterpret_cast<T*>(address);
}
template <typename U, typename T>
__device__ __forceinline__ U* retyped(T* pointer) {
    return reinterpret_cast<U*>(pointer);
}

// Starts a 16-byte copy from device memory to shared memory, zeros unless `there`. See `copies_asked`, `wait_copies`.
template <typename B>
__device__ __forceinline__ void copy_async(B* to, const B* from, bool there) {
    static_assert(sizeof(B) == 16);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(to))), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
}
// Closes a group of the copies started since the last one.
__device__ __forceinline__ void copies_asked() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all of the thread's groups except the last `kLeft`.
template <int kLeft>
__device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// Programmatic dependent launch: in a graph for devices from 9.0 on, the next launch may begin while this one still
// runs, once all blocks have called this.
__device__ __forceinline__ void let_later_launch_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Waits until previous launches are over and their writes visible. Every thread must call this before it accesses
// memory that a launch writes; that then covers earlier launches, too.
__device__ __forceinline__ void wait_for_launches_before() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// Brings 128 bytes that no launch writes into the second-level cache.
template <typename T>
__device__ __forceinline__ void prefetch(const T* from) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

// The second bound is the least residency of a multiprocessor: 128 registers per thread. Without it the compiler
// saves registers and serialises loads that are meant to overlap.
#define OMNI_ENTRY(name, threads, params, call)                                                                                        \
    extern "C" __global__ __launch_bounds__(threads, (threads) > 512 ? 1 : 512 / (threads) < 16 ? 512 / (threads) : 16) void name params { \
        let_later_launch_begin();                                                                                                      \
        call;                                                                                                                          \
    }

#endif

using bf16 = __nv_bfloat16;

// A kernel `name` of template `impl<T>`, once for f32 and once for bf16. `threads`: most threads per block. `params`
// are written in terms of `T`. It begins after previous launches.
#define KERNEL(name, threads, impl, params, args) TYPED_KERNEL(name, threads, wait_for_launches_before(); impl args, params)
// A kernel that begins earlier, with memory that no launch writes, and waits by itself.
#define EARLY_KERNEL(name, threads, impl, params, args) TYPED_KERNEL(name, threads, impl args, params)
#define TYPED_KERNEL(name, threads, body, params)      \
    namespace name##_of_f32 {                          \
    using T = float;                                   \
    OMNI_ENTRY(name##_f32, threads, params, body)      \
    }                                                  \
    namespace name##_of_bf16 {                         \
    using T = bf16;                                    \
    OMNI_ENTRY(name##_bf16, threads, params, body)     \
    }
// Kernels of one type.
#define PLAIN_KERNEL(name, threads, impl, params, args) OMNI_ENTRY(name, threads, params, wait_for_launches_before(); impl args)
#define EARLY_PLAIN_KERNEL(name, threads, impl, params, args) OMNI_ENTRY(name, threads, params, impl args)

constexpr uint32_t kNone = 0xffffffffu;
constexpr unsigned kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ float widen(bf16 value) { return __bfloat162float(value); }

template <typename T>
__device__ __forceinline__ T narrow(float value);
template <>
__device__ __forceinline__ float narrow<float>(float value) {
    return value;
}
template <>
__device__ __forceinline__ bf16 narrow<bf16>(float value) {
    return __float2bfloat16(value);
}

/// 16 bytes, moved at once.
struct __align__(16) Bytes16 {
    uint32_t word[4];
};

/// Eight elements as f32.
struct Eight {
    float v[8];
};

/// Eight elements as they are stored.
template <typename T>
struct Packed {
    Bytes16 part[sizeof(T) / 2];
};

/// Eight elements from `index` on: 16 bytes of bf16 or twice 16 bytes of f32, which must be aligned to 16.
template <typename T>
__device__ __forceinline__ Packed<T> load_packed(In<T> from, size_t index) {
    Packed<T> out;
    In<Bytes16> parts = retyped<const Bytes16>(from + index);
#pragma unroll
    for (unsigned i = 0; i < sizeof(T) / 2; i++) out.part[i] = parts[i];
    return out;
}
__device__ __forceinline__ Eight unpacked(const Packed<float>& packed) {
    Eight out;
#pragma unroll
    for (int i = 0; i < 8; i++) out.v[i] = __uint_as_float(packed.part[i / 4].word[i % 4]);
    return out;
}
__device__ __forceinline__ Eight unpacked(const Packed<bf16>& packed) {
    Eight out;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        out.v[2 * i] = __uint_as_float(packed.part[0].word[i] << 16);
        out.v[2 * i + 1] = __uint_as_float(packed.part[0].word[i] & 0xffff0000u);
    }
    return out;
}
__device__ __forceinline__ Eight load8(In<float> from, size_t index) { return unpacked(load_packed<float>(from, index)); }
__device__ __forceinline__ Eight load8(In<bf16> from, size_t index) { return unpacked(load_packed<bf16>(from, index)); }

__device__ __forceinline__ void store8(Out<float> to, size_t index, const Eight& values) {
    Out<Bytes16> packed = retyped<Bytes16>(to + index);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        Bytes16 bytes;
#pragma unroll
        for (int i = 0; i < 4; i++) bytes.word[i] = __float_as_uint(values.v[half * 4 + i]);
        packed[half] = bytes;
    }
}
/// Eight elements of shared memory, aligned to 16 bytes.
__device__ __forceinline__ Eight read8(Shared<float> from, size_t index) { return unpacked(load_packed<float>(from, index)); }
/// Eight elements that other blocks of this launch have written, see `is_last_block`.
__device__ __forceinline__ Eight load8_of_others(Out<float> from, size_t index) {
#ifdef OMNI_EMULATED
    return load8(In<float>(from), index);
#else
    Packed<float> packed;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint4 four = __ldcg(reinterpret_cast<const uint4*>(from + index) + i);
        packed.part[i] = {four.x, four.y, four.z, four.w};
    }
    return unpacked(packed);
#endif
}
// True in the block that is the last of `blocks` to call this; the others' writes are then visible. `counter` is zero
// before and after.
__device__ __forceinline__ bool is_last_block(Out<uint32_t> counter, uint32_t blocks) {
    __shared__ uint32_t before;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        before = atomicAdd(&counter[0], 1u);
        if (before + 1 == blocks) counter[0] = 0;
    }
    __syncthreads();
    __threadfence();
    return before + 1 == blocks;
}
__device__ __forceinline__ uint32_t bf16_bits(float value) {
    bf16 narrowed = __float2bfloat16(value);
    uint16_t bits;
    memcpy(&bits, &narrowed, sizeof bits);
    return bits;
}
__device__ __forceinline__ void store8(Out<bf16> to, size_t index, const Eight& values) {
    Bytes16 bytes;
#pragma unroll
    for (int i = 0; i < 4; i++) bytes.word[i] = bf16_bits(values.v[2 * i]) | bf16_bits(values.v[2 * i + 1]) << 16;
    *retyped<Bytes16>(to + index) = bytes;
}

// The value that a stored number reads back as.
template <typename T>
__device__ __forceinline__ float rounded(float value) {
    return widen(narrow<T>(value));
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (unsigned lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(kAllLanes, value, lanes);
    return value;
}
__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (unsigned lanes = 16; lanes > 0; lanes /= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, lanes));
    return value;
}

/// The sum over a block of one dimension, for all its threads.
__device__ __forceinline__ float block_sum(float value) {
    __shared__ float parts[kWarp];
    value = warp_sum(value);
    unsigned warps = blockDim.x / kWarp, lane = threadIdx.x % kWarp;
    if (warps == 1) return value;
    if (lane == 0) parts[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = warp_sum(lane < warps ? parts[lane] : 0.0f);
    __syncthreads();
    return value;
}

// `a * b + c`, rounded once on a device, twice in the emulator, whose results are close but not equal.
__device__ __forceinline__ float fused(float a, float b, float c) {
#ifdef OMNI_EMULATED
    return a * b + c;
#else
    return fmaf(a, b, c);
#endif
}
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float silu(float x) { return x * sigmoid(x); }
/// The exact form: `x * P(X <= x)` for a standard normal X.
__device__ __forceinline__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)); }
// Activation by number: 0 none, 1 SiLU, 2 GELU.
__device__ __forceinline__ float activated(uint32_t activation, float x) {
    return activation == 1 ? silu(x) : activation == 2 ? gelu(x) : x;
}
__device__ __forceinline__ float snaked(float x, float a, float b) {
    float s = sinf(x * a);
    return x + s * s * b;
}
