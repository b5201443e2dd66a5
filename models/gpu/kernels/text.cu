// From logits of text to tokens, for vocabularies of any size up to 2^18: penalties, minimum length, temperature, top-k, min-p, top-p,
// softmax, draw.
//
// Nothing is sorted. A token's weight is its probability before normalisation as a whole number, `exp((value - largest) / temperature)`
// times 2^45: sums of weights are exact, so they are the same in any order, and 2^18 of them fit 64 bits. What weighs nothing has less
// than a 2^-27th of the probability in all; a draw has 24 bits. Whatever is kept is the beginning of the order by value, then id, and is
// known by its sum. So all that is ever asked is where a running sum in that order passes a number. The first kernel makes the values
// and looks for the largest, the second sums them up in bins of values, both in many blocks per row; the third looks into the bins in
// which sums pass, with a block per row.
#include "draw.cuh"

namespace text {

using Wide = unsigned long long;

/// As `TextRow` in `src/kernels/text.rs`.
constexpr uint32_t kTemperature = 0, kTopK = 1, kTopP = 2, kMinP = 3, kPenalty = 4, kSeedLow = 5, kSeedHigh = 6, kStep = 7, kGroup = 8,
                   kLogits = 9, kFrom = 10, kCount = 11, kLog = 12, kSettings = 16;
/// As `TextChange` there: bits beside the id.
constexpr uint32_t kSaid = 1u << 30, kHidden = 1u << 31, kId = kSaid - 1;
// Ids per block of the first two kernels.
constexpr uint32_t kSlice = 4096;
// Summary of a slice: the first logit that is not finite, the largest value and its id, the smallest value that is
// not hidden, the largest logit, and the sum of the logits' exponentials relative to that.
constexpr uint32_t kBad = 0, kMost = 1, kBest = 2, kLeast = 3, kLargest = 4, kSum = 5, kTold = 8;
constexpr uint32_t kBins = 1024, kDigits = 256;
// Capacity of the third kernel for values of one bin.
constexpr uint32_t kList = 4096;
// In place of an id: the other bits are the position of a logit that is not finite.
constexpr uint32_t kFailed = 1u << 31;

// Reduces the values of all threads; the result is in every thread.
template <typename V, typename F>
__device__ __forceinline__ V block_joined(V value, V neutral, F join) {
    __shared__ V parts[kWarp];
    for (int round = 0; round < 2; round++) {
#pragma unroll
        for (unsigned lanes = 16; lanes > 0; lanes /= 2) value = join(value, __shfl_xor_sync(kAllLanes, value, lanes));
        unsigned warps = blockDim.x / kWarp, lane = threadIdx.x % kWarp;
        if (round == 1 || warps == 1) break;
        if (lane == 0) parts[threadIdx.x / kWarp] = value;
        __syncthreads();
        value = lane < warps ? parts[lane] : neutral;
    }
    __syncthreads();
    return value;
}

__device__ __forceinline__ float finite(float value) { return fminf(fmaxf(value, -3.402823466e38f), 3.402823466e38f); }

// A slice of a row: `values` are the logits after penalties, and hidden ones as -infinity; `told` is their summary.
// Also clears the row's bins. Shared memory: [kSlice] values.
template <typename T>
__device__ void prepare(Out<float> values, Out<uint32_t> told, Out<uint32_t> counts, Out<Wide> weights, In<T> logits,
                        In<uint32_t> settings, In<uint32_t> changes, uint32_t vocab) {
    In<uint32_t> row = settings + static_cast<size_t>(blockIdx.y) * kSettings;
    uint32_t first = blockIdx.x * kSlice, count = min(kSlice, vocab - first);
    logits = logits + (static_cast<size_t>(row[kLogits]) * vocab + first);
    values += static_cast<size_t>(blockIdx.y) * vocab + first;
    told += (static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x) * kTold;
    Shared<float> slice = shared_as<float>();

    uint32_t bad = kNone;
    float largest = -INFINITY, sum = 0.0f;
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
        float value = widen(logits[i]);
        slice[i] = value;
        if (!isfinite(value)) bad = min(bad, first + i);
        largest = fmaxf(largest, value);
    }
    bad = block_joined(bad, kNone, [](uint32_t a, uint32_t b) { return min(a, b); });
    largest = block_joined(largest, -INFINITY, [](float a, float b) { return fmaxf(a, b); });
    if (row[kLog]) {
        for (unsigned i = threadIdx.x; i < count; i += blockDim.x) sum += expf(slice[i] - largest);
        sum = block_sum(sum);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < row[kCount]; i += blockDim.x) {
        // Ids are distinct.
        In<uint32_t> change = changes + 2 * (static_cast<size_t>(row[kFrom]) + i);
        uint32_t at = (change[0] & kId) - first;
        if (at >= count) continue;
        float value = slice[at], penalty = __uint_as_float(row[kPenalty]);
        if (change[0] & kSaid) value = finite(value < 0.0f ? value * penalty : value / penalty);
        value = finite(value - __uint_as_float(change[1]));
        slice[at] = change[0] & kHidden ? -INFINITY : value;
    }
    __syncthreads();
    float most = -INFINITY, least = INFINITY;
    uint32_t best = threadIdx.x < count ? first + threadIdx.x : kNone;
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
        float value = slice[i];
        values[i] = value;
        if (value > most) {
            most = value;
            best = first + i;
        }
        if (isfinite(value)) least = fminf(least, value);
    }
    best = block_argmax(most, best);
    least = block_joined(least, INFINITY, [](float a, float b) { return fminf(a, b); });
    if (threadIdx.x == 0) {
        told[kBad] = bad;
        told[kMost] = __float_as_uint(slice[best - first]);
        told[kBest] = best;
        told[kLeast] = __float_as_uint(least);
        told[kLargest] = __float_as_uint(largest);
        told[kSum] = __float_as_uint(sum);
    }
    if (blockIdx.x > 0) return;
    for (unsigned i = threadIdx.x; i < kBins; i += blockDim.x) {
        counts[static_cast<size_t>(blockIdx.y) * kBins + i] = 0;
        weights[static_cast<size_t>(blockIdx.y) * kBins + i] = 0;
    }
}

