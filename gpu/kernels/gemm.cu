// Products of many rows with a matrix: out = add + scale * activation(A W^T + bias), A as `source.cuh` says, W [outputs, inputs].
//
// A block makes BM x BN outputs, walking along the inputs BK at a time: while the tensor cores multiply what is in shared memory, the
// next pieces are on their way into registers. W is read once per BM rows, A once per BN outputs. With few rows (decoding of a batch) W
// is all that matters: tiles of 16 outputs give every multiprocessor something to read, and the block's four warps share the inputs.
#include "omni.cuh"
#include "source.cuh"

constexpr unsigned kGemmThreads = 128;

/// bf16 on tensor cores. WM x WN warps over the tile, WK over the inputs, four in all. Shared memory: (BM + BN) * (BK + 8) elements, in
/// which the sums [WK][BM][BN] meet at the end.
template <int BM, int BN, int BK, int WM, int WN, int WK>
__device__ void gemm_of_bf16(Out<bf16> out, In<bf16> x, In<bf16> w, In<float> bias, In<float> scale, In<bf16> add, In<uint32_t> index,
                             In<uint32_t> from, In<uint32_t> tiles, Source s, uint32_t outputs, uint32_t activation) {
    using namespace nvcuda;
    // Eight more than needed, so that rows begin in different banks.
    constexpr int kStride = BK + 8, kPacks = BK / 8, kRows = kGemmThreads / kPacks;
    constexpr int kOfA = BM / kRows, kOfW = (BN + kRows - 1) / kRows;
    constexpr int FM = BM / WM / 16, FN = BN / WN / 16;
    static_assert(WM * WN * WK == 4 && BM % kRows == 0 && BK % (16 * WK) == 0);
    static_assert(WK * BM * BN * 4 <= (BM + BN) * kStride * 2, "the sums fit where the pieces were");

    Tile tile = tile_of<BM>(tiles, s.rows);
    if (tile.matrix == kNone) return;
    w = w + static_cast<size_t>(tile.matrix) * outputs * s.inputs;
    uint32_t first_n = blockIdx.x * BN;
    unsigned row_in_pass = threadIdx.x / kPacks, pack = threadIdx.x % kPacks;
    Shared<bf16> of_a = shared_as<bf16>(), of_w = of_a + BM * kStride;

    uint32_t base[kOfA];
#pragma unroll
    for (int i = 0; i < kOfA; i++) base[i] = source_row(s, index, from, tile.first + row_in_pass + i * kRows, tile.end);

    unsigned warp = threadIdx.x / kWarp, warp_k = warp % WK, warp_n = warp / WK % WN, warp_m = warp / WK / WN;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[FM][FN];
#pragma unroll
    for (int m = 0; m < FM; m++)
#pragma unroll
        for (int n = 0; n < FN; n++) wmma::fill_fragment(sum[m][n], 0.0f);

    Packed<bf16> next_a[kOfA], next_w[kOfW];
    auto fetch = [&](uint32_t k) {
#pragma unroll
        for (int i = 0; i < kOfA; i++) next_a[i] = source_pack<bf16>(s, x, base[i], k + pack * 8);
#pragma unroll
        for (int i = 0; i < kOfW; i++) next_w[i] = weight_pack<bf16>(s, w, first_n + row_in_pass + i * kRows, outputs, k + pack * 8);
    };
    fetch(0);
    for (uint32_t k = 0; k < s.inputs; k += BK) {
#pragma unroll
        for (int i = 0; i < kOfA; i++)
            *retyped<Bytes16>(of_a + ((row_in_pass + i * kRows) * kStride + pack * 8)) = next_a[i].part[0];
#pragma unroll
        for (int i = 0; i < kOfW; i++)
            if (BN % kRows == 0 || row_in_pass + i * kRows < BN)
                *retyped<Bytes16>(of_w + ((row_in_pass + i * kRows) * kStride + pack * 8)) = next_w[i].part[0];
        __syncthreads();
        if (k + BK < s.inputs) fetch(k + BK);
#pragma unroll
        for (int step = 0; step < BK / 16 / WK; step++) {
            unsigned at = (step * WK + warp_k) * 16;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> b[FN];
#pragma unroll
            for (int n = 0; n < FN; n++) wmma::load_matrix_sync(b[n], of_w + ((warp_n * FN + n) * 16 * kStride + at), kStride);
#pragma unroll
            for (int m = 0; m < FM; m++) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> a;
                wmma::load_matrix_sync(a, of_a + ((warp_m * FM + m) * 16 * kStride + at), kStride);
#pragma unroll
                for (int n = 0; n < FN; n++) wmma::mma_sync(sum[m][n], a, b[n], sum[m][n]);
            }
        }
        __syncthreads();
    }

    Shared<float> sums = shared_as<float>();
