// Norms of rows. Weights are f32. One block per row; a row that does not fit into registers is read twice, the second time from the
// first-level cache.
#include "omni.cuh"

/// `x[row] += scale * y[row]` if there is a `y`, then `out[row] = x[row] / sqrt(mean(x[row]^2) + eps) * weight`.
/// Bytes per row, in elements of `width`: reads x (and y, and writes x), writes out; the weight comes from the second-level cache.
template <typename T>
__device__ void rms_norm(Out<T> out, Out<T> x, In<T> y, In<float> scale, In<float> weight, uint32_t width, float eps, uint32_t wide) {
    size_t row = static_cast<size_t>(blockIdx.x) * width;
    x += row;
    if (out) out += row;
    if (y) y = y + row;
    if (wide && width <= blockDim.x * 8) {
        // A thread holds eight elements in registers; all loads are issued before the first sum.
        unsigned c = threadIdx.x * 8;
        bool there = c < width;
        Eight v{}, w{};
        if (there) {
            v = load8(x, c);
            Eight added{}, factor{};
            if (y) added = load8(y, c);
            if (scale) factor = load8(scale, c);
            if (out) w = load8(weight, c);
            if (y) {
#pragma unroll
                for (int i = 0; i < 8; i++) v.v[i] = rounded<T>(v.v[i] + (scale ? added.v[i] * factor.v[i] : added.v[i]));
                store8(x, c, v);
            }
        }
        if (!out) return;
        float squares = 0.0f;
#pragma unroll
        for (int i = 0; i < 8; i++) squares += v.v[i] * v.v[i];
        float factor = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(width) + eps);
#pragma unroll
        for (int i = 0; i < 8; i++) v.v[i] = v.v[i] * factor * w.v[i];
        if (there) store8(out, c, v);
        return;
    }
    float squares = 0.0f;
    if (wide) {
        for (unsigned c = threadIdx.x * 8; c < width; c += blockDim.x * 8) {
            Eight v = load8(x, c);
            if (y) {
                Eight added = load8(y, c), factor;
                if (scale) factor = load8(scale, c);
#pragma unroll
                for (int i = 0; i < 8; i++) v.v[i] += scale ? added.v[i] * factor.v[i] : added.v[i];
                store8(x, c, v);
                // Later kernels read the rounded sum, so it is the value to normalise.
                v = load8(x, c);
            }
#pragma unroll
            for (int i = 0; i < 8; i++) squares += v.v[i] * v.v[i];
        }
    } else {
        for (unsigned c = threadIdx.x; c < width; c += blockDim.x) {
            float v = widen(x[c]);
            if (y) {
                v += scale ? widen(y[c]) * scale[c] : widen(y[c]);
                x[c] = narrow<T>(v);
                v = widen(x[c]);
            }
            squares += v * v;
        }
    }
    if (!out) return;
    float factor = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(width) + eps);
    // Every thread reads its own writes.
    if (wide) {
        for (unsigned c = threadIdx.x * 8; c < width; c += blockDim.x * 8) {
            Eight v = load8(x, c), w = load8(weight, c);
#pragma unroll
            for (int i = 0; i < 8; i++) v.v[i] = v.v[i] * factor * w.v[i];
            store8(out, c, v);
        }
    } else {
        for (unsigned c = threadIdx.x; c < width; c += blockDim.x) out[c] = narrow<T>(widen(x[c]) * factor * weight[c]);
    }
}
KERNEL(rms_norm, 1024, rms_norm<T>,
       (Out<T> out, Out<T> x, In<T> y, In<float> scale, In<float> weight, uint32_t width, float eps, uint32_t wide),
       (out, x, y, scale, weight, width, eps, wide))

/// `out[row] = (x[row] - mean) / sqrt(variance + eps) * weight + bias`. Reads x, writes out.
template <typename T>
__device__ void layer_norm(Out<T> out, In<T> x, In<float> weight, In<float> bias, uint32_t width, float eps, uint32_t wide) {
    size_t row = static_cast<size_t>(blockIdx.x) * width;
    x = x + row;
    out += row;
    float sum = 0.0f, squares = 0.0f;
    if (wide && width <= blockDim.x * 8) {
        // As in `rms_norm`: a thread holds eight elements in registers.
        unsigned c = threadIdx.x * 8;
        bool there = c < width;
        Eight v{}, w{}, added{};
        if (there) {
            v = load8(x, c);
            w = load8(weight, c);
            added = load8(bias, c);
        }
#pragma unroll
        for (int i = 0; i < 8; i++) sum += v.v[i];
        float mean = block_sum(sum) / static_cast<float>(width);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            v.v[i] = there ? v.v[i] - mean : 0.0f;
            squares += v.v[i] * v.v[i];
        }
        float factor = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(width) + eps);
#pragma unroll
        for (int i = 0; i < 8; i++) v.v[i] = v.v[i] * factor * w.v[i] + added.v[i];
        if (there) store8(out, c, v);
        return;
    }
    for (unsigned c = threadIdx.x; c < width; c += blockDim.x) sum += widen(x[c]);
    float mean = block_sum(sum) / static_cast<float>(width);
    for (unsigned c = threadIdx.x; c < width; c += blockDim.x) {
        float v = widen(x[c]) - mean;
        squares += v * v;
    }
    float factor = 1.0f / sqrtf(block_sum(squares) / static_cast<float>(width) + eps);
    for (unsigned c = threadIdx.x; c < width; c += blockDim.x)
        out[c] = narrow<T>((widen(x[c]) - mean) * factor * weight[c] + bias[c]);
}
KERNEL(layer_norm, 1024, layer_norm<T>, (Out<T> out, In<T> x, In<float> weight, In<float> bias, uint32_t width, float eps, uint32_t wide),
       (out, x, weight, bias, width, eps, wide))