// Summary of a whole row, and the mapping of its values to weights and bins, the largest in the first.
struct Row {
    float most, least, largest, sum, temperature, scale;
    uint32_t best, bad;

    __device__ __forceinline__ bool is_drawn() const { return bad == kNone && temperature > 0.0f && most > -INFINITY; }
    __device__ __forceinline__ float exponential(float value) const { return expf((value - most) / temperature); }
    __device__ __forceinline__ Wide weight(float value) const { return static_cast<Wide>(exponential(value) * 35184372088832.0f); }
    __device__ __forceinline__ uint32_t bin(float value) const {
        return static_cast<uint32_t>(fminf((most - value) * scale, static_cast<float>(kBins - 1)));
    }
};

// Combines the slices' summaries in one thread.
__device__ __forceinline__ Row whole(In<uint32_t> told, In<uint32_t> settings, uint32_t slices) {
    __shared__ Row shared;
    if (threadIdx.x == 0) {
        Row row = {-INFINITY, INFINITY, -INFINITY, 0.0f, __uint_as_float(settings[kTemperature]), 0.0f, kNone, kNone};
        for (uint32_t s = 0; s < slices; s++) {
            In<uint32_t> slice = told + s * kTold;
            float most = __uint_as_float(slice[kMost]);
            if (s == 0 || most > row.most) {
                row.most = most;
                row.best = slice[kBest];
            }
            row.bad = min(row.bad, slice[kBad]);
            row.least = fminf(row.least, __uint_as_float(slice[kLeast]));
            row.largest = fmaxf(row.largest, __uint_as_float(slice[kLargest]));
        }
        for (uint32_t s = 0; s < slices; s++) {
            In<uint32_t> slice = told + s * kTold;
            row.sum += __uint_as_float(slice[kSum]) * expf(__uint_as_float(slice[kLargest]) - row.largest);
        }
        // Beyond 32 temperatures from the largest the weight is zero.
        row.scale = static_cast<float>(kBins) / fminf(row.most - row.least, 32.0f * row.temperature);
        shared = row;
    }
    __syncthreads();
    return shared;
}

