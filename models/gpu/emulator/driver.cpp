// A libcuda.so.1 that runs kernels in the emulator: tests with it cover the whole code that calls NVIDIA's driver.
//
// It has only the functions in use, and is as strict as a real driver may be: work is done only when the caller waits
// for it, a thread needs a context, and a recording stream copies nothing.

#include "emulator.cpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <list>
#include <new>
#include <set>

namespace {

using Result = int;
constexpr Result kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kInvalidImage = 200, kInvalidContext = 201, kNotFound = 500,
                 kNotReady = 600, kIllegalAddress = 700, kCaptureUnsupported = 900;

// A launch with copies of its arguments.
struct Node {
    const emulator::Entry* entry;
    std::vector<uint64_t> args;
    OmniCall call;

    bool run() const {
        OmniCall now = call;
        now.name = entry->name;
        now.args = args.data();
        char error[512];
        if (omni_emulator_launch(&now, error, sizeof error) == 0) return true;
        fprintf(stderr, "kernel %s: %s\n", entry->name, error);
        return false;
    }
};

struct Event {
    std::chrono::steady_clock::time_point at;
    bool over = false;
};

struct Stream {
    std::list<std::function<bool()>> pending;
    std::vector<Node> recorded;
    bool recording = false;
};

std::recursive_mutex lock;
std::list<Stream*> streams;
// Kernels allowed to use more than the default shared memory.
std::set<const emulator::Entry*> large;
// Errors are sticky.
Result broken = kSuccess;
int the_context;
thread_local void* current = nullptr;

int major() {
    const char* asked = getenv("OMNI_TEST_CAPABILITY");
    return asked != nullptr ? atoi(asked) : 8;
}

Result wait_for(Stream* stream) {
    while (!stream->pending.empty()) {
        auto work = std::move(stream->pending.front());
        stream->pending.pop_front();
        if (!work()) broken = kIllegalAddress;
    }
    return broken;
}

Result enqueue(Stream* stream, std::function<bool()> work) {
    if (current == nullptr) return kInvalidContext;
    if (stream->recording) return kCaptureUnsupported;
    stream->pending.push_back(std::move(work));
    return broken;
}

}  // namespace

#define DRIVER extern "C" __attribute__((visibility("default"))) Result
#define GUARD std::lock_guard<std::recursive_mutex> guard(lock)

DRIVER cuInit(unsigned) { return kSuccess; }
DRIVER cuDriverGetVersion(int* version) {
    const char* old = getenv("OMNI_TEST_DRIVER_VERSION");
    *version = old != nullptr ? atoi(old) : 99000;
    return kSuccess;
}
DRIVER cuGetErrorString(Result error, const char** text) {
    *text = error == kNoDevice ? "no such device" : "the emulated driver says no";
    return kSuccess;
}
DRIVER cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return ordinal == 0 ? kSuccess : kNoDevice;
}
DRIVER cuDeviceGetName(char* name, int size, int) {
    snprintf(name, static_cast<size_t>(size), "emulated driver");
    return kSuccess;
}
DRIVER cuDeviceGetAttribute(int* value, int attribute, int) {
    // The compute capability is 8.0, unless a test asks for another. Nothing else is asked for that matters.
    *value = attribute == 75 ? major() : 0;
    return kSuccess;
}
DRIVER cuDevicePrimaryCtxRetain(void** context, int) {
    *context = &the_context;
    return kSuccess;
}
DRIVER cuDevicePrimaryCtxRelease_v2(int) { return kSuccess; }
DRIVER cuCtxGetCurrent(void** context) {
    *context = current;
    return kSuccess;
}
DRIVER cuCtxSetCurrent(void* context) {
    current = context;
    return kSuccess;
}
DRIVER cuCtxSynchronize() {
    GUARD;
    for (const Stream* stream : streams)
        if (stream->recording) return kCaptureUnsupported;
    return broken;
}

