// Runs kernels block by block, each thread of a block as a fiber. See shim.hpp.
//
// `kernels.inc` is written by build.rs and includes every kernel file.

#include "shim.hpp"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "fiber.hpp"

namespace emulator {

thread_local Place place;

static Entry* entries = nullptr;

void add(Entry* entry) {
    entry->next = entries;
    entries = entry;
}

void misuse(const char* what, uint64_t address) {
    char text[160];
    snprintf(text, sizeof text, "%s (0x%llx)", what, static_cast<unsigned long long>(address));
    throw Misuse{text};
}

// ---------------------------------------------------------------------------------------------------------- buffers

static std::shared_mutex buffers_lock;
static std::map<uint64_t, size_t> buffers;

Bounds bounds_of(uint64_t address) {
    std::shared_lock lock(buffers_lock);
    auto after = buffers.upper_bound(address);
    if (after == buffers.begin()) misuse("address outside all buffers", address);
    auto [start, size] = *--after;
    if (address - start > size) misuse("address outside all buffers", address);
    return {reinterpret_cast<char*>(start), reinterpret_cast<char*>(start + size)};
}

// ------------------------------------------------------------------------------------------------------------ block

struct Warp {
    uint64_t slots[2][32];
    unsigned arrived = 0, generation = 0;
    int line = 0;
};

// Asynchronous copies begun by a thread.
struct Copies {
    struct Copy {
        void* to;
        const void* from;
    };
    std::vector<Copy> open;
    std::deque<std::vector<Copy>> groups;
};

/// The block that an OS thread is running.
struct Block {
    std::vector<Fiber> fibers;
    std::vector<Copies> copies;
    std::vector<Warp> warps;
    // Ring of live threads, in running order.
    std::vector<unsigned> next, previous;
    unsigned current = 0, live = 0;
    unsigned arrived = 0, generation = 0;
    int line = 0;
    // Yields since any thread last made progress.
    unsigned idle = 0;
    void* home = nullptr;
    const Entry* entry = nullptr;
    const void* bound = nullptr;
    std::vector<char> shared;
    size_t shared_size = 0;
    std::unique_ptr<Misuse> failed;
};

static thread_local Block block;

Bounds shared_memory() {
    char* low = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(block.shared.data()) + 127) & ~uintptr_t{127});
    return {low, low + block.shared_size};
}

static void place_thread(unsigned index) {
    Dim size = place.block_size;
    block.current = index;
    place.thread = {index % size.x, index / size.x % size.y, index / (size.x * size.y)};
}

static void switch_to(unsigned index) {
    Fiber& from = block.fibers[block.current];
    place_thread(index);
    omni_fiber_switch(&from.stack_pointer, block.fibers[index].stack_pointer);
}

static void give_way() {
    if (++block.idle > 2 * block.live + 2) misuse("threads wait for others that never come", block.idle);
    unsigned next = block.next[block.current];
    if (next != block.current) switch_to(next);
}

void block_barrier(int line) {
    unsigned threads = place.block_size.x * place.block_size.y * place.block_size.z;
    if (block.live != threads) misuse("barrier after a thread has ended", threads - block.live);
    if (block.arrived != 0 && block.line != line) misuse("threads at different barriers", static_cast<unsigned>(line));
    block.line = line;
    block.idle = 0;
    unsigned generation = block.generation;
    if (++block.arrived == threads) {
        block.arrived = 0;
        block.generation++;
        return;
    }
    while (block.generation == generation) give_way();
}

const uint64_t* warp_exchange(uint64_t value, int line) {
    Warp& warp = block.warps[block.current / 32];
    if (warp.arrived != 0 && warp.line != line) misuse("lanes at different exchanges", static_cast<unsigned>(line));
    warp.line = line;
    block.idle = 0;
    unsigned generation = warp.generation;
    uint64_t* slots = warp.slots[generation & 1];
    slots[block.current % 32] = value;
    if (++warp.arrived == 32) {
        warp.arrived = 0;
        warp.generation++;
    } else {
        while (warp.generation == generation) give_way();
    }
    return slots;
}

void begin_copy(void* to, const void* from) {
    memset(to, 0xff, 16);
    block.copies[block.current].open.push_back({to, from});
}

void end_copy_group() {
    Copies& copies = block.copies[block.current];
    copies.groups.push_back(std::move(copies.open));
    copies.open.clear();
}

void wait_copy_groups(size_t left) {
    auto& groups = block.copies[block.current].groups;
    for (; groups.size() > left; groups.pop_front())
        for (const Copies::Copy& copy : groups.front()) {
            if (copy.from != nullptr) memcpy(copy.to, copy.from, 16);
            else memset(copy.to, 0, 16);
        }
}