// A slice's share of `counts` and `weights [rows, kBins]`: number and total weight of each bin's values. Shared
// memory: [kBins] weights, [kBins] counts.
__device__ void weigh(Out<uint32_t> counts, Out<Wide> weights, In<float> values, In<uint32_t> told, In<uint32_t> settings, uint32_t vocab) {
    told = told + static_cast<size_t>(blockIdx.y) * gridDim.x * kTold;
    Row row = whole(told, settings + static_cast<size_t>(blockIdx.y) * kSettings, gridDim.x);
    if (!row.is_drawn()) return;
    uint32_t first = blockIdx.x * kSlice, count = min(kSlice, vocab - first);
    values = values + (static_cast<size_t>(blockIdx.y) * vocab + first);
    counts += static_cast<size_t>(blockIdx.y) * kBins;
    weights += static_cast<size_t>(blockIdx.y) * kBins;
    Shared<Wide> weight_of = shared_as<Wide>();
    Shared<uint32_t> count_of = retyped<uint32_t>(weight_of + kBins);
    for (unsigned i = threadIdx.x; i < kBins; i += blockDim.x) {
        weight_of[i] = 0;
        count_of[i] = 0;
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
        float value = values[i];
        if (!isfinite(value)) continue;
        uint32_t bin = row.bin(value);
        Wide weight = row.weight(value);
        atomicAdd(&count_of[bin], 1u);
        if (weight > 0) atomicAdd(&weight_of[bin], weight);
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < kBins; i += blockDim.x) {
        if (count_of[i] > 0) atomicAdd(&counts[i], count_of[i]);
        if (weight_of[i] > 0) atomicAdd(&weights[i], weight_of[i]);
    }
}

// Counts and weights of bins, largest values first.
struct Bins {
    Shared<Wide> weights;
    Shared<uint32_t> counts;
    uint32_t size;
};

// Place where a running sum exceeds a number: the bin or the value, and the sum before it.
struct Passed {
    uint32_t bin;
    float value;
    uint32_t count;
    Wide weight;
};

// Bin at which the sum of weights or of counts exceeds `number`, which is less than the total.
template <bool kWeights>
__device__ __forceinline__ Passed pass(const Bins& bins, Wide number) {
    __shared__ Passed found;
    if (threadIdx.x == 0) found = {bins.size - 1, 0.0f, 0, 0};
    __syncthreads();
    if (threadIdx.x < kWarp) {
        // Each lane has adjacent bins.
        uint32_t each = bins.size / kWarp, bin = threadIdx.x * each, count = 0;
        Wide weight = 0;
        for (uint32_t i = 0; i < each; i++) {
            count += bins.counts[bin + i];
            weight += bins.weights[bin + i];
        }
        uint32_t counted = count;
        Wide weighed = weight;
        for (unsigned lanes = 1; lanes < kWarp; lanes *= 2) {
            uint32_t counts = __shfl_up_sync(kAllLanes, counted, lanes);
            Wide weights = __shfl_up_sync(kAllLanes, weighed, lanes);
            if (threadIdx.x >= lanes) {
                counted += counts;
                weighed += weights;
            }
        }
        uint32_t count_before = counted - count;
        Wide weight_before = weighed - weight;
        Wide upto = kWeights ? weighed : counted, before = kWeights ? weight_before : count_before;
        if (before <= number && number < upto) {
            for (;; bin++) {
                Wide one = kWeights ? bins.weights[bin] : bins.counts[bin];
                if (number - before < one) break;
                before += one;
                count_before += bins.counts[bin];
                weight_before += bins.weights[bin];
            }
            found = {bin, 0.0f, count_before, weight_before};
        }
    }
    __syncthreads();
    Passed result = found;
    __syncthreads();
    return result;
}

// Value of one bin, from the largest on, at which the sum of weights or of counts exceeds `number`.
template <bool kWeights, typename P>
__device__ __forceinline__ Passed descend(P values, uint32_t count, const Row& row, uint32_t bin, Wide number, const Bins& digits) {
    uint32_t prefix = 0, mask = 0;
    Passed all = {bin, 0.0f, 0, 0};
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (unsigned i = threadIdx.x; i < kDigits; i += blockDim.x) {
            digits.weights[i] = 0;
            digits.counts[i] = 0;
        }
        __syncthreads();
        for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
            float value = values[i];
            if (!isfinite(value) || row.bin(value) != bin) continue;
            uint32_t bits = ordered(value);
            if ((bits & mask) != prefix) continue;
            uint32_t digit = kDigits - 1 - ((bits >> shift) & 255);
            Wide weight = row.weight(value);
            atomicAdd(&digits.counts[digit], 1u);
            if (weight > 0) atomicAdd(&digits.weights[digit], weight);
        }
        __syncthreads();
        Passed digit = pass<kWeights>(digits, number);
        number -= kWeights ? digit.weight : digit.count;
        all.count += digit.count;
        all.weight += digit.weight;
        prefix |= (kDigits - 1 - digit.bin) << shift;
        mask |= 255u << shift;
    }
    all.value = unordered(prefix);
    return all;
}

