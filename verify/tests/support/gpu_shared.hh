/*
 * Shared memory of blocks for gpu_emulator.cc. The program's thread-local variables stand for
 * __shared__ ones; when another block runs, its contents replace those of the last block.
 *
 * A program contains the shared memory of many kernels, and all of it holds garbage when a block
 * begins. Only those pages are copied that some block has written since the last clear(). The rest
 * is write-protected; the handler of a page's first write notes the page and makes it writable.
 */
#ifndef VERIFY_TESTS_SUPPORT_GPU_SHARED_HH
#define VERIFY_TESTS_SUPPORT_GPU_SHARED_HH

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace emulator {

enum { GARBAGE = 0xa7 }; /* the bytes of memory to which nothing has been written */

class shared_memory {
public:
    typedef std::vector<char> contents;

    /* The contents of a block that begins. */
    contents garbage() const
    {
        return contents(bytes_, (char)GARBAGE);
    }

    /* No block's contents are in place, and no page is written. */
    void clear()
    {
        owner_ = nullptr;
        for (size_t page = 0; page < written_.size(); page++)
            if (written_[page])
                refill(page);
    }

    /* Puts a block's contents in place and keeps those of the block before. */
    void swap_to(contents *next)
    {
        if (owner_ == next)
            return;
        for (size_t page = 0; page < written_.size(); page++) {
            if (!written_[page])
                continue;
            const part on = part_on(page);
            if (owner_)
                memcpy(owner_->data() + on.offset, at_ + on.offset, on.bytes);
            memcpy(at_ + on.offset, next->data() + on.offset, on.bytes);
        }
        owner_ = next;
    }

    /* The block whose contents are in place has ended. */
    void drop()
    {
        owner_ = nullptr;
    }

    static shared_memory &of_program()
    {
        static shared_memory the_one;
        return the_one;
    }

private:
    struct part {
        size_t offset, bytes;
    };

    shared_memory()
    {
        dl_iterate_phdr(find, this);
        before_ = (uintptr_t)at_ % page_bytes_;
        written_.assign((before_ + bytes_ + page_bytes_ - 1) / page_bytes_, 1);
        struct sigaction action = {};
        action.sa_sigaction = [](int, siginfo_t *info, void *) {
            of_program().fault((uintptr_t)info->si_addr);
        };
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGSEGV, &action, &earlier_);
    }

    static int find(struct dl_phdr_info *info, size_t, void *result)
    {
        shared_memory *memory = (shared_memory *)result;
        for (int i = 0; i < info->dlpi_phnum; i++)
            if (info->dlpi_phdr[i].p_type == PT_TLS) {
                memory->at_ = (char *)info->dlpi_tls_data;
                memory->bytes_ = info->dlpi_phdr[i].p_memsz;
            }
        return 1; /* the program itself comes first */
    }

    part part_on(size_t page) const
    {
        const size_t begin = std::max(page * page_bytes_, before_) - before_;
        return {begin, std::min((page + 1) * page_bytes_ - before_, bytes_) - begin};
    }

    void protect(size_t page, int rights)
    {
        if (mprotect(at_ + part_on(page).offset, page_bytes_, rights)) {
            perror("mprotect of shared memory");
            exit(3);
        }
    }

    /* A page that holds other data, too, cannot be protected and remains a written one. */
    void refill(size_t page)
    {
        const part on = part_on(page);
        memset(at_ + on.offset, GARBAGE, on.bytes);
        written_[page] = on.bytes < page_bytes_;
        if (!written_[page])
            protect(page, PROT_READ);
    }

    void fault(uintptr_t address)
    {
        const size_t page = (address - ((uintptr_t)at_ - before_)) / page_bytes_;
        if (page >= written_.size() || written_[page]) {
            sigaction(SIGSEGV, &earlier_, nullptr); /* not ours: the access is repeated */
            return;
        }
        written_[page] = 1;
        protect(page, PROT_READ | PROT_WRITE);
    }

    char *at_ = nullptr;
    size_t bytes_ = 0, before_ = 0; /* before_: on the first page, bytes before the shared memory */
    const size_t page_bytes_ = (size_t)sysconf(_SC_PAGESIZE);
    std::vector<char> written_; /* a flag per page */
    contents *owner_ = nullptr;
    struct sigaction earlier_ = {};
};

} // namespace emulator

#endif
