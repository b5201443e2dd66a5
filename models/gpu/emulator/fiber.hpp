// Stacks to switch between, without the system calls of `swapcontext` where the processor is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#if defined(__x86_64__) && !defined(OMNI_PORTABLE_FIBERS)

extern "C" {
// Saves the running context in `*save` and resumes `load`.
void omni_fiber_switch(void** save, void* load);
// Resumes `load`; the running context is lost.
[[noreturn]] void omni_fiber_leave(void* load);
}

// The registers that a called function must keep (System V ABI).
asm(R"(
.text
.globl omni_fiber_switch
.type omni_fiber_switch, @function
omni_fiber_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size omni_fiber_switch, .-omni_fiber_switch
.globl omni_fiber_leave
.type omni_fiber_leave, @function
omni_fiber_leave:
    movq %rdi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size omni_fiber_leave, .-omni_fiber_leave
)");

#else

#include <ucontext.h>

inline void omni_fiber_switch(void** save, void* load) {
    ucontext_t here;
    *save = &here;
    swapcontext(&here, static_cast<ucontext_t*>(load));
}
[[noreturn]] inline void omni_fiber_leave(void* load) {
    setcontext(static_cast<ucontext_t*>(load));
    abort();
}

#endif

namespace emulator {

// A stack with its resume point.
struct Fiber {
    static constexpr size_t kStack = 64 * 1024;

    void* stack_pointer = nullptr;
    char* stack = nullptr;
#if !defined(__x86_64__) || defined(OMNI_PORTABLE_FIBERS)
    ucontext_t* context = new ucontext_t;
#endif

    Fiber() : stack(static_cast<char*>(malloc(kStack))) {
        if (stack == nullptr) throw std::bad_alloc();
    }
    Fiber(Fiber&& other) noexcept { *this = std::move(other); }
    Fiber& operator=(Fiber&& other) noexcept {
        std::swap(stack_pointer, other.stack_pointer);
        std::swap(stack, other.stack);
#if !defined(__x86_64__) || defined(OMNI_PORTABLE_FIBERS)
        std::swap(context, other.context);
#endif
        return *this;
    }
    ~Fiber() {
        free(stack);
#if !defined(__x86_64__) || defined(OMNI_PORTABLE_FIBERS)
        delete context;
#endif
    }

    // Prepares the fiber to start at `body`, which must not return.
    void prepare(void (*body)()) {
#if defined(__x86_64__) && !defined(OMNI_PORTABLE_FIBERS)
        auto top = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(stack) + kStack) & ~uintptr_t{15});
        *--top = nullptr;  // A function finds its caller's address below a multiple of 16.
        *--top = reinterpret_cast<void*>(body);
        for (int i = 0; i < 6; i++) *--top = nullptr;
        stack_pointer = top;
#else
        getcontext(context);
        context->uc_stack.ss_sp = stack;
        context->uc_stack.ss_size = kStack;
        context->uc_link = nullptr;
        makecontext(context, body, 0);
        stack_pointer = context;
#endif
    }
};

}  // namespace emulator
