// Attention of rows over keys that lie anywhere: in the slots of a paged cache, or side by side.
//
// A block has a query row, a key head with G of its query heads, and one of `splits` parts of the row's keys, `part` keys each. L neighbouring lanes
// have a key together, eight elements each, so that a bf16 key of 128 is read as 256 neighbouring bytes; the block's other lanes have
// other keys. Asynchronous copies load keys and values two stages of rounds ahead: what is under way takes shared memory and no
// registers, so that blocks with four heads wait as seldom as those with one. Every group of lanes makes all scores of a stage, then
// moves its running maximum, sum and weighted sum of values of each head (Milakov, Gimelshein, "Online normalizer calculation for
// softmax", 2018); the groups' results are put together in shared memory at the end. Reads each key and value of the row once per G query heads: 4 * keys *
// head_dim bytes for bf16.
//
// A head's result is the same to the bit whatever G is: sums that the compiler could fuse in two ways are written as they shall be fused.
#pragma once
#include "omni.cuh"

constexpr unsigned kAttentionThreads = 128;

// Location of a row's keys: keys `from .. to`, key i in row `(table[begin + (i >> shift)] << shift) + (i & mask)` of
// the cache; without a table in row `begin + i`.
struct Keys {
    uint32_t begin, from, to;
};

// Rounds of keys that a thread copies and processes together (a stage), and stages in flight: 32 KiB, as `SHARED` in
// `src/kernels/attention.rs`.
template <typename T>
constexpr uint32_t kRounds = 8 / sizeof(T);
constexpr uint32_t kStages = 2;

// Eight elements, of which only the first `count` exist.
template <typename T>
__device__ __forceinline__ Packed<T> load_some(In<T> from, size_t index, unsigned count, uint32_t wide) {
    if (wide) return load_packed<T>(from, index);
    T one[8];
    for (unsigned i = 0; i < 8; i++) one[i] = i < count ? from[index + i] : narrow<T>(0.0f);
    Packed<T> out;
    memcpy(&out, one, sizeof out);
    return out;
}
// Copies eight elements, of which only the first `count` exist, to where the thread reads them with `read_copied`;
// zeros unless `there`.
template <typename T>
__device__ __forceinline__ void copy_some(Shared<Bytes16> to, In<T> from, size_t index, unsigned count, uint32_t wide, bool there) {
    constexpr unsigned kEach = 16 / sizeof(T);
    if (wide) {
#pragma unroll
        for (unsigned i = 0; i < 8 / kEach; i++)
            copy_async(to + i * kAttentionThreads, retyped<const Bytes16>(from + (there ? index : 0)) + i, there);
    } else {
#pragma unroll 1
        for (unsigned i = 0; i < 8; i++)
            retyped<T>(to + i / kEach * kAttentionThreads)[i % kEach] = there && i < count ? from[index + i] : narrow<T>(0.0f);
    }
}
template <typename T>
__device__ __forceinline__ Eight read_copied(Shared<Bytes16> from) {
    Packed<T> packed;
#pragma unroll
    for (unsigned i = 0; i < sizeof(T) / 2; i++) packed.part[i] = from[i * kAttentionThreads];
    return unpacked(packed);
}

