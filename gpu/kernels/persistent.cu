// Launches that follow one another, as one: blocks that all run at once work through a list of launches and meet after each of them, where
// otherwise one grid would end and another begin. Each block of a launch in the list runs as it would alone, so results are the same to the
// bit.
//
// The blocks must all be resident (a cooperative launch): those that have arrived wait for the others. Weights of a later launch are asked
// for into the second-level cache while an earlier one runs, so that the memory works through the meetings, too.
#include "omni.cuh"
#include "draw.cuh"

#ifndef OMNI_EMULATED
// What the bodies below read is set by `begin_block`. Inside this launch they wait for no other.
__device__ __forceinline__ unsigned resident_block() { return blockIdx.x; }
__shared__ uint3 listed_block;
#define blockIdx listed_block
#define wait_for_launches_before() static_cast<void>(0)
#endif
#include "attend.cuh"
#include "gather.cuh"
#include "gemv.cuh"
#include "sample.cuh"
#ifndef OMNI_EMULATED
#undef wait_for_launches_before
#undef blockIdx
#endif

/// As `Persistent` in `src/kernels/persistent.rs`: what to run, blocks (x and y in one word, z), what to ask for ahead (address, bytes),
/// then arguments as a launch has them.
constexpr unsigned kListedWords = 32, kListedGrid = 1, kListedAhead = 3, kListedArgs = 8;
constexpr unsigned kPersistentThreads = 128;

#ifdef OMNI_EMULATED
inline unsigned resident_block() { return blockIdx.x; }
/// Which block of the listed launch comes next. All threads of a block say the same.
inline void begin_block(unsigned x, unsigned y, unsigned z) { emulator::place.block = {x, y, z}; }
template <typename A>
A given(uint64_t bits) {
    return emulator::Argument<A>::from(bits);
}
#else
__device__ __forceinline__ void begin_block(unsigned x, unsigned y, unsigned z) {
    if (threadIdx.x == 0) listed_block = make_uint3(x, y, z);
    __syncthreads();
}
template <typename A>
struct Given {
    static __device__ __forceinline__ A of(uint64_t bits) { return reinterpret_cast<A>(bits); }
};
template <>
struct Given<uint32_t> {
    static __device__ __forceinline__ uint32_t of(uint64_t bits) { return static_cast<uint32_t>(bits); }
};
template <>
struct Given<float> {
    static __device__ __forceinline__ float of(uint64_t bits) { return __uint_as_float(static_cast<uint32_t>(bits)); }
};
template <typename A>
__device__ __forceinline__ A given(uint64_t bits) {
    return Given<A>::of(bits);
}
#endif

/// The numbers from 0 on, so many.
template <unsigned... I>
struct Numbers {};
template <unsigned N, unsigned... I>
struct NumbersTo : NumbersTo<N - 1, N - 1, I...> {};
template <unsigned... I>
struct NumbersTo<0, I...> {
    using All = Numbers<I...>;
};

/// A body, called with arguments that stand in a list.
template <auto kBody>
struct Listed;
template <typename... A, void (*kBody)(A...)>
struct Listed<kBody> {
    template <unsigned... I>
    static __device__ __forceinline__ void each(const uint64_t* args, Numbers<I...>) {
        kBody(given<A>(args[I])...);
    }
    static __device__ __forceinline__ void run(const uint64_t* args) { each(args, typename NumbersTo<sizeof...(A)>::All()); }
};

