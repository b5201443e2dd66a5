// Sampling: logits to ids, in the order of the networks' reference: repetition penalty, minimum length, suppressed
// ids, temperature, top-k, top-p, softmax, draw.
//
// One block per row, its logits in shared memory. One thread sums the kept weights from the largest on, because a
// draw depends on their order to the last bit; usually a few dozen are kept.
#pragma once
#include "draw.cuh"
#include "gather.cuh"

/// As `SampleRow` in `src/kernels/sample.rs`.
constexpr uint32_t kTemperature = 0, kTopK = 1, kTopP = 2, kPenalty = 3, kMinTokens = 4, kSuppressFrom = 5, kEnd = 6, kBegin = 7,
                   kCount = 8, kSeedLow = 9, kSeedHigh = 10, kStep = 11, kGroup = 12, kSaid = 13, kLogits = 14, kSettings = 16;

/// The `k`-th largest of the finite values, `k` from 1 to their number. `histogram`: 256 counters.
__device__ __forceinline__ float kth_largest(Shared<float> values, uint32_t count, uint32_t k, Shared<uint32_t> histogram) {
    __shared__ uint32_t found_digit, found_rest;
    uint32_t prefix = 0, mask = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) histogram[i] = 0;
        __syncthreads();
        for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
            uint32_t bits = ordered(values[i]);
            if (isfinite(values[i]) && (bits & mask) == prefix) atomicAdd(&histogram[(bits >> shift) & 255], 1u);
        }
        __syncthreads();
        if (threadIdx.x < kWarp) {
            // Each lane has eight digits, the first lane the largest.
            unsigned lane = threadIdx.x, top = 255 - 8 * lane;
            uint32_t sum = 0;
            for (unsigned i = 0; i < 8; i++) sum += histogram[top - i];
            uint32_t upto = sum;
            for (unsigned lanes = 1; lanes < kWarp; lanes *= 2) {
                uint32_t before = __shfl_up_sync(kAllLanes, upto, lanes);
                if (lane >= lanes) upto += before;
            }
            uint32_t above = upto - sum;
            if (above < k && k <= upto) {
                unsigned digit = top;
                for (; above + histogram[digit] < k; digit--) above += histogram[digit];
                found_digit = digit;
                found_rest = k - above;
            }
        }
        __syncthreads();
        prefix |= found_digit << shift;
        mask |= 255u << shift;
        k = found_rest;
        __syncthreads();
    }
    return unordered(prefix);
}

/// Sorts `size` keys, a power of two, ascending. (Batcher's bitonic sort.)
__device__ __forceinline__ void sort(Shared<uint64_t> keys, unsigned size) {
    for (unsigned run = 2; run <= size; run *= 2)
        for (unsigned apart = run / 2; apart > 0; apart /= 2) {
            for (unsigned i = threadIdx.x; i < size / 2; i += blockDim.x) {
                unsigned low = i / apart * 2 * apart + i % apart, high = low + apart;
                bool ascending = (low & run) == 0;
                uint64_t a = keys[low], b = keys[high];
                if ((a > b) == ascending) {
                    keys[low] = b;
                    keys[high] = a;
                }
            }
            __syncthreads();
        }
}

// Copies a row's logits and applies penalties and masks. False if one is not finite.
template <typename T>
__device__ __forceinline__ bool prepare(Shared<float> values, In<T> logits, In<uint32_t> row, In<uint32_t> generated, In<uint32_t> said,
                                        uint32_t vocab) {
    bool bad = false;
    for (unsigned i = threadIdx.x; i < vocab; i += blockDim.x) {
        values[i] = widen(logits[i]);
        bad |= !isfinite(values[i]);
    }
    if (block_any(bad)) return false;
    float penalty = __uint_as_float(row[kPenalty]);
    if (penalty != 1.0f) {
        uint32_t count = row[kCount], last = said ? row[kSaid] : kNone;
        for (unsigned i = threadIdx.x; i < count + (last != kNone); i += blockDim.x) {
            uint32_t id = i < count ? generated[row[kBegin] + i] : said[last];
            if (id >= vocab) continue;
            // From the original logit: an id named twice is penalised once.
            float v = widen(logits[id]);
            v = v < 0.0f ? v * penalty : v / penalty;
            values[id] = fminf(fmaxf(v, -3.402823466e38f), 3.402823466e38f);
        }
        __syncthreads();
    }
    bool early = row[kCount] < row[kMinTokens];
    for (unsigned i = threadIdx.x; i < vocab; i += blockDim.x) {
        bool hidden = i == row[kEnd] ? early : i >= row[kSuppressFrom];
        if (hidden) values[i] = -INFINITY;
    }
    __syncthreads();
    return true;
}

/// The thread's own best of `values`, then the block's.
template <typename V>
__device__ __forceinline__ uint32_t argmax_of(V value_of, uint32_t count) {
    float best = -INFINITY;
    uint32_t index = threadIdx.x < count ? threadIdx.x : kNone;
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
        float v = value_of(i);
        if (v > best) {
            best = v;
            index = i;
        }
    }
    return block_argmax(best, index);
}

// Sum of `count` weights in order. Loads run ahead of the dependent additions.
__device__ __forceinline__ float sum_in_order(Shared<float> weights, uint32_t count) {
    float sum = 0.0f;
    unsigned i = 0;
    for (; i + 8 <= count; i += 8) {
        float next[8];
#pragma unroll
        for (int j = 0; j < 8; j++) next[j] = weights[i + j];
#pragma unroll
        for (int j = 0; j < 8; j++) sum += next[j];
    }
    for (; i < count; i++) sum += weights[i];
    return sum;
}

