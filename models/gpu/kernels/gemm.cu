// Products of many rows with a matrix: out = add + scale * activation(A W^T + bias), A as `source.cuh` says, W [outputs, inputs]; or, with a
// `half`, silu(A G^T) * (A U^T) for W = [G | U] of so many rows each.
//
// A block makes BM x BN outputs, walking along the inputs BK at a time: while the tensor cores multiply what is in shared memory, copies of
// the next pieces are under way into it, and no register holds them. W is read once per BM rows, A once per BN outputs.
//
// With few rows (decoding of a batch) there are few such blocks and W is all that matters: `splits` blocks share the inputs of a tile, and
// the last of them to come adds up what all have left in device memory, in their order.
#include "omni.cuh"
#include "source.cuh"

// Fragment of a matrix for the tensor cores. With the address space in its name this is one instruction; the header's
// own function loads a bf16 fragment element by element.
#ifdef OMNI_EMULATED
template <typename F>
void load_piece(F& to, Shared<bf16> from, unsigned stride) {
    nvcuda::wmma::load_matrix_sync(to, from, stride);
}
#else
__device__ __forceinline__ void load_piece(nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, bf16, nvcuda::wmma::row_major>& to,
                                           const bf16* from, unsigned stride) {
    uint32_t word[4];
    asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(from))), "r"(stride)
                 : "memory");
    memcpy(to.x, word, sizeof word);
}
__device__ __forceinline__ void load_piece(nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, bf16, nvcuda::wmma::col_major>& to,
                                           const bf16* from, unsigned stride) {
    uint32_t word[4];
    asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(from))), "r"(stride)
                 : "memory");
    memcpy(to.x, word, sizeof word);
}
#endif

// Epilogue of a product, and its tiling.
struct Finish {
    uint32_t outputs, half, activation, splits, wide_out;
};
/// The activation `x + sin(x * scale)^2 * shift` per channel, which leaves no other use for `scale`.
constexpr uint32_t kSnake = 3;

// Eight neighbouring results of a row, from element `at` on: their sums and, if gated, those of the other half.
__device__ __forceinline__ void finish8(Out<bf16> out, const Eight& sum, const Eight& up, size_t at, uint32_t n, const Finish& f,
                                        In<float> bias, In<float> scale, In<float> shift, In<bf16> add) {
    uint32_t width = f.half ? f.half : f.outputs;
    Eight v, added{};
    bool whole = f.wide_out != 0;
    if (add && whole) added = load8(add, at);
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
        v.v[i] = f.half ? silu(sum.v[i]) * up.v[i] : sum.v[i];
        if (n + i >= width) continue;
        if (bias) v.v[i] += bias[n + i];
        if (f.activation == kSnake) {
            v.v[i] = snaked(v.v[i], scale[n + i], shift[n + i]);
        } else {
            v.v[i] = activated(f.activation, v.v[i]);
            if (scale) v.v[i] *= scale[n + i];
        }
        if (add) v.v[i] += whole ? added.v[i] : widen(add[at + i]);
        if (!whole) out[at + i] = narrow<bf16>(v.v[i]);
    }
    if (whole) store8(out, at, v);
}