/// The kernels that can stand in the list, as `KINDS` in `src/kernels/persistent.rs`.
template <typename T>
__device__ __forceinline__ void run_listed(uint32_t kind, const uint64_t* args) {
    switch (kind) {
        case 0: return Listed<&gemv<1, 1, false, T>>::run(args);
        case 1: return Listed<&gemv<2, 2, false, T>>::run(args);
        case 2: return Listed<&gemv<4, 2, false, T>>::run(args);
        case 3: return Listed<&gemv<8, 4, false, T>>::run(args);
        case 4: return Listed<&gemv<1, 1, true, T>>::run(args);
        case 5: return Listed<&gemv<2, 2, true, T>>::run(args);
        case 6: return Listed<&gemv<4, 2, true, T>>::run(args);
        case 7: return Listed<&gemv<8, 4, true, T>>::run(args);
        case 8: return Listed<&gated<1, 1, true, T>>::run(args);
        case 9: return Listed<&gated<2, 1, true, T>>::run(args);
        case 10: return Listed<&gated<4, 1, true, T>>::run(args);
        case 11: return Listed<&gated<8, 2, true, T>>::run(args);
        case 12: return Listed<&rotate_and_store<T>>::run(args);
        case 13: return Listed<&attention<1, T>>::run(args);
        case 14: return Listed<&attention<2, T>>::run(args);
        case 15: return Listed<&attention<4, T>>::run(args);
        case 16: return Listed<&sample<T>>::run(args);
        case 17: return Listed<&gather<T>>::run(args);
        case 18: return Listed<&attend<1, T>>::run(args);
        case 19: return Listed<&attend<2, T>>::run(args);
        case 20: return Listed<&attend<4, T>>::run(args);
        default: return;
    }
}

/// `met`: zero before and after. Waits until all blocks have come here `times` times; what they wrote before can be read then.
__device__ __forceinline__ void meet(Out<uint32_t> met, uint32_t times, uint32_t blocks) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&met[0], 1u);
        wait_for_word(met, times * blocks);
        __threadfence();
    }
    __syncthreads();
}

/// Runs the `count` launches that `program` lists.
template <typename T>
__device__ void persistent(In<uint64_t> program, Out<uint32_t> met, uint32_t count) {
    __shared__ uint64_t listed[2][kListedWords];
    unsigned blocks = gridDim.x, me = resident_block();
    if (threadIdx.x < kListedWords) listed[0][threadIdx.x] = program[threadIdx.x];
    __syncthreads();
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t* now = listed[i % 2];
        // The next is fetched while this one runs.
        if (i + 1 < count && threadIdx.x < kListedWords)
            listed[(i + 1) % 2][threadIdx.x] = program[static_cast<size_t>(i + 1) * kListedWords + threadIdx.x];
        uint64_t ahead = now[kListedAhead + 1];
        for (uint64_t at = (static_cast<uint64_t>(me) * kPersistentThreads + threadIdx.x) * 128; at < ahead; at += static_cast<uint64_t>(blocks) * kPersistentThreads * 128)
            prefetch(at_address<const unsigned char>(now[kListedAhead]) + at);
        uint32_t x = static_cast<uint32_t>(now[kListedGrid]), y = static_cast<uint32_t>(now[kListedGrid] >> 32);
        uint32_t all = x * y * static_cast<uint32_t>(now[kListedGrid + 1]);
        for (uint32_t block = me; block < all; block += blocks) {
            begin_block(block % x, block / x % y, block / x / y);
            run_listed<T>(static_cast<uint32_t>(now[0]), now + kListedArgs);
            // Shared memory is the next block's.
            __syncthreads();
        }
        if (i + 1 < count) meet(met, i + 1, blocks);
    }
    if (threadIdx.x == 0 && atomicAdd(&met[0], 1u) + 1 == count * blocks) met[0] = 0;
}

// No launch begins before this one is over, and this one begins when those before it are.
#ifdef OMNI_EMULATED
#define PERSISTENT_OF(name, T)                                                                               \
    void name(In<uint64_t> program, Out<uint32_t> met, uint32_t count) { persistent<T>(program, met, count); } \
    static emulator::Registration registration_of_##name{emulator::Registration::of<&name>(#name, kPersistentThreads)};
#else
#define PERSISTENT_OF(name, T)                                                            \
    extern "C" __global__ __launch_bounds__(kPersistentThreads, 3) void name(          \
        In<uint64_t> program, Out<uint32_t> met, uint32_t count) {                     \
        persistent<T>(program, met, count);                                            \
    }
#endif
#define PERSISTENT(name, f32, half) PERSISTENT_OF(name##_f32, f32) PERSISTENT_OF(name##_bf16, half)
PERSISTENT(persistent, float, bf16)