// A row's values in the third kernel.
struct Values {
    In<float> all;
    uint32_t vocab;
    Bins bins, digits;
    // Values of the bin `listed`.
    Shared<float> list;
    uint32_t listed;
};

// Value at which the sum of weights or of counts over all values exceeds `number`, and the sum before its equals.
template <bool kWeights>
__device__ __forceinline__ Passed pass(Values& values, const Row& row, Wide number) {
    __shared__ uint32_t length;
    Passed bin = pass<kWeights>(values.bins, number);
    number -= kWeights ? bin.weight : bin.count;
    uint32_t count = values.bins.counts[bin.bin];
    Passed inside;
    if (count > kList) {
        inside = descend<kWeights>(values.all, values.vocab, row, bin.bin, number, values.digits);
    } else {
        if (values.listed != bin.bin) {
            if (threadIdx.x == 0) length = 0;
            __syncthreads();
            for (unsigned i = threadIdx.x; i < values.vocab; i += blockDim.x) {
                float value = values.all[i];
                // The order of values does not matter for exact sums.
                if (isfinite(value) && row.bin(value) == bin.bin) values.list[atomicAdd(&length, 1u)] = value;
            }
            __syncthreads();
            values.listed = bin.bin;
        }
        inside = descend<kWeights>(values.list, count, row, bin.bin, number, values.digits);
    }
    inside.count += bin.count;
    inside.weight += bin.weight;
    return inside;
}

// Id of the `nth` value, from 0, with these exact bits. A warp has adjacent ids.
__device__ __forceinline__ uint32_t nth_equal(In<float> values, uint32_t vocab, float value, uint32_t nth) {
    __shared__ uint32_t seen_of[kWarp], found;
    unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = blockDim.x / kWarp;
    uint32_t each = (vocab + warps * kWarp - 1) / (warps * kWarp) * kWarp, from = warp * each, to = min(from + each, vocab);
    auto equal = [&](uint32_t at) { return at + lane < to && __float_as_uint(values[at + lane]) == __float_as_uint(value); };
    uint32_t seen = 0, before = 0;
    for (uint32_t at = from; at < to; at += kWarp) seen += __popc(__ballot_sync(kAllLanes, equal(at)));
    if (lane == 0) seen_of[warp] = seen;
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    for (unsigned other = 0; other < warp; other++) before += seen_of[other];
    if (before <= nth && nth - before < seen) {
        uint32_t left = nth - before;
        for (uint32_t at = from; at < to; at += kWarp) {
            bool mine = equal(at);
            uint32_t votes = __ballot_sync(kAllLanes, mine), count = __popc(votes), before_me = __popc(votes & ((1u << lane) - 1));
            if (left < count) {
                if (mine && before_me == left) found = at + lane;
                break;
            }
            left -= count;
        }
    }
    __syncthreads();
    return found;
}