DRIVER cuCtxSetFlags(unsigned) { return current != nullptr ? kSuccess : kInvalidContext; }
DRIVER cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return current != nullptr ? kSuccess : kInvalidContext;
}

DRIVER cuStreamCreateWithPriority(void** stream, unsigned, int) {
    GUARD;
    if (current == nullptr) return kInvalidContext;
    streams.push_back(new Stream);
    *stream = streams.back();
    return kSuccess;
}
DRIVER cuStreamQuery(Stream* stream) {
    GUARD;
    if (stream->recording) return kCaptureUnsupported;
    if (broken != kSuccess) return broken;
    return stream->pending.empty() ? kSuccess : kNotReady;
}
DRIVER cuStreamSynchronize(Stream* stream) {
    GUARD;
    return stream->recording ? kCaptureUnsupported : wait_for(stream);
}
DRIVER cuStreamDestroy_v2(Stream* stream) {
    GUARD;
    wait_for(stream);
    streams.remove(stream);
    delete stream;
    return kSuccess;
}

DRIVER cuEventCreate(void** event, unsigned) {
    if (current == nullptr) return kInvalidContext;
    *event = new Event;
    return kSuccess;
}
DRIVER cuEventRecord(Event* event, Stream* stream) {
    GUARD;
    event->over = false;
    return enqueue(stream, [event] {
        *event = {std::chrono::steady_clock::now(), true};
        return true;
    });
}
DRIVER cuEventQuery(Event* event) {
    GUARD;
    return event->over ? kSuccess : kNotReady;
}
DRIVER cuEventSynchronize(Event* event) {
    GUARD;
    for (Stream* stream : streams)
        if (!event->over) wait_for(stream);
    return broken;
}
DRIVER cuEventElapsedTime(float* ms, Event* begin, Event* end) {
    GUARD;
    if (!begin->over || !end->over) return kNotReady;
    *ms = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
    return broken;
}
DRIVER cuEventDestroy_v2(Event* event) {
    GUARD;
    // An unfinished recording must not be written to freed memory.
    for (Stream* stream : streams)
        if (!event->over) wait_for(stream);
    delete event;
    return kSuccess;
}

DRIVER cuModuleLoadData(void** module, const void* image) {
    if (current == nullptr) return kInvalidContext;
    // Header of a fat binary.
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    *module = &the_context;
    return magic == 0xBA55ED50u ? kSuccess : kInvalidImage;
}
DRIVER cuModuleUnload(void*) { return kSuccess; }
DRIVER cuModuleGetFunction(const void** function, void*, const char* name) {
    const emulator::Entry* entry = emulator::entries;
    while (entry != nullptr && strcmp(entry->name, name) != 0) entry = entry->next;
    *function = entry;
    return entry != nullptr ? kSuccess : kNotFound;
}
DRIVER cuFuncGetAttribute(int* value, int attribute, const emulator::Entry* entry) {
    // PTX version, or threads per block.
    *value = attribute == 5 ? 10 * major() : static_cast<int>(entry->threads);
    return kSuccess;
}
DRIVER cuFuncSetAttribute(const emulator::Entry* entry, int attribute, int value) {
    // Bytes of shared memory.
    if (attribute != 8 || value > 96 * 1024) return kInvalidValue;
    large.insert(entry);
    return kSuccess;
}