// `out [rows, heads * head_dim]`. With one split it is the result; with more, `partial [rows, heads, splits, head_dim
// + 2]` gets each part's weighted sum, maximum and sum, which `attention_merge` combines. A row without keys gives
// zeros.
template <int G, typename T>
__device__ void attention(Out<T> out, Out<float> partial, In<T> q, In<T> k, In<T> v, In<uint32_t> table, In<uint32_t> ranges,
                          uint32_t heads, uint32_t kv_heads, uint32_t head_dim, uint32_t q_stride, uint32_t kv_stride, uint32_t shift,
                          uint32_t splits, uint32_t part, uint32_t lanes_per_key, float scale, uint32_t wide) {
    uint32_t row = blockIdx.x, group = heads / kv_heads, parts = group / G;
    uint32_t kv_head = blockIdx.y / parts, first_head = kv_head * group + blockIdx.y % parts * G;
    unsigned lane = threadIdx.x % lanes_per_key, lane_group = threadIdx.x / lanes_per_key;
    unsigned groups = kAttentionThreads / lanes_per_key;
    uint32_t dim = lane * 8;
    bool has_dims = dim < head_dim;

    Keys keys = {ranges[3 * row], ranges[3 * row + 1], ranges[3 * row + 2]};
    uint32_t count = keys.to - keys.from;
    uint32_t begin = min(blockIdx.z * part, count), end = min(begin + part, count);

    Eight query[G], sum[G];
    float largest[G], total[G];
#pragma unroll
    for (int g = 0; g < G; g++) {
        query[g] = sum[g] = Eight{};
        largest[g] = -INFINITY;
        total[g] = 0.0f;
        size_t at = static_cast<size_t>(row) * q_stride + static_cast<size_t>(first_head + g) * head_dim + dim;
        if (has_dims) query[g] = unpacked(load_some<T>(q, at, head_dim - dim, wide));
#pragma unroll
        for (int i = 0; i < 8; i++) query[g].v[i] *= scale;
    }
    // A thread reads only its own copies, so no barrier is needed until the groups are combined.
    constexpr uint32_t kPacks = sizeof(T) / 2, kStage = 2 * kRounds<T> * kPacks * kAttentionThreads;
    Shared<Bytes16> ring = shared_as<Bytes16>() + threadIdx.x;
    uint32_t step = kRounds<T> * groups;
    auto find = [&](uint32_t (&slot)[kRounds<T>], uint32_t at) {
#pragma unroll
        for (uint32_t a = 0; a < kRounds<T>; a++) {
            uint32_t key = keys.from + min(at + a * groups + lane_group, end - 1);
            slot[a] = keys.begin + key;
            if (table) slot[a] = (table[keys.begin + (key >> shift)] << shift) + (key & ((1u << shift) - 1));
        }
    };
    auto issue = [&](Shared<Bytes16> to, const uint32_t (&slot)[kRounds<T>], uint32_t at) {
#pragma unroll
        for (uint32_t a = 0; a < kRounds<T>; a++) {
            size_t from = static_cast<size_t>(slot[a]) * kv_stride + static_cast<size_t>(kv_head) * head_dim + dim;
            bool there = has_dims && at + a * groups + lane_group < end;
            copy_some<T>(to + 2 * a * kPacks * kAttentionThreads, k, from, head_dim - dim, wide, there);
            copy_some<T>(to + (2 * a + 1) * kPacks * kAttentionThreads, v, from, head_dim - dim, wide, there);
        }
    };
    uint32_t slot[kRounds<T>], later[kRounds<T>];
    if (begin < end) {
        // A context without a second stage issues it, too, as zeros that are not read: a branch here costs
        // registers.
        find(slot, begin);
        find(later, begin + step);
        issue(ring, slot, begin);
        copies_asked();
        issue(ring + kStage, later, begin + step);
        copies_asked();
        find(slot, begin + kStages * step);
    }
    static_assert(kStages == 2);
    bool odd = false;
    // Lanes of a warp loop together, because they exchange sums.
#pragma unroll 1
    for (uint32_t at = begin; at < end; at += step) {
        Shared<Bytes16> stage = ring + (odd ? kStage : 0);
        wait_copies<kStages - 1>();
        float score[kRounds<T>][G];
#pragma unroll
        for (uint32_t a = 0; a < kRounds<T>; a++) {
            Eight key = read_copied<T>(stage + 2 * a * kPacks * kAttentionThreads);
#pragma unroll
            for (int g = 0; g < G; g++) {
                score[a][g] = 0.0f;
#pragma unroll
                for (int i = 0; i < 8; i++) score[a][g] = fused(query[g].v[i], key.v[i], score[a][g]);
            }
        }
        for (unsigned other = lanes_per_key / 2; other > 0; other /= 2) {
#pragma unroll
            for (uint32_t a = 0; a < kRounds<T>; a++)
#pragma unroll
                for (int g = 0; g < G; g++) score[a][g] += __shfl_xor_sync(kAllLanes, score[a][g], other);
        }
#pragma unroll
        for (int g = 0; g < G; g++) {
            float larger = largest[g];
#pragma unroll
            for (uint32_t a = 0; a < kRounds<T>; a++) {
                if (at + a * groups + lane_group >= end) score[a][g] = -INFINITY;
                larger = fmaxf(larger, score[a][g]);
            }
            // A group of lanes without keys so far has a sum of zero.
            float base = larger == -INFINITY ? 0.0f : larger, shrink = expf(largest[g] - base);
            largest[g] = larger;
            float weights = 0.0f;
#pragma unroll
            for (int i = 0; i < 8; i++) sum[g].v[i] *= shrink;
#pragma unroll
            for (uint32_t a = 0; a < kRounds<T>; a++) {
                score[a][g] = expf(score[a][g] - base);
                weights += score[a][g];
            }
            total[g] = fused(total[g], shrink, weights);
        }
#pragma unroll
        for (uint32_t a = 0; a < kRounds<T>; a++) {
            Eight value = read_copied<T>(stage + (2 * a + 1) * kPacks * kAttentionThreads);
#pragma unroll
            for (int g = 0; g < G; g++)
#pragma unroll
                for (int i = 0; i < 8; i++) sum[g].v[i] = fused(score[a][g], value.v[i], sum[g].v[i]);
        }
        if (at + kStages * step < end) {
            issue(stage, slot, at + kStages * step);
            find(slot, at + (kStages + 1) * step);
        }
        copies_asked();
        odd = !odd;
    }
    wait_copies<0>();
    // The memory below may still be read by other threads.
    __syncthreads();

    // [groups][G] maxima and sums, then [groups][G][lanes_per_key * 8] weighted sums.
    Shared<float> maxima = shared_as<float>();
    unsigned width = lanes_per_key * 8;
    Shared<float> sums = maxima + 2 * groups * G;
#pragma unroll
    for (int g = 0; g < G; g++) {
        unsigned place = lane_group * G + g;
        if (lane == 0) {
            maxima[2 * place] = largest[g];
            maxima[2 * place + 1] = total[g];
        }
#pragma unroll
        for (int i = 0; i < 8; i++) sums[place * width + dim + i] = sum[g].v[i];
    }
    __syncthreads();
    for (unsigned item = threadIdx.x; item < G * head_dim; item += kAttentionThreads) {
        unsigned g = item / head_dim, c = item % head_dim;
        float most = -INFINITY, whole = 0.0f, value = 0.0f;
        for (unsigned other = 0; other < groups; other++) most = fmaxf(most, maxima[2 * (other * G + g)]);
        for (unsigned other = 0; other < groups; other++) {
            unsigned place = other * G + g;
            if (maxima[2 * place + 1] == 0.0f) continue;
            float weight = expf(maxima[2 * place] - most);
            whole = fused(weight, maxima[2 * place + 1], whole);
            value = fused(weight, sums[place * width + c], value);
        }
        size_t head = static_cast<size_t>(row) * heads + first_head + g;
        if (splits == 1) {
            out[head * head_dim + c] = narrow<T>(whole == 0.0f ? 0.0f : value / whole);
            continue;
        }
        Out<float> part = partial + (head * splits + blockIdx.z) * (head_dim + 2);
        part[c] = value;
        if (c == 0) {
            part[head_dim] = most;
            part[head_dim + 1] = whole;
        }
    }
}

// Combines the parts of `attention`: one block per row and head.
template <typename T>
__device__ void attention_merge(Out<T> out, In<float> partial, uint32_t head_dim, uint32_t splits) {
    size_t head = blockIdx.x;
    partial = partial + head * splits * (head_dim + 2);
    float most = -INFINITY;
    for (unsigned s = 0; s < splits; s++) most = fmaxf(most, partial[s * (head_dim + 2) + head_dim]);
    for (unsigned c = threadIdx.x; c < head_dim; c += blockDim.x) {
        float whole = 0.0f, value = 0.0f;
        for (unsigned s = 0; s < splits; s++) {
            In<float> part = partial + s * (head_dim + 2);
            if (part[head_dim + 1] == 0.0f) continue;
            float weight = expf(part[head_dim] - most);
            whole += weight * part[head_dim + 1];
            value += weight * part[c];
        }
        out[head * head_dim + c] = narrow<T>(whole == 0.0f ? 0.0f : value / whole);
    }
}
