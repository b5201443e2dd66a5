// Mixtures of experts: routing of rows to experts, and products for a few rows with their own experts' matrices.
//
// For few rows every pair of a row and an expert reads that expert's matrices; two rows with the same expert share
// them through the L2 cache.
#include "omni.cuh"
#include "dots.cuh"

/// For every row the `top_k` likeliest of `experts` by softmax of its scores, likeliest first, the lower number among equals:
/// `ids [rows, top_k]`, `weights [rows, top_k]` (divided by their sum if `normalise`). Scores have `width` columns; the one after the
/// experts', if there is one, is the shared expert's gate: `gates [rows]` gets its sigmoid. One warp per row.
template <typename T>
__device__ void route(Out<uint32_t> ids, Out<float> weights, Out<float> gates, In<T> scores, uint32_t experts, uint32_t width,
                      uint32_t top_k, uint32_t normalise) {
    unsigned lane = threadIdx.x;
    scores = scores + static_cast<size_t>(blockIdx.x) * width;
    Shared<float> p = shared_as<float>();
    float most = -INFINITY, sum = 0.0f;
    for (unsigned e = lane; e < experts; e += kWarp) most = fmaxf(most, widen(scores[e]));
    most = warp_max(most);
    for (unsigned e = lane; e < experts; e += kWarp) {
        p[e] = expf(widen(scores[e]) - most);
        sum += p[e];
    }
    sum = warp_sum(sum);
    for (unsigned e = lane; e < experts; e += kWarp) p[e] /= sum;
    size_t first = static_cast<size_t>(blockIdx.x) * top_k;
    float chosen = 0.0f;
    for (unsigned i = 0; i < top_k; i++) {
        float best = -1.0f;
        uint32_t expert = kNone;
        for (unsigned e = lane; e < experts; e += kWarp)
            if (p[e] > best) {
                best = p[e];
                expert = e;
            }
#pragma unroll
        for (unsigned lanes = 16; lanes > 0; lanes /= 2) {
            float other = __shfl_xor_sync(kAllLanes, best, lanes);
            uint32_t other_expert = __shfl_xor_sync(kAllLanes, expert, lanes);
            if (other > best || (other == best && other_expert < expert)) {
                best = other;
                expert = other_expert;
            }
        }
        // Only this lane has this expert. NaN scores choose no expert.
        if (expert != kNone && expert % kWarp == lane) p[expert] = -2.0f;
        if (lane == i % kWarp) {
            ids[first + i] = expert;
            weights[first + i] = expert == kNone ? 0.0f : best;
        }
        chosen += expert == kNone ? 0.0f : best;
    }
    if (normalise)
        for (unsigned i = lane; i < top_k; i += kWarp) weights[first + i] /= chosen;
    if (gates && width > experts && lane == 0) gates[blockIdx.x] = sigmoid(widen(scores[experts]));
}
KERNEL(route, 32, route<T>,
       (Out<uint32_t> ids, Out<float> weights, Out<float> gates, In<T> scores, uint32_t experts, uint32_t width, uint32_t top_k,
        uint32_t normalise),
       (ids, weights, gates, scores, experts, width, top_k, normalise))

/// `out [pairs, half]` = `silu(x G^T) * (x U^T)`, pair p being row `p / top_k` of x and expert `ids[p]`, whose [G | U] are
/// `w [experts, 2 * half, inputs]`. Reads 4 * half * inputs bytes of bf16 per pair. With a norm, of x's normalised rows, as in `gemv.cuh`.
template <bool kNormed, typename T>
__device__ void expert_gated(Out<T> out, In<T> x, In<T> w, In<uint32_t> ids, In<float> norm, uint32_t experts, uint32_t top_k, uint32_t half,
                             uint32_t inputs, uint32_t splits, uint32_t wide, float eps) {
    unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, part = warp % splits;
    uint32_t pair = blockIdx.y, n = blockIdx.x * (kGemvWarps / splits) + warp / splits, expert = ids[pair];
    // Uniform over the block.
    if (expert >= experts) {
        if (part == 0 && lane == 0 && n < half) out[static_cast<size_t>(pair) * half + n] = narrow<T>(0.0f);
        return;
    }
    float sum[1][2], squares[1];
    size_t matrix = static_cast<size_t>(expert) * 2 * half;
    auto row_of = [&](int r) { return (matrix + static_cast<size_t>(r) * half + min(n, half - 1)) * inputs; };
    dots<1, 2, kNormed, T>(sum, squares, x + static_cast<size_t>(pair / top_k) * inputs, w, norm, row_of, 1, inputs, part, splits, wide);
    gather_splits<1, 2, kNormed>(sum, squares, part, splits);
    if (kNormed) normalise_sums(sum, squares, inputs, eps);
    if (part == 0 && lane == 0 && n < half) out[static_cast<size_t>(pair) * half + n] = narrow<T>(silu(sum[0][0]) * sum[0][1]);
}
#define EXPERT_GATED(name, normed)                                                                                                \
    KERNEL(name, 128, (expert_gated<normed, T>),                                                                                  \
           (Out<T> out, In<T> x, In<T> w, In<uint32_t> ids, In<float> norm, uint32_t experts, uint32_t top_k, uint32_t half,      \
            uint32_t inputs, uint32_t splits, uint32_t wide, float eps),                                                          \
           (out, x, w, ids, norm, experts, top_k, half, inputs, splits, wide, eps))