/// bf16 on tensor cores. WM x WN warps over the tile, WK over the inputs. Shared memory: `STAGES` times (BM + BN) * (BK + 8) elements, in
/// which the sums [WK][BM][BN] meet at the end. `partial [tiles][splits][BM][BN]`, `counters [tiles]` zeros before and after.
template <int BM, int BN, int BK, int STAGES, int WM, int WN, int WK>
__device__ void gemm_of_bf16(Out<bf16> out, In<bf16> x, In<bf16> w, In<float> bias, In<float> scale, In<float> shift, In<bf16> add,
                             In<uint32_t> index, In<uint32_t> from, In<uint32_t> tiles, Out<float> partial, Out<uint32_t> counters, Source s, Finish f) {
    using namespace nvcuda;
    constexpr unsigned kThreads = WM * WN * WK * kWarp;
    // Padded by eight, so that rows begin in different banks.
    constexpr int kStride = BK + 8, kPacks = BK / 8, kRows = kThreads / kPacks, kStage = (BM + BN) * kStride;
    constexpr int kOfA = (BM + kRows - 1) / kRows, kOfW = (BN + kRows - 1) / kRows;
    constexpr int FM = BM / WM / 16, FN = BN / WN / 16;
    static_assert(BK % (16 * WK) == 0 && BM % (16 * WM) == 0 && BN % (16 * WN) == 0 && BN % 16 == 0);
    static_assert(WK * BM * BN * 4 <= STAGES * kStage * 2, "the sums fit where the pieces were");

    if (tiles) wait_for_launches_before();
    Tile tile = tile_of<BM>(tiles, s.rows);
    if (tile.matrix == kNone) return;
    w = w + static_cast<size_t>(tile.matrix) * f.outputs * s.inputs;
    unsigned row_in_pass = threadIdx.x / kPacks, pack = threadIdx.x % kPacks;
    Shared<bf16> pieces = shared_as<bf16>();
    // Half of a gated tile's columns are of G, half of U.
    uint32_t of_out = f.half ? BN / 2 : BN, first_n = blockIdx.x * of_out, width = f.half ? f.half : f.outputs;
    auto row_of_w = [&](uint32_t column) {
        // For some tiles a pass has more rows than remain.
        if (BN % kRows != 0 && column >= BN) return kNone;
        uint32_t n = first_n + column % of_out;
        return n < width ? n + column / of_out * f.half : kNone;
    };

    uint32_t base[kOfA], of_w[kOfW];
#pragma unroll
    for (int i = 0; i < kOfW; i++) of_w[i] = row_of_w(row_in_pass + i * kRows);
    uint32_t rounds = (s.inputs + BK - 1) / BK, each = (rounds + f.splits - 1) / f.splits;
    uint32_t round = min(blockIdx.z * each, rounds), last = min(round + each, rounds);
    // No launch writes W, but one sets the matrix of each tile.
    if (!tiles) {
#pragma unroll
        for (int stage = 0; stage < STAGES - 1; stage++)
#pragma unroll
            for (int i = 0; i < kOfW; i++) {
                uint32_t at = (round + stage) * BK + pack * 8;
                if (pack % 8 == 0 && of_w[i] != kNone && round + stage < last && at < s.inputs) prefetch(w + (static_cast<size_t>(of_w[i]) * s.inputs + at));
            }
        wait_for_launches_before();
    }
#pragma unroll
    for (int i = 0; i < kOfA; i++) base[i] = source_row(s, index, from, tile.first + row_in_pass + i * kRows, tile.end);

    // Start of this thread's next piece.
    uint32_t k = round * BK + pack * 8, tap = k / s.channels, in_tap = k - tap * s.channels;
    auto ask = [&](uint32_t stage) {
        Shared<bf16> to = pieces + stage * kStage;
#pragma unroll
        for (int i = 0; i < kOfA; i++) {
            unsigned row = row_in_pass + i * kRows;
            if (BM % kRows != 0 && row >= BM) break;
            Shared<Bytes16> place = retyped<Bytes16>(to + (row * kStride + pack * 8));
            bool there = base[i] != kNone && k < s.inputs;
            if (s.wide) copy_async(place, retyped<const Bytes16>(x + (there ? static_cast<size_t>(base[i] + tap * s.dilation) * s.channels + in_tap : 0)), there);
            else *place = source_pack<bf16>(s, x, base[i], k).part[0];
        }
#pragma unroll
        for (int i = 0; i < kOfW; i++) {
            unsigned row = row_in_pass + i * kRows;
            if (BN % kRows != 0 && row >= BN) break;
            Shared<Bytes16> place = retyped<Bytes16>(to + ((BM + row) * kStride + pack * 8));
            bool there = of_w[i] != kNone && k < s.inputs;
            if (s.wide) copy_async(place, retyped<const Bytes16>(w + (there ? static_cast<size_t>(of_w[i]) * s.inputs + k : 0)), there);
            else *place = weight_pack<bf16>(s, w, of_w[i], f.outputs, k).part[0];
        }
        k += BK;
        in_tap += BK;
        while (in_tap >= s.channels) {
            in_tap -= s.channels;
            tap++;
        }
    };

    unsigned warp = threadIdx.x / kWarp, warp_k = warp % WK, warp_n = warp / WK % WN, warp_m = warp / WK / WN;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[FM][FN];
#pragma unroll
    for (int m = 0; m < FM; m++)
#pragma unroll
        for (int n = 0; n < FN; n++) wmma::fill_fragment(sum[m][n], 0.0f);

#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++) {
        if (round + stage < last) ask(stage);
        copies_asked();
    }
    uint32_t stage = 0;
