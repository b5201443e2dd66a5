// CUDA C++ for a CPU, as far as the kernels use it.
//
// A block runs on one host thread, each of its threads as a fiber that yields at barriers and warp exchanges.
// Undefined behaviour of CUDA is an error here wherever that is cheap to detect: pointers know their buffers' bounds,
// vector accesses must be aligned, all threads must meet a barrier at the same place, and all lanes a warp exchange.
// Shared memory and buffers hold NaNs until written.
#pragma once

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>

#define OMNI_EMULATED 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __align__(bytes) alignas(bytes)
#define __launch_bounds__(...)

namespace emulator {

struct Dim {
    unsigned x, y, z;
};

// Indices of the running thread.
struct Place {
    Dim thread, block, block_size, grid_size;
};

extern thread_local Place place;

// A kernel ran into undefined behaviour.
struct Misuse {
    std::string what;
};

[[noreturn]] void misuse(const char* what, uint64_t address);

// Waits for all threads of the block; `line` is the call's place.
void block_barrier(int line);
// Waits for all lanes of the warp, and returns each lane's value.
const uint64_t* warp_exchange(uint64_t value, int line);

/// A thread's copies of 16 bytes into shared memory: what they write holds NaNs until they are waited for. `from` null: zeros.
void begin_copy(void* to, const void* from);
// Closes a group of the copies begun since the last one.
void end_copy_group();
// Waits for all of the thread's groups except the last `left`.
void wait_copy_groups(size_t left);

struct Bounds {
    char* low;
    char* high;
};

/// The buffer that holds an address.
Bounds bounds_of(uint64_t address);
/// The block's dynamic shared memory.
Bounds shared_memory();

// A pointer with its buffer's bounds.
template <typename T>
struct Checked {
    T* at = nullptr;
    Bounds bounds = {nullptr, nullptr};

    Checked() = default;
    Checked(T* at, Bounds bounds) : at(at), bounds(bounds) {}
    template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T>>>
    Checked(const Checked<U>& other) : at(other.at), bounds(other.bounds) {}

    explicit operator bool() const { return at != nullptr; }

    T* range(size_t index, size_t bytes, size_t alignment) const {
        T* element = at + index;
        auto low = reinterpret_cast<uintptr_t>(bounds.low), high = reinterpret_cast<uintptr_t>(bounds.high);
        auto from = reinterpret_cast<uintptr_t>(element);
        if (from < low || from > high || high - from < bytes) misuse("access outside its buffer", from);
        if (from % alignment != 0) misuse("access that is not aligned", from);
        return element;
    }

    T& operator[](size_t index) const { return *range(index, sizeof(T), alignof(T)); }
    T& operator*() const { return (*this)[0]; }
    Checked operator+(size_t offset) const { return {at + offset, bounds}; }
    Checked& operator+=(size_t offset) {
        at += offset;
        return *this;
    }
};

inline Bounds null_bounds() { return {nullptr, nullptr}; }

template <typename A>
struct Argument;
template <typename T>
struct Argument<Checked<T>> {
    static constexpr char code = 'p';
    static Checked<T> from(uint64_t bits) {
        if (bits == 0) return {};
        return {reinterpret_cast<T*>(bits), bounds_of(bits)};
    }
};
template <>
struct Argument<uint32_t> {
    static constexpr char code = 'u';
    static uint32_t from(uint64_t bits) { return static_cast<uint32_t>(bits); }
};
template <>
struct Argument<float> {
    static constexpr char code = 'f';
    static float from(uint64_t bits) {
        auto low = static_cast<uint32_t>(bits);
        float value;
        memcpy(&value, &low, sizeof value);
        return value;
    }
};

// Table entry of a kernel.
struct Entry {
    const char* name;
    const char* params;
    unsigned threads;
    void* (*bind)(const uint64_t* args);
    void (*run)(const void* bound);
    void (*drop)(void* bound);
    Entry* next;
};

void add(Entry* entry);

template <auto Function>
struct Adapter;
template <typename... A, void (*Function)(A...)>
struct Adapter<Function> {
    using Bound = std::tuple<A...>;
    static constexpr char params[] = {Argument<A>::code..., '\0'};

    static void* bind(const uint64_t* args) { return bind_each(args, std::index_sequence_for<A...>()); }
    static void run(const void* bound) { std::apply(Function, *static_cast<const Bound*>(bound)); }
    static void drop(void* bound) { delete static_cast<Bound*>(bound); }

    template <size_t... I>
    static void* bind_each(const uint64_t* args, std::index_sequence<I...>) {
        return new Bound(Argument<A>::from(args[I])...);
    }
};

struct Registration {
    Entry entry;
    template <auto Function>
    static Entry of(const char* name, unsigned threads) {
        using A = Adapter<Function>;
        return {name, A::params, threads, A::bind, A::run, A::drop, nullptr};
    }
    explicit Registration(Entry e) : entry(e) { add(&entry); }
};

}  // namespace emulator