EXPERT_GATED(expert_gated, false)
EXPERT_GATED(normed_expert_gated, true)

// Warps of a block of `expert_down`: with as many experts per row all are read concurrently.
constexpr unsigned kDownWarps = 8;

/// `out[row]` = `gates[row] * shared[row]` (if there is a `shared`) plus the sum over the row's pairs p of `weights[p] * (h[p] D^T)`,
/// `w [experts, outputs, inputs]` being the experts' D, plus `add[row]` (if there is one). Reads 2 * outputs * inputs bytes of bf16 per pair.
/// A block makes four outputs; its warps share the pairs, at most 32, whose sums are added in their order. With a `shared_w [outputs,
/// shared_inputs]`, `shared` is what that is to be multiplied with, `[rows, shared_inputs]`; the warps share the inputs.
template <typename T>
__device__ void expert_down(Out<T> out, In<T> h, In<T> w, In<uint32_t> ids, In<float> weights, In<T> shared, In<T> shared_w, In<float> gates,
                            In<T> add, uint32_t experts, uint32_t top_k, uint32_t outputs, uint32_t inputs, uint32_t shared_inputs,
                            uint32_t wide, uint32_t shared_wide) {
    constexpr int R = 4;
    __shared__ float parts[32][R], shared_parts[kDownWarps][R];
    unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    uint32_t row = blockIdx.y, first = blockIdx.x * R;
    for (uint32_t i = warp; i < top_k; i += kDownWarps) {
        uint32_t pair = row * top_k + i, expert = ids[pair];
        float sum[1][R] = {}, squares[1];
        if (expert < experts) {
            auto row_of = [&](int r) { return (static_cast<size_t>(expert) * outputs + min(first + r, outputs - 1)) * inputs; };
            dots<1, R, false, T>(sum, squares, h + static_cast<size_t>(pair) * inputs, w, {}, row_of, 1, inputs, 0, 1, wide);
        }
        if (lane == 0)
#pragma unroll
            for (int r = 0; r < R; r++) parts[i][r] = weights[pair] * sum[0][r];
    }
    if (shared_w) {
        float sum[1][R], squares[1];
        auto row_of = [&](int r) { return static_cast<size_t>(min(first + r, outputs - 1)) * shared_inputs; };
        dots<1, R, false, T>(sum, squares, shared + static_cast<size_t>(row) * shared_inputs, shared_w, {}, row_of, 1, shared_inputs, warp,
                             kDownWarps, shared_wide);
        if (lane == 0)
#pragma unroll
            for (int r = 0; r < R; r++) shared_parts[warp][r] = sum[0][r];
    }
    __syncthreads();
    uint32_t n = first + threadIdx.x;
    if (threadIdx.x >= R || n >= outputs) return;
    size_t at = static_cast<size_t>(row) * outputs + n;
    float total = 0.0f;
    if (shared_w) {
        for (unsigned part = 0; part < kDownWarps; part++) total += shared_parts[part][threadIdx.x];
        total *= gates[row];
    } else if (shared) {
        total = gates[row] * widen(shared[at]);
    }
    for (uint32_t i = 0; i < top_k; i++) total += parts[i][threadIdx.x];
    out[at] = narrow<T>(add ? widen(add[at]) + total : total);
}
KERNEL(expert_down, 256, expert_down<T>,
       (Out<T> out, In<T> h, In<T> w, In<uint32_t> ids, In<float> weights, In<T> shared, In<T> shared_w, In<float> gates, In<T> add,
        uint32_t experts, uint32_t top_k, uint32_t outputs, uint32_t inputs, uint32_t shared_inputs, uint32_t wide, uint32_t shared_wide),
       (out, h, w, ids, weights, shared, shared_w, gates, add, experts, top_k, outputs, inputs, shared_inputs, wide, shared_wide))