DRIVER cuMemGetInfo_v2(size_t* free, size_t* total) {
    *free = *total = size_t{1} << 30;
    return kSuccess;
}
DRIVER cuMemAlloc_v2(void** at, size_t bytes) {
    if (current == nullptr) return kInvalidContext;
    if (bytes == 0) return kInvalidValue;
    *at = bytes < (size_t{1} << 40) ? omni_emulator_alloc(bytes) : nullptr;
    return *at != nullptr ? kSuccess : kOutOfMemory;
}
DRIVER cuMemFree_v2(void* at) {
    GUARD;
    std::for_each(streams.begin(), streams.end(), wait_for);
    omni_emulator_free(at);
    return kSuccess;
}
DRIVER cuMemHostAlloc(void** at, size_t bytes, unsigned) {
    *at = malloc(bytes);
    return *at != nullptr ? kSuccess : kOutOfMemory;
}
DRIVER cuMemFreeHost(void* at) {
    GUARD;
    std::for_each(streams.begin(), streams.end(), wait_for);
    free(at);
    return kSuccess;
}
DRIVER cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, Stream* stream) {
    GUARD;
    if (!omni_emulator_owns(to, bytes)) return kInvalidValue;
    return enqueue(stream, [=] { return memcpy(reinterpret_cast<void*>(to), from, bytes) != nullptr; });
}
DRIVER cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, Stream* stream) {
    GUARD;
    if (!omni_emulator_owns(from, bytes)) return kInvalidValue;
    return enqueue(stream, [=] { return memcpy(to, reinterpret_cast<const void*>(from), bytes) != nullptr; });
}

/// As in cuda.h.
struct LaunchAttribute {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int allowed;
    } value;
};
struct LaunchConfig {
    unsigned gx, gy, gz, bx, by, bz, shared;
    Stream* stream;
    const LaunchAttribute* attributes;
    unsigned attribute_count;
};

DRIVER cuLaunchKernelEx(const LaunchConfig* config, const emulator::Entry* entry, void** params, void** extra) {
    GUARD;
    auto [gx, gy, gz, bx, by, bz, shared, stream, attributes, attribute_count] = *config;
    // Programmatic stream serialisation, for recorded launches on devices that support it.
    if (attribute_count > 1 || (shared > 48 * 1024 && large.count(entry) == 0)) return kInvalidValue;
    if (attribute_count == 1 && (attributes->id != 6 || attributes->value.allowed != 1 || !stream->recording || major() < 9))
        return kInvalidValue;
    if (attribute_count == 0 && stream->recording && major() >= 9) return kInvalidValue;
    if (current == nullptr) return kInvalidContext;
    if (extra != nullptr || gx * gy * gz == 0 || bx * by * bz > entry->threads) return kInvalidValue;
    Node node = {entry, {}, {nullptr, nullptr, {gx, gy, gz}, {bx, by, bz}, shared, 0}};
    for (size_t i = 0; entry->params[i] != '\0'; i++) {
        // Exactly the bytes of the type.
        uint64_t bits = 0;
        memcpy(&bits, params[i], entry->params[i] == 'p' ? 8 : 4);
        node.args.push_back(bits);
    }
    if (stream->recording) {
        stream->recorded.push_back(std::move(node));
        return broken;
    }
    return enqueue(stream, [node = std::move(node)] { return node.run(); });
}

DRIVER cuStreamBeginCapture_v2(Stream* stream, int) {
    GUARD;
    if (current == nullptr) return kInvalidContext;
    stream->recording = true;
    stream->recorded.clear();
    return kSuccess;
}
DRIVER cuStreamEndCapture(Stream* stream, void** graph) {
    GUARD;
    if (!stream->recording) return kInvalidValue;
    stream->recording = false;
    *graph = new std::vector<Node>(std::move(stream->recorded));
    return kSuccess;
}
DRIVER cuGraphInstantiateWithFlags(void** executable, const std::vector<Node>* graph, uint64_t) {
    *executable = new std::vector<Node>(*graph);
    return kSuccess;
}
DRIVER cuGraphUpload(void*, Stream*) { return kSuccess; }
DRIVER cuGraphLaunch(const std::vector<Node>* executable, Stream* stream) {
    GUARD;
    return enqueue(stream, [nodes = *executable] { return std::all_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.run(); }); });
}
DRIVER cuGraphExecDestroy(std::vector<Node>* executable) {
    delete executable;
    return kSuccess;
}
DRIVER cuGraphDestroy(std::vector<Node>* graph) {
    delete graph;
    return kSuccess;
}
