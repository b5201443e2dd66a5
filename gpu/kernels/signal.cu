// Signals of several streams, one after another, and what each stream remembers of a causal convolution: its last `keep` rows.
//
// Signal s is rows `from[s] .. from[s + 1]`. With its past in front it begins at row `from[s] + s * keep` of the padded rows. Bound by
// the bytes moved: each row is read and written once.
#include "omni.cuh"
#include "signal.cuh"

/// `[past | act(x)]` of every signal; act is Snake if there is an `a`. `past[s]` is the address of `[keep, width]`. Of a signal's rows
/// the first `lacking[s]` are zeros, if there is a `lacking`.
template <typename T>
__device__ void pad(Out<T> out, In<T> x, In<uint64_t> past, In<uint32_t> from, In<uint32_t> lacking, In<float> a, In<float> b,
                    uint32_t signals, uint32_t keep, uint32_t width) {
    uint32_t row = blockIdx.x, s = signal_of_padded(from, signals, keep, row), local = row - from[s] - s * keep;
    out += static_cast<size_t>(row) * width;
    if (local < keep) {
        In<T> before = at_address<const T>(past[s]) + static_cast<size_t>(local) * width;
        for (unsigned c = threadIdx.x; c < width; c += blockDim.x) out[c] = before[c];
        return;
    }
    if (lacking && local - keep < lacking[s]) {
        for (unsigned c = threadIdx.x; c < width; c += blockDim.x) out[c] = narrow<T>(0.0f);
        return;
    }
    x = x + static_cast<size_t>(from[s] + local - keep) * width;
    for (unsigned c = threadIdx.x; c < width; c += blockDim.x) out[c] = a ? narrow<T>(snaked(widen(x[c]), a[c], b[c])) : x[c];
}
KERNEL(pad, 1024, pad<T>,
       (Out<T> out, In<T> x, In<uint64_t> past, In<uint32_t> from, In<uint32_t> lacking, In<float> a, In<float> b, uint32_t signals,
        uint32_t keep, uint32_t width),
       (out, x, past, from, lacking, a, b, signals, keep, width))

/// The last `keep` rows of every padded signal become its past.
template <typename T>
__device__ void remember(In<T> padded, In<uint64_t> past, In<uint32_t> from, uint32_t keep, uint32_t width) {
    uint32_t s = blockIdx.y, local = blockIdx.x;
    size_t row = from[s + 1] + static_cast<size_t>(s) * keep + local;
    Out<T> to = at_address<T>(past[s]) + static_cast<size_t>(local) * width;
    padded = padded + row * width;
    for (unsigned c = threadIdx.x; c < width; c += blockDim.x) to[c] = padded[c];
}
KERNEL(remember, 1024, remember<T>, (In<T> padded, In<uint64_t> past, In<uint32_t> from, uint32_t keep, uint32_t width),
       (padded, past, from, keep, width))

/// `out[row][c] = bias[c] + sum over t of w[t][c] * padded[row + t * dilation][c]`. Reads `taps` rows of the padded signal, which
/// its neighbours have brought into the caches.
template <typename T>
__device__ void depthwise(Out<T> out, In<T> padded, In<float> w, In<float> bias, In<uint32_t> from, uint32_t signals, uint32_t keep,
                          uint32_t taps, uint32_t dilation, uint32_t width) {
    uint32_t row = blockIdx.x;
    padded = padded + static_cast<size_t>(row + signal_of(from, signals, row) * keep) * width;
    out += static_cast<size_t>(row) * width;
    for (unsigned c = threadIdx.x; c < width; c += blockDim.x) {
        float sum = bias[c];
        for (unsigned t = 0; t < taps; t++) sum += widen(padded[static_cast<size_t>(t) * dilation * width + c]) * w[t * width + c];
        out[c] = narrow<T>(sum);
    }
}
KERNEL(depthwise, 1024, depthwise<T>,
       (Out<T> out, In<T> padded, In<float> w, In<float> bias, In<uint32_t> from, uint32_t signals, uint32_t keep, uint32_t taps,
        uint32_t dilation, uint32_t width),
       (out, padded, w, bias, from, signals, keep, taps, dilation, width))