/// Pairs of rows and experts in the order of their experts, pairs of one expert in their own order: `rows[place]` is the row of the pair at
/// a place, `places[pair]` the place of a pair (none if it has no expert). `tiles` lists expert, first place and end of every `tile` pairs of
/// an expert, `tile_count` in all, those after the last with no expert. One block of at least `experts` threads. The first `chunks` warps have
/// neighbouring pairs each, which they count and then place 32 at a time. Shared memory: [chunks][experts] counts, which become the place
/// of the chunk's next pair.
__device__ void dispatch_experts(Out<uint32_t> rows, Out<uint32_t> places, Out<uint32_t> tiles, In<uint32_t> ids, uint32_t pairs, uint32_t top_k,
                         uint32_t experts, uint32_t tile, uint32_t tile_count, uint32_t chunks) {
    __shared__ uint32_t pairs_before[kWarp], tiles_before[kWarp], all_tiles;
    Shared<uint32_t> next = shared_as<uint32_t>();
    unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    uint32_t each = (pairs + chunks - 1) / chunks, begin = min(warp * each, pairs), end = min(begin + each, pairs);
    if (warp >= chunks) begin = end = pairs;
    for (unsigned i = threadIdx.x; i < chunks * experts; i += blockDim.x) next[i] = 0;
    __syncthreads();
    for (uint32_t pair = begin + lane; pair < end; pair += kWarp)
        if (ids[pair] < experts) atomicAdd(&next[warp * experts + ids[pair]], 1u);
    __syncthreads();

    // A thread per expert: how many pairs and tiles the experts before it have.
    uint32_t expert = threadIdx.x, count = 0;
    if (expert < experts)
        for (uint32_t c = 0; c < chunks; c++) count += next[c * experts + expert];
    uint32_t own_tiles = (count + tile - 1) / tile, place = count, tile_at = own_tiles;
    for (unsigned lanes = 1; lanes < kWarp; lanes *= 2) {
        uint32_t more = __shfl_up_sync(kAllLanes, place, lanes), more_tiles = __shfl_up_sync(kAllLanes, tile_at, lanes);
        if (lane < lanes) continue;
        place += more;
        tile_at += more_tiles;
    }
    if (lane == kWarp - 1) {
        pairs_before[warp] = place;
        tiles_before[warp] = tile_at;
    }
    __syncthreads();
    for (unsigned w = 0; w < warp; w++) {
        place += pairs_before[w];
        tile_at += tiles_before[w];
    }
    if (threadIdx.x == blockDim.x - 1) all_tiles = tile_at;
    place -= count;
    tile_at -= own_tiles;
    if (expert < experts) {
        uint32_t last = place + count;
        for (uint32_t first = place; first < last; first += tile, tile_at++) {
            tiles[3 * tile_at] = expert;
            tiles[3 * tile_at + 1] = first;
            tiles[3 * tile_at + 2] = min(first + tile, last);
        }
        for (uint32_t c = 0; c < chunks; c++) {
            uint32_t of_chunk = next[c * experts + expert];
            next[c * experts + expert] = place;
            place += of_chunk;
        }
    }
    __syncthreads();
    for (uint32_t i = 3 * all_tiles + threadIdx.x; i < 3 * tile_count; i += blockDim.x) tiles[i] = kNone;

    for (uint32_t first = begin; first < end; first += kWarp) {
        uint32_t pair = first + lane, id = pair < end ? ids[pair] : kNone, before = 0, alike = 0;
#pragma unroll
        for (unsigned l = 0; l < kWarp; l++) {
            bool same = __shfl_sync(kAllLanes, id, l) == id;
            before += same && l < lane;
            alike += same;
        }
        bool has_expert = id < experts;
        uint32_t at = has_expert ? next[warp * experts + id] + before : kNone;
        __syncwarp();
        if (has_expert && before + 1 == alike) next[warp * experts + id] = at + 1;
        __syncwarp();
        if (pair < end) places[pair] = at;
        if (has_expert) rows[at] = pair / top_k;
    }
}
PLAIN_KERNEL(dispatch, 1024, dispatch_experts,
             (Out<uint32_t> rows, Out<uint32_t> places, Out<uint32_t> tiles, In<uint32_t> ids, uint32_t pairs, uint32_t top_k,
              uint32_t experts, uint32_t tile, uint32_t tile_count, uint32_t chunks),
             (rows, places, tiles, ids, pairs, top_k, experts, tile, tile_count, chunks))

// Epilogue of `expert_down`, for results `y [pairs, width]` in dispatch order. Reads top_k rows (and shared, add),
// writes one.
template <typename T>
__device__ void combine(Out<T> out, In<T> y, In<uint32_t> places, In<float> weights, In<T> shared, In<float> gates, In<T> add, uint32_t top_k,
                        uint32_t width) {
    uint32_t row = blockIdx.x;
    for (unsigned c = threadIdx.x; c < width; c += blockDim.x) {
        size_t at = static_cast<size_t>(row) * width + c;
        float total = shared ? gates[row] * widen(shared[at]) : 0.0f;
        for (uint32_t pair = row * top_k; pair < (row + 1) * top_k; pair++)
            if (places[pair] != kNone) total += weights[pair] * widen(y[static_cast<size_t>(places[pair]) * width + c]);
        out[at] = narrow<T>(add ? widen(add[at]) + total : total);
    }
}
KERNEL(combine, 1024, combine<T>,
       (Out<T> out, In<T> y, In<uint32_t> places, In<float> weights, In<T> shared, In<float> gates, In<T> add, uint32_t top_k, uint32_t width),
       (out, y, places, weights, shared, gates, add, top_k, width))
