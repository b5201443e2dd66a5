// Rows picked from tables and put back: lookups, gathers, scatters, plain copies. All are bound by the bytes they move.
//
// One block per row. An index of 0xffffffff names no row: it reads as zeros and is never written.
#include "gather.cuh"

/// `to[i] = from[i]`, words of 4 bytes; `wide`: both begin at multiples of 16 bytes. A thread has four loads of 16 bytes under way.
__device__ void copy_words(Out<uint32_t> to, In<uint32_t> from, uint32_t words, uint32_t wide) {
    constexpr unsigned kAhead = 4;
    size_t step = static_cast<size_t>(gridDim.x) * blockDim.x, first = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    size_t packs = wide ? words / 4 : 0;
    In<Bytes16> read = retyped<const Bytes16>(from);
    Out<Bytes16> write = retyped<Bytes16>(to);
    for (size_t i = first; i < packs; i += kAhead * step) {
        Bytes16 held[kAhead];
#pragma unroll
        for (unsigned a = 0; a < kAhead; a++)
            if (i + a * step < packs) held[a] = read[i + a * step];
#pragma unroll
        for (unsigned a = 0; a < kAhead; a++)
            if (i + a * step < packs) write[i + a * step] = held[a];
    }
    for (size_t i = packs * 4 + first; i < words; i += step) to[i] = from[i];
}
PLAIN_KERNEL(copy, 256, copy_words, (Out<uint32_t> to, In<uint32_t> from, uint32_t words, uint32_t wide), (to, from, words, wide))

/// `to[i] = word`.
__device__ void fill_words(Out<uint32_t> to, uint32_t word, uint32_t words) {
    size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += step) to[i] = word;
}
PLAIN_KERNEL(fill, 256, fill_words, (Out<uint32_t> to, uint32_t word, uint32_t words), (to, word, words))

KERNEL(gather, 1024, gather<T>,
       (Out<T> out, In<T> x, In<uint32_t> index, uint32_t stride, uint32_t rows, uint32_t width, uint32_t wide),
       (out, x, index, stride, rows, width, wide))

/// Pairs of rows: `out[2 i] = x[index[i]]` and `out[2 i + 1] = table[ids[i * stride]]`, zeros where there is no such row. One block per
/// row of `out`.
template <typename T>
__device__ void pair_rows(Out<T> out, In<T> x, In<T> table, In<uint32_t> index, In<uint32_t> ids, uint32_t rows, uint32_t table_rows,
                          uint32_t stride, uint32_t width, uint32_t wide) {
    uint32_t pair = blockIdx.x / 2;
    out += static_cast<size_t>(blockIdx.x) * width;
    if (blockIdx.x % 2 == 0) copy_row<T>(out, x, index[pair], rows, width, wide);
    else copy_row<T>(out, table, ids[static_cast<size_t>(pair) * stride], table_rows, width, wide);
}
KERNEL(pair_rows, 1024, pair_rows<T>,
       (Out<T> out, In<T> x, In<T> table, In<uint32_t> index, In<uint32_t> ids, uint32_t rows, uint32_t table_rows, uint32_t stride,
        uint32_t width, uint32_t wide),
       (out, x, table, index, ids, rows, table_rows, stride, width, wide))

/// `acc[index[i]] += weight[i] * x[i]`, no row named twice. One block per row of x. Reads x and acc, writes acc.
template <typename T>
__device__ void scatter_add(Out<T> acc, In<T> x, In<uint32_t> index, In<float> weight, uint32_t rows, uint32_t width) {
    uint32_t row = index[blockIdx.x];
    if (row >= rows) return;
    float factor = weight ? weight[blockIdx.x] : 1.0f;
    acc += static_cast<size_t>(row) * width;
    x = x + static_cast<size_t>(blockIdx.x) * width;
    for (unsigned c = threadIdx.x; c < width; c += blockDim.x) acc[c] = narrow<T>(widen(acc[c]) + factor * widen(x[c]));
}
KERNEL(scatter_add, 1024, scatter_add<T>,
       (Out<T> acc, In<T> x, In<uint32_t> index, In<float> weight, uint32_t rows, uint32_t width),
       (acc, x, index, weight, rows, width))

/// As scatter_add where rows may be named more than once: a thread per column adds them in order.
template <typename T>
__device__ void scatter_add_in_order(Out<T> acc, In<T> x, In<uint32_t> index, In<float> weight, uint32_t count, uint32_t rows,
                                     uint32_t width) {
    unsigned c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= width) return;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = index[i];
        if (row >= rows) continue;
        size_t at = static_cast<size_t>(row) * width + c;
        float factor = weight ? weight[i] : 1.0f;
        acc[at] = narrow<T>(widen(acc[at]) + factor * widen(x[static_cast<size_t>(i) * width + c]));
    }
}
KERNEL(scatter_add_in_order, 256, scatter_add_in_order<T>,
       (Out<T> acc, In<T> x, In<uint32_t> index, In<float> weight, uint32_t count, uint32_t rows, uint32_t width),
       (acc, x, index, weight, count, rows, width))

