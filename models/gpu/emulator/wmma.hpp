// Tensor core operations: the first lane of a warp holds whole fragments and does all the work.
#pragma once

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major };

// 16 x 16 numbers, row-major.
template <typename Use, int M, int N, int K, typename T, typename Layout = void>
struct fragment {
    static_assert(M == 16 && N == 16 && K == 16);
    float v[256];
};

template <typename F>
void fill_fragment(F& fragment, float value) {
    for (float& v : fragment.v) v = value;
}

// All lanes must call this from the same place, with the same pointer, aligned to 32 bytes.
inline void meet(const void* at) {
    auto address = reinterpret_cast<uintptr_t>(at);
    if (address % 32 != 0) emulator::misuse("a matrix that is not aligned", address);
    const uint64_t* all = emulator::warp_exchange(address, -2);
    if (all[0] != address) emulator::misuse("lanes with different matrices", address);
}

template <typename Use, typename T, typename Layout, typename P>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout>& to, emulator::Checked<P> from, unsigned stride) {
    if (stride % 8 != 0) emulator::misuse("rows of a matrix that are not aligned", stride);
    meet(from.at);
    if (emulated_lane() != 0) return;
    for (unsigned i = 0; i < 16; i++)
        for (unsigned j = 0; j < 16; j++) {
            float value = __bfloat162float(from[i * stride + j]);
            to.v[std::is_same_v<Layout, row_major> ? i * 16 + j : j * 16 + i] = value;
        }
}

template <typename A, typename B, typename C>
void mma_sync(C& d, const A& a, const B& b, const C& c) {
    meet(nullptr);
    if (emulated_lane() != 0) return;
    for (unsigned i = 0; i < 16; i++) {
        float row[16];
        for (unsigned j = 0; j < 16; j++) row[j] = c.v[i * 16 + j];
        for (unsigned k = 0; k < 16; k++)
            for (unsigned j = 0; j < 16; j++) row[j] += a.v[i * 16 + k] * b.v[k * 16 + j];
        for (unsigned j = 0; j < 16; j++) d.v[i * 16 + j] = row[j];
    }
}

template <typename F>
void store_matrix_sync(emulator::Checked<float> to, const F& from, unsigned stride, layout_t) {
    if (stride % 4 != 0) emulator::misuse("rows of a matrix that are not aligned", stride);
    meet(to.at);
    if (emulated_lane() != 0) return;
    for (unsigned i = 0; i < 16; i++)
        for (unsigned j = 0; j < 16; j++) to[i * stride + j] = from.v[i * 16 + j];
}

}  // namespace nvcuda::wmma