#define threadIdx (emulator::place.thread)
#define blockIdx (emulator::place.block)
#define blockDim (emulator::place.block_size)
#define gridDim (emulator::place.grid_size)
#define __syncthreads() emulator::block_barrier(__LINE__)
#define __syncwarp() static_cast<void>(emulator::warp_exchange(0, __LINE__))

template <typename V>
V emulated_shuffle(unsigned mask, V value, unsigned from) {
    static_assert(sizeof(V) <= 8);
    if (mask != 0xffffffffu) emulator::misuse("warp exchange of less than a warp", mask);
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    const uint64_t* all = emulator::warp_exchange(bits, 0);
    memcpy(&value, &all[from % 32], sizeof value);
    return value;
}

inline unsigned emulated_lane() { return emulator::place.thread.x % 32; }
template <typename V>
V __shfl_xor_sync(unsigned mask, V value, unsigned lanes) {
    return emulated_shuffle(mask, value, emulated_lane() ^ lanes);
}
template <typename V>
V __shfl_down_sync(unsigned mask, V value, unsigned lanes) {
    unsigned from = emulated_lane() + lanes;
    return emulated_shuffle(mask, value, from < 32 ? from : emulated_lane());
}
template <typename V>
V __shfl_up_sync(unsigned mask, V value, unsigned lanes) {
    unsigned lane = emulated_lane();
    return emulated_shuffle(mask, value, lane < lanes ? lane : lane - lanes);
}
template <typename V>
V __shfl_sync(unsigned mask, V value, unsigned from) {
    return emulated_shuffle(mask, value, from);
}
inline unsigned __ballot_sync(unsigned mask, bool vote) {
    if (mask != 0xffffffffu) emulator::misuse("warp exchange of less than a warp", mask);
    const uint64_t* all = emulator::warp_exchange(vote, -1);
    unsigned votes = 0;
    for (unsigned lane = 0; lane < 32; lane++) votes |= static_cast<unsigned>(all[lane] != 0) << lane;
    return votes;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
// Launches follow one another here.
inline void wait_for_launches_before() {}
template <typename T>
void prefetch(const emulator::Checked<T>& from) {
    from.range(0, sizeof(T), alignof(T));
}

template <typename B>
void copy_async(emulator::Checked<B> to, emulator::Checked<const B> from, bool there) {
    static_assert(sizeof(B) == 16);
    emulator::begin_copy(to.range(0, 16, 16), there ? from.range(0, 16, 16) : nullptr);
}
inline void copies_asked() { emulator::end_copy_group(); }
template <int kLeft>
void wait_copies() {
    emulator::wait_copy_groups(kLeft);
}

using std::isfinite;

template <typename V>
V atomicAdd(V* at, V value) {
    // Other blocks may run concurrently.
    return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}
template <typename V>
V min(V a, V b) {
    return b < a ? b : a;
}
template <typename V>
V max(V a, V b) {
    return a < b ? b : a;
}
inline unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline float __uint_as_float(unsigned bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32); }

/// The upper half of an f32.
struct __nv_bfloat16 {
    uint16_t bits;
};
inline float __bfloat162float(__nv_bfloat16 value) { return __uint_as_float(static_cast<unsigned>(value.bits) << 16); }
/// Rounds to nearest, ties to even.
inline __nv_bfloat16 __float2bfloat16(float value) {
    unsigned bits = __float_as_uint(value);
    if (value != value) return {static_cast<uint16_t>((bits >> 16) | 0x40)};
    return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

template <typename T>
using In = emulator::Checked<const T>;
template <typename T>
using Out = emulator::Checked<T>;
template <typename T>
using Shared = emulator::Checked<T>;

/// The dynamic shared memory of the block as elements of `T`.
template <typename T>
Shared<T> shared_as() {
    auto bounds = emulator::shared_memory();
    return {reinterpret_cast<T*>(bounds.low), bounds};
}
/// A device address that was stored as a number.
template <typename T>
emulator::Checked<T> at_address(uint64_t address) {
    return emulator::Argument<emulator::Checked<T>>::from(address);
}
// A pointer to another element type at the same address.
template <typename U, typename T>
emulator::Checked<U> retyped(emulator::Checked<T> pointer) {
    return {reinterpret_cast<U*>(pointer.at), pointer.bounds};
}

#define OMNI_ENTRY(name, threads, params, call)                                    \
    void name params { call; }                                                     \
    static emulator::Registration registration_of_##name{                          \
        emulator::Registration::of<&name>(#name, threads)};

#include "wmma.hpp"