// Draw by one thread from `kept` sorted keys with probabilities `weights`.
__device__ __forceinline__ uint32_t draw(Shared<uint64_t> keys, Shared<float> weights, uint32_t kept, In<uint32_t> row) {
    float top_p = __uint_as_float(row[kTopP]);
    if (top_p < 1.0f) {
        float dropped = 0.0f;
        while (kept > 1) {
            dropped += weights[kept - 1];
            if (dropped > 1.0f - top_p) break;
            kept--;
        }
    }
    float total = sum_in_order(weights, kept);
    float left = uniform(row[kSeedLow], row[kSeedHigh], row[kStep], row[kGroup]) * total;
    for (unsigned i = 0; i < kept; i++) {
        if (left < weights[i]) return static_cast<uint32_t>(keys[i]);
        left -= weights[i];
    }
    return kept > 0 ? static_cast<uint32_t>(keys[kept - 1]) : 0;
}

// Id chosen from a row of `vocab` logits, or 0xffffffff if one is not finite; valid in the first thread. Shared
// memory: [vocab] values, [a power of two of at least vocab] keys.
template <typename T>
__device__ __forceinline__ uint32_t chosen(In<T> logits, In<uint32_t> row, In<uint32_t> generated, In<uint32_t> said, uint32_t vocab,
                                           uint32_t keys_at) {
    __shared__ uint32_t kept;
    __shared__ float whole;
    Shared<float> values = shared_as<float>();
    Shared<uint64_t> keys = shared_as<uint64_t>() + keys_at;
    if (threadIdx.x == 0) kept = 0;
    if (!prepare(values, logits, row, generated, said, vocab)) return kNone;
    float temperature = __uint_as_float(row[kTemperature]);
    if (temperature <= 0.0f) return argmax_of([&](unsigned i) { return values[i]; }, vocab);

    uint32_t finite = 0;
    for (unsigned i = threadIdx.x; i < vocab; i += blockDim.x) finite += isfinite(values[i]);
    finite = static_cast<uint32_t>(block_sum(static_cast<float>(finite)));
    float threshold = -INFINITY;
    if (row[kTopK] != 0 && row[kTopK] < finite) threshold = kth_largest(values, vocab, row[kTopK], retyped<uint32_t>(keys));
    for (unsigned i = threadIdx.x; i < vocab; i += blockDim.x)
        if (isfinite(values[i]) && values[i] >= threshold)
            // Ascending keys: the largest value first, among equals the smallest id.
            keys[atomicAdd(&kept, 1u)] = static_cast<uint64_t>(~ordered(values[i])) << 32 | i;
    __syncthreads();
    unsigned size = 1;
    while (size < kept) size *= 2;
    for (unsigned i = kept + threadIdx.x; i < size; i += blockDim.x) keys[i] = ~uint64_t{0};
    __syncthreads();
    sort(keys, size);
    // The values are in the keys: their memory is reused for the weights.
    float most = kept > 0 ? unordered(~static_cast<uint32_t>(keys[0] >> 32)) : 0.0f;
    for (unsigned i = threadIdx.x; i < kept; i += blockDim.x)
        values[i] = expf((unordered(~static_cast<uint32_t>(keys[i] >> 32)) - most) / temperature);
    __syncthreads();
    if (threadIdx.x == 0) whole = sum_in_order(values, kept);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < kept; i += blockDim.x) values[i] /= whole;
    __syncthreads();
    return threadIdx.x == 0 ? draw(keys, values, kept, row) : 0;
}

// `out[row * stride]` = id chosen from the row of `logits [any number, vocab]` that the row's settings name, or
// 0xffffffff if a logit of it is not finite. With a `table`, `rows[row]` = that id's row of it, `width` elements;
// zeros if out of range.
template <typename T>
__device__ void sample(Out<uint32_t> out, In<T> logits, In<uint32_t> settings, In<uint32_t> generated, In<uint32_t> said, Out<T> rows,
                       In<T> table, uint32_t vocab, uint32_t stride, uint32_t keys_at, uint32_t table_rows, uint32_t width, uint32_t wide) {
    __shared__ uint32_t id;
    In<uint32_t> row = settings + static_cast<size_t>(blockIdx.x) * kSettings;
    uint32_t found = chosen(logits + static_cast<size_t>(row[kLogits]) * vocab, row, generated, said, vocab, keys_at);
    if (threadIdx.x == 0) {
        out[static_cast<size_t>(blockIdx.x) * stride] = found;
        id = found;
    }
    if (!table) return;
    __syncthreads();
    copy_row<T>(rows + static_cast<size_t>(blockIdx.x) * width, table, id, table_rows, width, wide);
}

/// `out[row * stride]` = the first of the largest of `logits [rows, vocab]`, or 0xffffffff if one is not finite. Reads each once.
template <typename T>
__device__ void argmax(Out<uint32_t> out, In<T> logits, uint32_t vocab, uint32_t stride) {
    logits = logits + static_cast<size_t>(blockIdx.x) * vocab;
    bool bad = false;
    uint32_t best = argmax_of(
        [&](unsigned i) {
            float v = widen(logits[i]);
            bad |= !isfinite(v);
            return v;
        },
        vocab);
    bad = block_any(bad);
    if (threadIdx.x == 0) out[static_cast<size_t>(blockIdx.x) * stride] = bad ? kNone : best;
}
