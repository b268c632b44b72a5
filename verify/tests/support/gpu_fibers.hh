/*
 * Cooperative threads for gpu_emulator.cc: a fiber is a stack and a saved context. Switching uses
 * setjmp and longjmp, which make no system call, except under the address sanitizer, which can only
 * follow swapcontext.
 */
#ifndef VERIFY_TESTS_SUPPORT_GPU_FIBERS_HH
#define VERIFY_TESTS_SUPPORT_GPU_FIBERS_HH

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

namespace emulator {

class fiber {
public:
    enum { STACK_BYTES = 256 * 1024, GUARD_BYTES = 4096 };

    fiber() = default; /* the caller's own stack */
    ~fiber()
    {
        if (stack_)
            unused().push_back(stack_);
    }
    fiber(const fiber &) = delete;
    fiber &operator=(const fiber &) = delete;

    /* The first switch to the fiber calls body, which never returns. */
    void make(void (*body)())
    {
        stack_ = take_stack();
        getcontext(&context_);
        context_.uc_stack.ss_sp = stack_ + GUARD_BYTES;
        context_.uc_stack.ss_size = STACK_BYTES - GUARD_BYTES;
        context_.uc_link = nullptr;
        makecontext(&context_, body, 0);
    }

    /* Continues with next; returns when another fiber switches to this one. */
    void switch_to(fiber *next)
    {
#if defined(__SANITIZE_ADDRESS__)
        const void *from = nullptr;
        size_t bytes = 0;
        __sanitizer_start_switch_fiber(&fake_, next->bottom(), next->bottom_bytes());
        swapcontext(&context_, &next->context_);
        __sanitizer_finish_switch_fiber(fake_, &from, &bytes);
#else
        if (_setjmp(place_))
            return;
        if (next->begun_ || !next->stack_)
            _longjmp(next->place_, 1);
        next->begun_ = true;
        setcontext(&next->context_);
#endif
    }

#if defined(__SANITIZE_ADDRESS__)
    /* A body must call this first; `caller` is the fiber of the program's own stack. */
    static void begun(fiber *caller)
    {
        const void *from = nullptr;
        size_t bytes = 0;
        __sanitizer_finish_switch_fiber(nullptr, &from, &bytes);
        if (!caller->bottom_) {
            caller->bottom_ = from;
            caller->own_bytes_ = bytes;
        }
    }
#else
    static void begun(fiber *)
    {
    }
#endif

private:
    /* Stacks of destroyed fibers, for reuse: a test creates hundreds of thousands of fibers. */
    static std::vector<char *> &unused()
    {
        static std::vector<char *> stacks;
        return stacks;
    }

    static char *take_stack()
    {
        if (!unused().empty()) {
            char *stack = unused().back();
            unused().pop_back();
            /* the last fiber never returned from its frames */
            ASAN_UNPOISON_MEMORY_REGION(stack + GUARD_BYTES, STACK_BYTES - GUARD_BYTES);
            return stack;
        }
        void *stack = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stack == MAP_FAILED || mprotect(stack, GUARD_BYTES, PROT_NONE)) {
            perror("mmap of a fiber's stack");
            exit(3);
        }
        return (char *)stack;
    }

    char *stack_ = nullptr;
    bool begun_ = false;
    ucontext_t context_;
    jmp_buf place_;
#if defined(__SANITIZE_ADDRESS__)
    void *fake_ = nullptr;
    const void *bottom_ = nullptr;
    size_t own_bytes_ = 0;
    const void *bottom() const
    {
        return stack_ ? stack_ + GUARD_BYTES : bottom_;
    }
    size_t bottom_bytes() const
    {
        return stack_ ? STACK_BYTES - GUARD_BYTES : own_bytes_;
    }
#endif
};

} // namespace emulator

#endif