// The sampled id. Each setting keeps a prefix of the order, described by its weight alone.
__device__ __forceinline__ uint32_t draw(Values& values, const Row& row, In<uint32_t> settings) {
    auto plus = [](Wide a, Wide b) { return a + b; };
    Wide weight = 0;
    uint32_t count = 0;
    for (unsigned i = threadIdx.x; i < kBins; i += blockDim.x) {
        weight += values.bins.weights[i];
        count += values.bins.counts[i];
    }
    Wide kept = block_joined(weight, Wide{0}, plus);
    count = block_joined(count, 0u, [](uint32_t a, uint32_t b) { return a + b; });
    // Smallest value kept by top-k; ties stay.
    float smallest = -INFINITY, min_p = __uint_as_float(settings[kMinP]), top_p = __uint_as_float(settings[kTopP]);
    uint32_t top_k = settings[kTopK];
    if (top_k != 0 && top_k < count) smallest = pass<false>(values, row, top_k - 1).value;
    Wide normal = kept;
    if (smallest > -INFINITY || min_p > 0.0f) {
        Wide of_k = 0, of_both = 0;
        for (unsigned i = threadIdx.x; i < values.vocab; i += blockDim.x) {
            float value = values.all[i];
            if (!isfinite(value) || value < smallest) continue;
            Wide one = row.weight(value);
            of_k += one;
            if (row.exponential(value) >= min_p) of_both += one;
        }
        normal = block_joined(of_k, Wide{0}, plus);
        kept = block_joined(of_both, Wide{0}, plus);
    }
    if (top_p < 1.0f) {
        // Largest weight to drop from the end, leaving at least one.
        Wide most = static_cast<Wide>(static_cast<double>(1.0f - top_p) * static_cast<double>(normal));
        Wide last = kept - 1 - min(most, kept - 1);
        Passed end = pass<true>(values, row, last);
        Wide one = row.weight(end.value);
        kept = end.weight + ((last - end.weight) / one + 1) * one;
    }
    float random = uniform(settings[kSeedLow], settings[kSeedHigh], settings[kStep], settings[kGroup]);
    // random * kept, of which the first factor has 24 bits.
    Wide bits = static_cast<Wide>(random * 16777216.0f);
    Wide number = (kept >> 24) * bits + (((kept & 0xffffff) * bits) >> 24);
    Passed drawn = pass<true>(values, row, number);
    uint32_t nth = static_cast<uint32_t>((number - drawn.weight) / row.weight(drawn.value));
    return nth_equal(values.all, values.vocab, drawn.value, nth);
}

// `out[row * stride]` = the chosen id, or a failure in its place; `out[row * stride + 1]` = the log-probability of it
// by the logits, if requested, else 0. Shared memory: as below.
template <typename T>
__device__ void choose(Out<uint32_t> out, In<T> logits, In<float> values, In<uint32_t> told, In<uint32_t> counts, In<Wide> weights,
                       In<uint32_t> settings, uint32_t vocab, uint32_t stride) {
    uint32_t slices = (vocab + kSlice - 1) / kSlice;
    settings = settings + static_cast<size_t>(blockIdx.x) * kSettings;
    Row row = whole(told + static_cast<size_t>(blockIdx.x) * slices * kTold, settings, slices);
    uint32_t id = row.bad == kNone ? row.best : kFailed | row.bad;
    if (row.is_drawn()) {
        Bins bins = {shared_as<Wide>(), retyped<uint32_t>(shared_as<Wide>() + (kBins + kDigits)), kBins};
        Bins digits = {bins.weights + kBins, bins.counts + kBins, kDigits};
        for (unsigned i = threadIdx.x; i < kBins; i += blockDim.x) {
            bins.weights[i] = weights[static_cast<size_t>(blockIdx.x) * kBins + i];
            bins.counts[i] = counts[static_cast<size_t>(blockIdx.x) * kBins + i];
        }
        __syncthreads();
        Shared<float> list = retyped<float>(digits.counts + kDigits);
        Values all = {values + static_cast<size_t>(blockIdx.x) * vocab, vocab, bins, digits, list, kNone};
        id = draw(all, row, settings);
    }
    if (threadIdx.x > 0) return;
    float log = 0.0f;
    if (settings[kLog] && row.bad == kNone) {
        log = widen(logits[static_cast<size_t>(settings[kLogits]) * vocab + id]) - row.largest - logf(row.sum);
    }
    out[static_cast<size_t>(blockIdx.x) * stride] = id;
    out[static_cast<size_t>(blockIdx.x) * stride + 1] = __float_as_uint(log);
}

}  // namespace text

KERNEL(text_prepare, 512, text::prepare<T>,
       (Out<float> values, Out<uint32_t> told, Out<uint32_t> counts, Out<text::Wide> weights, In<T> logits, In<uint32_t> settings,
        In<uint32_t> changes, uint32_t vocab),
       (values, told, counts, weights, logits, settings, changes, vocab))
PLAIN_KERNEL(text_weigh, 512, text::weigh,
             (Out<uint32_t> counts, Out<text::Wide> weights, In<float> values, In<uint32_t> told, In<uint32_t> settings, uint32_t vocab),
             (counts, weights, values, told, settings, vocab))
KERNEL(text_choose, 1024, text::choose<T>,
       (Out<uint32_t> out, In<T> logits, In<float> values, In<uint32_t> told, In<uint32_t> counts, In<text::Wide> weights,
        In<uint32_t> settings, uint32_t vocab, uint32_t stride),
       (out, logits, values, told, counts, weights, settings, vocab, stride))
