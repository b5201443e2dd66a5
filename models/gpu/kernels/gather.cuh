// Rows picked from a table.
#pragma once
#include "omni.cuh"

/// `out = table[row]`, a row of `width`; of rows beyond `rows`, zeros. A block has a row.
template <typename T>
__device__ __forceinline__ void copy_row(Out<T> out, In<T> table, uint32_t row, uint32_t rows, uint32_t width, uint32_t wide) {
    bool there = row < rows;
    if (there) table = table + static_cast<size_t>(row) * width;
    if (wide) {
        for (unsigned c = threadIdx.x * 8; c < width; c += blockDim.x * 8) store8(out, c, there ? load8(table, c) : Eight{});
    } else {
        for (unsigned c = threadIdx.x; c < width; c += blockDim.x) out[c] = there ? table[c] : narrow<T>(0.0f);
    }
}

/// `out[i] = x[index[i * stride]]` for rows of `width`; of rows beyond `rows`, zeros. Reads and writes each picked row once.
template <typename T>
__device__ void gather(Out<T> out, In<T> x, In<uint32_t> index, uint32_t stride, uint32_t rows, uint32_t width, uint32_t wide) {
    copy_row<T>(out + static_cast<size_t>(blockIdx.x) * width, x, index[static_cast<size_t>(blockIdx.x) * stride], rows, width, wide);
}