/// `out[i]` = mean of `table[ids[i * group ..][.. group]]`. Reads `group` rows, writes one.
template <typename T>
__device__ void lookup_mean(Out<T> out, In<T> table, In<uint32_t> ids, uint32_t rows, uint32_t width, uint32_t group) {
    ids = ids + static_cast<size_t>(blockIdx.x) * group;
    out += static_cast<size_t>(blockIdx.x) * width;
    for (unsigned c = threadIdx.x; c < width; c += blockDim.x) {
        float sum = 0.0f;
        for (unsigned i = 0; i < group; i++) {
            uint32_t id = ids[i];
            if (id < rows) sum += widen(table[static_cast<size_t>(id) * width + c]);
        }
        out[c] = narrow<T>(sum / static_cast<float>(group));
    }
}
KERNEL(lookup_mean, 1024, lookup_mean<T>,
       (Out<T> out, In<T> table, In<uint32_t> ids, uint32_t rows, uint32_t width, uint32_t group),
       (out, table, ids, rows, width, group))

// `acc[index[i]] += sum over g of tables[g][ids[from[i] * stride + g]]`; without an index row i, without a `from` ids
// of row i. `tables` holds pairs: a table's address, its rows. Rows of acc must be distinct; ids out of range add
// nothing. Reads `groups` rows and acc, writes acc.
template <typename T>
__device__ void lookup_sum(Out<T> acc, In<uint64_t> tables, In<uint32_t> ids, In<uint32_t> index, In<uint32_t> from, uint32_t rows,
                           uint32_t width, uint32_t groups, uint32_t stride, uint32_t id_rows) {
    uint32_t row = index ? index[blockIdx.x] : blockIdx.x, of_ids = from ? from[blockIdx.x] : blockIdx.x;
    if (row >= rows || of_ids >= id_rows) return;
    ids = ids + static_cast<size_t>(of_ids) * stride;
    acc += static_cast<size_t>(row) * width;
    for (unsigned c = threadIdx.x; c < width; c += blockDim.x) {
        float sum = 0.0f;
        for (unsigned g = 0; g < groups; g++) {
            uint32_t id = ids[g];
            if (id < tables[2 * g + 1]) sum += widen(at_address<const T>(tables[2 * g])[static_cast<size_t>(id) * width + c]);
        }
        acc[c] = narrow<T>(widen(acc[c]) + sum);
    }
}
KERNEL(lookup_sum, 1024, lookup_sum<T>,
       (Out<T> acc, In<uint64_t> tables, In<uint32_t> ids, In<uint32_t> index, In<uint32_t> from, uint32_t rows, uint32_t width,
        uint32_t groups, uint32_t stride, uint32_t id_rows),
       (acc, tables, ids, index, from, rows, width, groups, stride, id_rows))

// `to[index[i]] = from[i]` for rows of `width` words; rows must be distinct, and those out of range are skipped.
__device__ void put_rows(Out<uint32_t> to, In<uint32_t> from, In<uint32_t> index, uint32_t rows, uint32_t width) {
    uint32_t row = index[blockIdx.x];
    if (row >= rows) return;
    to += static_cast<size_t>(row) * width;
    from = from + static_cast<size_t>(blockIdx.x) * width;
    for (unsigned c = threadIdx.x; c < width; c += blockDim.x) to[c] = from[c];
}
PLAIN_KERNEL(put, 256, put_rows, (Out<uint32_t> to, In<uint32_t> from, In<uint32_t> index, uint32_t rows, uint32_t width),
             (to, from, index, rows, width))

// `to[i] = from[index[i]]` for rows of `width` words; 0xffffffff for rows out of range.
__device__ void take_rows(Out<uint32_t> to, In<uint32_t> from, In<uint32_t> index, uint32_t rows, uint32_t width) {
    uint32_t row = index[blockIdx.x];
    to += static_cast<size_t>(blockIdx.x) * width;
    bool there = row < rows;
    if (there) from = from + static_cast<size_t>(row) * width;
    for (unsigned c = threadIdx.x; c < width; c += blockDim.x) to[c] = there ? from[c] : kNone;
}
PLAIN_KERNEL(take, 256, take_rows, (Out<uint32_t> to, In<uint32_t> from, In<uint32_t> index, uint32_t rows, uint32_t width),
             (to, from, index, rows, width))
