// Signals of several streams, one after another, with each stream's state of a causal convolution: its last `keep`
// rows.
//
// Signal s is rows `from[s] .. from[s + 1]`. With its past in front it begins at row `from[s] + s * keep` of the
// padded rows. Memory-bound: each row is read and written once.
#include "omni.cuh"
#include "signal.cuh"

/// `[past | act(x)]` of every signal; act is Snake if there is an `a`. `past[s]` is the address of `[keep, width]`. Of a signal's rows
/// the first `lacking[s]` are zeros, if there is a `lacking`. `rows`: of the padded signals. A thread takes eight neighbours of a row.
template <typename T>
__device__ void pad(Out<T> out, In<T> x, In<uint64_t> past, In<uint32_t> from, In<uint32_t> lacking, In<float> a, In<float> b,
                    uint32_t signals, uint32_t keep, uint32_t width, uint32_t rows, uint32_t wide) {
    uint32_t of_row = (width + 7) / 8, rows_of_block = blockDim.x / of_row;
    // Loops over rows wider than a block.
    uint32_t row = rows_of_block == 0 ? blockIdx.x : blockIdx.x * rows_of_block + threadIdx.x / of_row;
    uint32_t first = rows_of_block == 0 ? threadIdx.x : threadIdx.x % of_row, step = rows_of_block == 0 ? blockDim.x : of_row;
    if (row >= rows || (rows_of_block > 0 && threadIdx.x >= rows_of_block * of_row)) return;
    uint32_t s = signal_of_padded(from, signals, keep, row), local = row - from[s] - s * keep;
    bool is_past = local < keep, lacks = !is_past && lacking && local - keep < lacking[s];
    bool active = !is_past && a;
    In<T> source = is_past ? In<T>(at_address<const T>(past[s])) + static_cast<size_t>(local) * width
                           : x + static_cast<size_t>(from[s] + local - keep) * width;
    out += static_cast<size_t>(row) * width;
    for (uint32_t part = first; part < of_row; part += step) {
        uint32_t c = part * 8;
        if (wide) {
            Eight v = lacks ? Eight{} : load8(source, c);
            if (active && !lacks) {
                Eight of_a = load8(a, c), of_b = load8(b, c);
#pragma unroll
                for (int i = 0; i < 8; i++) v.v[i] = snaked(v.v[i], of_a.v[i], of_b.v[i]);
            }
            store8(out, c, v);
        } else {
            for (uint32_t i = c; i < min(c + 8, width); i++) {
                float v = lacks ? 0.0f : widen(source[i]);
                out[i] = narrow<T>(active && !lacks ? snaked(v, a[i], b[i]) : v);
            }
        }
    }
}
KERNEL(pad, 256, pad<T>,
       (Out<T> out, In<T> x, In<uint64_t> past, In<uint32_t> from, In<uint32_t> lacking, In<float> a, In<float> b, uint32_t signals,
        uint32_t keep, uint32_t width, uint32_t rows, uint32_t wide),
       (out, x, past, from, lacking, a, b, signals, keep, width, rows, wide))

/// The last `keep` rows of every padded signal become its past. A thread takes eight neighbours of a row.
template <typename T>
__device__ void remember(In<T> padded, In<uint64_t> past, In<uint32_t> from, uint32_t keep, uint32_t width, uint32_t wide) {
    uint32_t of_row = (width + 7) / 8, item = blockIdx.x * blockDim.x + threadIdx.x, s = blockIdx.y;
    if (item >= keep * of_row) return;
    uint32_t local = item / of_row, c = item % of_row * 8;
    size_t row = from[s + 1] + static_cast<size_t>(s) * keep + local;
    Out<T> to = at_address<T>(past[s]) + static_cast<size_t>(local) * width;
    padded = padded + row * width;
    if (wide) {
        Packed<T> eight = load_packed<T>(padded, c);
#pragma unroll
        for (unsigned i = 0; i < sizeof(T) / 2; i++) retyped<Bytes16>(to + c)[i] = eight.part[i];
    } else {
#pragma unroll 1
        for (uint32_t i = c; i < min(c + 8, width); i++) to[i] = padded[i];
    }
}
KERNEL(remember, 256, remember<T>, (In<T> padded, In<uint64_t> past, In<uint32_t> from, uint32_t keep, uint32_t width, uint32_t wide),
       (padded, past, from, keep, width, wide))

/// `out[row][c] = bias[c] + sum over t of w[t][c] * padded[row + t * dilation][c]`. Reads `taps` rows of the padded signal, which
/// its neighbours have brought into the caches. A thread takes eight neighbours of a row.
template <typename T>
__device__ void depthwise(Out<T> out, In<T> padded, In<float> w, In<float> bias, In<uint32_t> from, uint32_t signals, uint32_t keep,
                          uint32_t taps, uint32_t dilation, uint32_t width, uint32_t rows, uint32_t wide) {
    uint32_t of_row = (width + 7) / 8, item = blockIdx.x * blockDim.x + threadIdx.x, row = item / of_row, c = item % of_row * 8;
    if (row >= rows) return;
    padded = padded + static_cast<size_t>(row + signal_of(from, signals, row) * keep) * width;
    out += static_cast<size_t>(row) * width;
    if (wide) {
        Eight sum = load8(bias, c);
        // Loads of several rows overlap.
#pragma unroll 4
        for (uint32_t t = 0; t < taps; t++) {
            Eight v = load8(padded, static_cast<size_t>(t) * dilation * width + c), of_w = load8(w, t * width + c);
#pragma unroll
            for (int i = 0; i < 8; i++) sum.v[i] += v.v[i] * of_w.v[i];
        }
        store8(out, c, sum);
        return;
    }
    for (uint32_t i = c; i < min(c + 8, width); i++) {
        float sum = bias[i];
        for (uint32_t t = 0; t < taps; t++) sum += widen(padded[static_cast<size_t>(t) * dilation * width + i]) * w[t * width + i];
        out[i] = narrow<T>(sum);
    }
}
KERNEL(depthwise, 256, depthwise<T>,
       (Out<T> out, In<T> padded, In<float> w, In<float> bias, In<uint32_t> from, uint32_t signals, uint32_t keep, uint32_t taps,
        uint32_t dilation, uint32_t width, uint32_t rows, uint32_t wide),
       (out, padded, w, bias, from, signals, keep, taps, dilation, width, rows, wide))