#pragma unroll 1
    for (; round < last; round++) {
        // The oldest stage has arrived, and no thread reads the one to be filled next.
        wait_copies<STAGES - 2>();
        __syncthreads();
        if (round + STAGES - 1 < last) ask(stage == 0 ? STAGES - 1 : stage - 1);
        copies_asked();
        Shared<bf16> of_a = pieces + stage * kStage, of_b = of_a + BM * kStride;
#pragma unroll
        for (int step = 0; step < BK / 16 / WK; step++) {
            unsigned at = (step * WK + warp_k) * 16;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> b[FN];
#pragma unroll
            for (int n = 0; n < FN; n++) load_piece(b[n], of_b + ((warp_n * FN + n) * 16 * kStride + at), kStride);
#pragma unroll
            for (int m = 0; m < FM; m++) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> a;
                load_piece(a, of_a + ((warp_m * FM + m) * 16 * kStride + at), kStride);
#pragma unroll
                for (int n = 0; n < FN; n++) wmma::mma_sync(sum[m][n], a, b[n], sum[m][n]);
            }
        }
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    wait_copies<0>();
    __syncthreads();

    Shared<float> sums = shared_as<float>();
#pragma unroll
    for (int m = 0; m < FM; m++)
#pragma unroll
        for (int n = 0; n < FN; n++)
            wmma::store_matrix_sync(sums + ((warp_k * BM + (warp_m * FM + m) * 16) * BN + (warp_n * FN + n) * 16), sum[m][n], BN,
                                    wmma::mem_row_major);
    __syncthreads();
    auto own = [&](unsigned at) {
        Eight v = read8(sums, at);
#pragma unroll
        for (int part = 1; part < WK; part++) {
            Eight more = read8(sums, part * BM * BN + at);
#pragma unroll
            for (int i = 0; i < 8; i++) v.v[i] += more.v[i];
        }
        return v;
    };

    size_t number = static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x;
    if (f.splits > 1) {
        Out<float> mine = partial + (number * f.splits + blockIdx.z) * (BM * BN);
        for (unsigned at = threadIdx.x * 8; at < BM * BN; at += kThreads * 8) store8(mine, at, own(at));
        if (!is_last_block(counters + number, f.splits)) return;
    }
    auto total = [&](unsigned at) {
        if (f.splits == 1) return own(at);
        Out<float> all = partial + number * f.splits * (BM * BN);
        Eight v = load8_of_others(all, at);
        for (uint32_t split = 1; split < f.splits; split++) {
            Eight more = load8_of_others(all, static_cast<size_t>(split) * (BM * BN) + at);
#pragma unroll
            for (int i = 0; i < 8; i++) v.v[i] += more.v[i];
        }
        return v;
    };
    for (unsigned item = threadIdx.x; item < BM * of_out / 8; item += kThreads) {
        unsigned m = item / (of_out / 8), column = item % (of_out / 8) * 8;
        uint32_t row = tile.first + m, n = first_n + column;
        if (row >= tile.end || n >= width) continue;
        Eight v = total(m * BN + column), up = f.half ? total(m * BN + of_out + column) : Eight{};
        finish8(out, v, up, static_cast<size_t>(row) * width + n, n, f, bias, scale, shift, add);
    }
}

#define GEMM_PARAMS(T)                                                                                                            \
    (Out<T> out, In<T> x, In<T> w, In<float> bias, In<float> scale, In<float> shift, In<T> add, In<uint32_t> index,               \
     In<uint32_t> from, In<uint32_t> tiles, Out<float> partial, Out<uint32_t> counters, uint32_t rows, uint32_t outputs, uint32_t inputs,            \
     uint32_t channels, uint32_t dilation, uint32_t signals, uint32_t keep, uint32_t activation, uint32_t wide, uint32_t half,    \
     uint32_t splits, uint32_t wide_out)
#define GEMM_ARGS                                                                                                                 \
    (out, x, w, bias, scale, shift, add, index, from, tiles, partial, counters, Source{rows, inputs, channels, dilation, signals, keep, wide}, \
     Finish{outputs, half, activation, splits, wide_out})