static void fiber_main() {
    try {
        block.entry->run(block.bound);
        const Copies& copies = block.copies[block.current];
        if (!copies.open.empty() || !copies.groups.empty()) misuse("end of a thread that has not waited for its copies", block.current);
        if (block.arrived != 0) misuse("end of a thread for which others wait", block.arrived);
    } catch (Misuse& misuse) {
        block.failed = std::make_unique<Misuse>(std::move(misuse));
    }
    if (block.failed) omni_fiber_leave(block.home);
    // Removes this thread from the ring.
    unsigned index = block.current, next = block.next[index], previous = block.previous[index];
    block.next[previous] = next;
    block.previous[next] = previous;
    block.idle = 0;
    block.live--;
    if (block.live == 0) omni_fiber_leave(block.home);
    place_thread(next);
    omni_fiber_leave(block.fibers[next].stack_pointer);
}

// Runs the block at `place`. `backwards`: last thread first.
static void run_block(bool backwards) {
    unsigned threads = place.block_size.x * place.block_size.y * place.block_size.z;
    while (block.fibers.size() < threads) block.fibers.emplace_back();
    block.copies.assign(threads, Copies{});
    block.warps.assign((threads + 31) / 32, Warp{});
    block.next.resize(threads);
    block.previous.resize(threads);
    for (unsigned i = 0; i < threads; i++) {
        block.fibers[i].prepare(fiber_main);
        unsigned up = (i + 1) % threads, down = (i + threads - 1) % threads;
        block.next[i] = backwards ? down : up;
        block.previous[i] = backwards ? up : down;
    }
    if (block.shared.size() < block.shared_size + 128) block.shared.resize(block.shared_size + 128);
    memset(block.shared.data(), 0xff, block.shared.size());
    block.live = threads;
    block.arrived = block.generation = block.idle = 0;
    unsigned first = backwards ? threads - 1 : 0;
    place_thread(first);
    omni_fiber_switch(&block.home, block.fibers[first].stack_pointer);
}

}  // namespace emulator

// --------------------------------------------------------------------------------------------------- called from
// Rust

extern "C" {

struct OmniCall {
    const char* name;
    const uint64_t* args;
    uint32_t grid[3], block[3];
    uint32_t shared, backwards;
};

void* omni_emulator_alloc(size_t bytes) {
    void* memory = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
    if (memory == nullptr) return nullptr;
    memset(memory, 0xff, bytes);
    std::unique_lock lock(emulator::buffers_lock);
    emulator::buffers[reinterpret_cast<uint64_t>(memory)] = bytes;
    return memory;
}

void omni_emulator_free(void* memory) {
    {
        std::unique_lock lock(emulator::buffers_lock);
        emulator::buffers.erase(reinterpret_cast<uint64_t>(memory));
    }
    free(memory);
}

// Returns 1 if `bytes` bytes from an address are within one buffer.
int omni_emulator_owns(uint64_t address, size_t bytes) {
    std::shared_lock lock(emulator::buffers_lock);
    auto after = emulator::buffers.upper_bound(address);
    if (after == emulator::buffers.begin()) return 0;
    auto [start, size] = *--after;
    return address - start <= size && size - (address - start) >= bytes;
}

/// The `index`-th kernel: its name, the codes of its parameters, the most threads of a block. Null after the last.
const char* omni_emulator_kernel(size_t index, const char** params, uint32_t* threads) {
    const emulator::Entry* entry = emulator::entries;
    for (; entry != nullptr && index > 0; index--) entry = entry->next;
    if (entry == nullptr) return nullptr;
    *params = entry->params;
    *threads = entry->threads;
    return entry->name;
}

/// Runs a kernel. Returns 0, or 1 with a text in `error`.
int omni_emulator_launch(const OmniCall* call, char* error, size_t error_size) {
    using namespace emulator;
    const Entry* entry = entries;
    while (entry != nullptr && strcmp(entry->name, call->name) != 0) entry = entry->next;
    if (entry == nullptr) {
        snprintf(error, error_size, "no kernel of this name");
        return 1;
    }
    void* bound = nullptr;
    std::string failure;
    // Runs a block. Says whether it was right.
    auto run = [&](Dim at) {
        block.failed.reset();
        block.entry = entry;
        block.bound = bound;
        block.shared_size = call->shared;
        place.block_size = {call->block[0], call->block[1], call->block[2]};
        place.grid_size = {call->grid[0], call->grid[1], call->grid[2]};
        place.block = at;
        run_block(call->backwards != 0);
        if (!block.failed) return true;
        Dim thread = place.thread;
        char text[320];
        snprintf(text, sizeof text, "%s, block (%u, %u, %u), thread (%u, %u, %u)", block.failed->what.c_str(), at.x, at.y, at.z, thread.x,
                 thread.y, thread.z);
        failure = text;
        return false;
    };
    try {
        bound = entry->bind(call->args);
    } catch (Misuse& misuse) {
        snprintf(error, error_size, "%s", misuse.what.c_str());
        return 1;
    }
    Dim at{};
    bool right = true;
    for (at.z = 0; right && at.z < call->grid[2]; at.z++)
        for (at.y = 0; right && at.y < call->grid[1]; at.y++)
            for (at.x = 0; right && at.x < call->grid[0]; at.x++) right = run(at);
    entry->drop(bound);
    if (failure.empty()) return 0;
    snprintf(error, error_size, "%s", failure.c_str());
    return 1;
}

}  // extern "C"

#include "kernels.inc"