#pragma unroll
    for (int m = 0; m < FM; m++)
#pragma unroll
        for (int n = 0; n < FN; n++)
            wmma::store_matrix_sync(sums + ((warp_k * BM + (warp_m * FM + m) * 16) * BN + (warp_n * FN + n) * 16), sum[m][n], BN,
                                    wmma::mem_row_major);
    __syncthreads();
    for (unsigned i = threadIdx.x; i < BM * BN; i += kGemmThreads) {
        uint32_t row = tile.first + i / BN, n = first_n + i % BN;
        if (row >= tile.end || n >= outputs) continue;
        float v = sums[i];
#pragma unroll
        for (int part = 1; part < WK; part++) v += sums[part * BM * BN + i];
        size_t at = static_cast<size_t>(row) * outputs + n;
        out[at] = finished<bf16>(v, at, n, bias, scale, add, activation);
    }
}

#define GEMM_PARAMS(T)                                                                                                            \
    (Out<T> out, In<T> x, In<T> w, In<float> bias, In<float> scale, In<T> add, In<uint32_t> index, In<uint32_t> from,             \
     In<uint32_t> tiles, uint32_t rows, uint32_t outputs, uint32_t inputs, uint32_t channels, uint32_t dilation,                  \
     uint32_t signals, uint32_t keep, uint32_t activation, uint32_t wide)
#define GEMM_ARGS                                                                                                                 \
    (out, x, w, bias, scale, add, index, from, tiles, Source{rows, inputs, channels, dilation, signals, keep, wide}, outputs,     \
     activation)

PLAIN_KERNEL(gemm_16, 128, (gemm_of_bf16<16, 16, 128, 1, 1, 4>), GEMM_PARAMS(bf16), GEMM_ARGS)
PLAIN_KERNEL(gemm_32, 128, (gemm_of_bf16<32, 16, 128, 1, 1, 4>), GEMM_PARAMS(bf16), GEMM_ARGS)
PLAIN_KERNEL(gemm_64, 128, (gemm_of_bf16<64, 16, 128, 1, 1, 4>), GEMM_PARAMS(bf16), GEMM_ARGS)
PLAIN_KERNEL(gemm_large, 128, (gemm_of_bf16<64, 64, 64, 2, 2, 1>), GEMM_PARAMS(bf16), GEMM_ARGS)

/// f32 without tensor cores, which would round the factors: 64 x 64 outputs per block, 8 x 4 per thread. For checking, not for speed.
__device__ void gemm_of_f32(Out<float> out, In<float> x, In<float> w, In<float> bias, In<float> scale, In<float> add, In<uint32_t> index,
                            In<uint32_t> from, In<uint32_t> tiles, Source s, uint32_t outputs, uint32_t activation) {
    constexpr unsigned BM = 64, BN = 64, BK = 16, kStride = 64 + 4;
    // By input, so that a thread's rows and outputs are neighbours.
    __shared__ float of_a[BK * kStride], of_w[BK * kStride];
    Tile tile = tile_of<BM>(tiles, s.rows);
    if (tile.matrix == kNone) return;
    w = w + static_cast<size_t>(tile.matrix) * outputs * s.inputs;
    uint32_t first_n = blockIdx.x * BN;
    unsigned row = threadIdx.x / 2, part = threadIdx.x % 2 * 8;
    unsigned my_m = threadIdx.x / 16 * 8, my_n = threadIdx.x % 16 * 4;
    uint32_t base = source_row(s, index, from, tile.first + row, tile.end);
    float sum[8][4] = {};
    for (uint32_t k = 0; k < s.inputs; k += BK) {
        Eight a = unpacked(source_pack<float>(s, x, base, k + part)), b = unpacked(weight_pack<float>(s, w, first_n + row, outputs, k + part));
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
#pragma unroll
    for (int m = 0; m < 8; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t r = tile.first + my_m + m, n = first_n + my_n + i;
            if (r >= tile.end || n >= outputs) continue;
            size_t at = static_cast<size_t>(r) * outputs + n;
            out[at] = finished<float>(sum[m][i], at, n, bias, scale, add, activation);
        }
}
PLAIN_KERNEL(gemm_plain, 128, gemm_of_f32, GEMM_PARAMS(float), GEMM_ARGS)