EARLY_PLAIN_KERNEL(gemm_16, 128, (gemm_of_bf16<16, 32, 128, 3, 1, 1, 4>), GEMM_PARAMS(bf16), GEMM_ARGS)
EARLY_PLAIN_KERNEL(gemm_32, 128, (gemm_of_bf16<32, 32, 128, 3, 1, 1, 4>), GEMM_PARAMS(bf16), GEMM_ARGS)
EARLY_PLAIN_KERNEL(gemm_64, 128, (gemm_of_bf16<64, 32, 64, 4, 1, 1, 4>), GEMM_PARAMS(bf16), GEMM_ARGS)
EARLY_PLAIN_KERNEL(gemm_64x64, 128, (gemm_of_bf16<64, 64, 64, 3, 2, 2, 1>), GEMM_PARAMS(bf16), GEMM_ARGS)
EARLY_PLAIN_KERNEL(gemm_128x96, 256, (gemm_of_bf16<128, 96, 32, 4, 4, 2, 1>), GEMM_PARAMS(bf16), GEMM_ARGS)
EARLY_PLAIN_KERNEL(gemm_128x128, 256, (gemm_of_bf16<128, 128, 32, 4, 2, 4, 1>), GEMM_PARAMS(bf16), GEMM_ARGS)

/// f32 without tensor cores, which would round the factors: 64 x 64 sums per block, 8 x 4 per thread. For checking, not for speed:
/// one block has all inputs of a tile.
__device__ void gemm_of_f32(Out<float> out, In<float> x, In<float> w, In<float> bias, In<float> scale, In<float> shift, In<float> add,
                            In<uint32_t> index, In<uint32_t> from, In<uint32_t> tiles, Out<float>, Out<uint32_t>, Source s, Finish f) {
    constexpr unsigned BM = 64, BN = 64, BK = 16, kStride = 64 + 4;
    // By input, so that a thread's rows and outputs are adjacent.
    __shared__ float of_a[BK * kStride], of_w[BK * kStride];
    Tile tile = tile_of<BM>(tiles, s.rows);
    if (tile.matrix == kNone) return;
    w = w + static_cast<size_t>(tile.matrix) * f.outputs * s.inputs;
    // Two of a gated product's four neighbouring columns are of G, two of U.
    uint32_t first_n = blockIdx.x * (f.half ? BN / 2 : BN), width = f.half ? f.half : f.outputs;
    auto row_of_w = [&](uint32_t column) {
        uint32_t n = first_n + (f.half ? column / 4 * 2 + column % 2 : column);
        return n < width ? n + (f.half && column % 4 >= 2 ? f.half : 0) : kNone;
    };
    unsigned row = threadIdx.x / 2, part = threadIdx.x % 2 * 8;
    unsigned my_m = threadIdx.x / 16 * 8, my_n = threadIdx.x % 16 * 4;
    uint32_t base = source_row(s, index, from, tile.first + row, tile.end);
    uint32_t of_w_row = row_of_w(row);
    float sum[8][4] = {};
    for (uint32_t k = 0; k < s.inputs; k += BK) {
        Eight a = unpacked(source_pack<float>(s, x, base, k + part)), b = unpacked(weight_pack<float>(s, w, of_w_row, f.outputs, k + part));
#pragma unroll
        for (unsigned i = 0; i < 8; i++) {
            of_a[(part + i) * kStride + row] = a.v[i];
            of_w[(part + i) * kStride + row] = b.v[i];
        }
        __syncthreads();
#pragma unroll
        for (unsigned i = 0; i < BK; i++) {
            float of_m[8], of_n[4];
#pragma unroll
            for (int m = 0; m < 8; m++) of_m[m] = of_a[i * kStride + my_m + m];
#pragma unroll
            for (int n = 0; n < 4; n++) of_n[n] = of_w[i * kStride + my_n + n];
#pragma unroll
            for (int m = 0; m < 8; m++)
#pragma unroll
                for (int n = 0; n < 4; n++) sum[m][n] += of_m[m] * of_n[n];
        }
        __syncthreads();
    }
    int made = f.half ? 2 : 4;
#pragma unroll
    for (int m = 0; m < 8; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t r = tile.first + my_m + m, n = first_n + (f.half ? my_n / 2 : my_n) + i;
            if (i >= made || r >= tile.end || n >= width) continue;
            size_t at = static_cast<size_t>(r) * width + n;
            float v = f.half ? silu(sum[m][i]) * sum[m][(i + 2) % 4] : sum[m][i];
            if (bias) v += bias[n];
            if (f.activation == kSnake) {
                v = snaked(v, scale[n], shift[n]);
            } else {
                v = activated(f.activation, v);
                if (scale) v *= scale[n];
            }
            out[at] = add ? add[at] + v : v;
        }
}
PLAIN_KERNEL(gemm_plain, 128, gemm_of_f32, GEMM_PARAMS(float), GEMM_ARGS)
