// Element by element. Each thread takes eight neighbours, where addresses and width allow as 16 bytes at once. Bound by the bytes
// that are read and written, once each.
#include "omni.cuh"

// Applies `work(i, channel, value)` to the eight elements from `i` on; `value` is x's, `width` the number of
// channels.
template <typename T, typename F>
__device__ __forceinline__ void eights(Out<T> out, In<T> x, uint32_t count, uint32_t width, uint32_t wide, F work) {
    size_t i = (static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 8;
    if (i >= count) return;
    // One division for eight elements.
    uint32_t channel = static_cast<uint32_t>(i) % width;
    if (wide) {
        Eight v = load8(x, i);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            v.v[j] = work(i + j, channel, v.v[j]);
            channel = channel + 1 == width ? 0 : channel + 1;
        }
        store8(out, i, v);
        return;
    }
    for (int j = 0; j < 8 && i + j < count; j++) {
        out[i + j] = narrow<T>(work(i + j, channel, widen(x[i + j])));
        channel = channel + 1 == width ? 0 : channel + 1;
    }
}

/// `out = x + scale * y` per channel; without a scale it is 1.
template <typename T>
__device__ void add(Out<T> out, In<T> x, In<T> y, In<float> scale, uint32_t count, uint32_t width, uint32_t wide) {
    if (wide) {
        size_t i = (static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * 8;
        if (i >= count) return;
        Eight added = load8(y, i);
        eights(out, x, count, width, wide,
               [&](size_t at, uint32_t c, float v) { return v + (scale ? scale[c] * added.v[at - i] : added.v[at - i]); });
        return;
    }
    eights(out, x, count, width, wide,
           [&](size_t i, uint32_t c, float v) { return v + (scale ? scale[c] * widen(y[i]) : widen(y[i])); });
}
KERNEL(add, 256, add<T>, (Out<T> out, In<T> x, In<T> y, In<float> scale, uint32_t count, uint32_t width, uint32_t wide),
       (out, x, y, scale, count, width, wide))

/// The activations that kernels know by number: 0 none, 1 SiLU, 2 GELU.
template <typename T>
__device__ void activate(Out<T> out, In<T> x, uint32_t count, uint32_t activation, uint32_t wide) {
    eights(out, x, count, 1, wide, [&](size_t, uint32_t, float v) { return activated(activation, v); });
}
KERNEL(activate, 256, activate<T>, (Out<T> out, In<T> x, uint32_t count, uint32_t activation, uint32_t wide),
       (out, x, count, activation, wide))

/// `[gate | up]` rows of `2 * half` to `silu(gate) * up`.
template <typename T>
__device__ void swiglu(Out<T> out, In<T> x, uint32_t count, uint32_t half) {
    size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= count) return;
    size_t gate = i / half * 2 * half + i % half;
    out[i] = narrow<T>(silu(widen(x[gate])) * widen(x[gate + half]));
}
KERNEL(swiglu, 256, swiglu<T>, (Out<T> out, In<T> x, uint32_t count, uint32_t half), (out, x, count, half))

/// `x + sin(x * a)^2 * b` per channel.
template <typename T>
__device__ void snake(Out<T> out, In<T> x, In<float> a, In<float> b, uint32_t count, uint32_t width, uint32_t wide) {
    eights(out, x, count, width, wide, [&](size_t, uint32_t c, float v) { return snaked(v, a[c], b[c]); });
}
KERNEL(snake, 256, snake<T>, (Out<T> out, In<T> x, In<float> a, In<float> b, uint32_t count, uint32_t width, uint32_t wide),
       (out, x, a, b, count, width, wide))

/// To f32.
template <typename T>
__device__ void widen_all(Out<float> out, In<T> x, uint32_t count) {
    size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) out[i] = widen(x[i]);
}
KERNEL(widen_rows, 256, widen_all<T>, (Out<float> out, In<T> x, uint32_t count), (out, x, count))

/// From f32.
template <typename T>
__device__ void narrow_all(Out<T> out, In<float> x, uint32_t count) {
    size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) out[i] = narrow<T>(x[i]);
}
KERNEL(narrow_rows, 256, narrow_all<T>, (Out<T> out, In<float> x, uint32_t count), (out, x, count))
