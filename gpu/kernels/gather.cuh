// Rows picked from a table.
#pragma once
#include "omni.cuh"

/// `out[i] = x[index[i * stride]]` for rows of `width`; of rows beyond `rows`, zeros. Reads and writes each picked row once.
template <typename T>
__device__ void gather(Out<T> out, In<T> x, In<uint32_t> index, uint32_t stride, uint32_t rows, uint32_t width, uint32_t wide) {
    uint32_t row = index[static_cast<size_t>(blockIdx.x) * stride];
    out += static_cast<size_t>(blockIdx.x) * width;
    bool there = row < rows;
    if (there) x = x + static_cast<size_t>(row) * width;
    if (wide) {
        for (unsigned c = threadIdx.x * 8; c < width; c += blockDim.x * 8) store8(out, c, there ? load8(x, c) : Eight{});
    } else {
        for (unsigned c = threadIdx.x; c < width; c += blockDim.x) out[c] = there ? x[c] : narrow<T>(0.0f);
    }
}
