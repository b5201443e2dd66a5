// Left operand of a large product: rows of x in order, gathered by index, or as windows over padded signals.
#pragma once
#include "omni.cuh"
#include "signal.cuh"

/// Row r of the left side is x's row `base(r)`, then the one `dilation` further on, and so on: `inputs / channels` of them, with
/// `channels` elements each.
struct Source {
    uint32_t rows, inputs, channels, dilation, signals, keep, wide;
};

// Start of a row's window, or none.
__device__ __forceinline__ uint32_t source_row(const Source& s, In<uint32_t> index, In<uint32_t> from, uint32_t row, uint32_t end) {
    if (row >= end) return kNone;
    if (index) return index[row];
    if (from) return row + signal_of(from, s.signals, row) * s.keep;
    return row;
}

// Eight elements of the window that begins at `base`, from element `k` on; zeros out of range.
template <typename T>
__device__ __forceinline__ Packed<T> source_pack(const Source& s, In<T> x, uint32_t base, uint32_t k) {
    Packed<T> out = {};
    if (base == kNone || k >= s.inputs) return out;
    if (s.wide) {
        uint32_t tap = s.channels == s.inputs ? 0 : k / s.channels;
        size_t at = static_cast<size_t>(base + tap * s.dilation) * s.channels + (k - tap * s.channels);
        return load_packed<T>(x, at);
    }
    T one[8];
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t tap = (k + i) / s.channels;
        size_t at = static_cast<size_t>(base + tap * s.dilation) * s.channels + (k + i - tap * s.channels);
        one[i] = k + i < s.inputs ? x[at] : narrow<T>(0.0f);
    }
    memcpy(&out, one, sizeof out);
    return out;
}

// Eight elements of row `n` of W, from element `k` on; zeros out of range.
template <typename T>
__device__ __forceinline__ Packed<T> weight_pack(const Source& s, In<T> w, uint32_t n, uint32_t outputs, uint32_t k) {
    Packed<T> out = {};
    if (n >= outputs || k >= s.inputs) return out;
    size_t at = static_cast<size_t>(n) * s.inputs + k;
    if (s.wide) return load_packed<T>(w, at);
    T one[8];
    for (uint32_t i = 0; i < 8; i++) one[i] = k + i < s.inputs ? w[at + i] : narrow<T>(0.0f);
    memcpy(&out, one, sizeof out);
    return out;
}

// Rows of a tile: `first .. end` of the left operand, and the matrix to multiply with.
struct Tile {
    uint32_t matrix, first, end;
};

// Tile `y` of `BM` rows; with a list of tiles its entry, with no matrix after the last.
template <int BM>
__device__ __forceinline__ Tile tile_of(In<uint32_t> tiles, uint32_t rows) {
    uint32_t y = blockIdx.y;
    if (tiles) return {tiles[3 * y], tiles[3 * y + 1], tiles[3 * y + 2]};
    return {0, y * BM, min((y + 1) * BM, rows)};
}
