/* Opens libnccl_ep.so: see moe_nccl_ep.h. */
#include "bench/moe/moe_nccl_ep.h"

#include "base/mpi_open.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *open_usual(void)
{
    void *library = dlopen("libnccl_ep.so.0", RTLD_NOW | RTLD_LOCAL);
    return library ? library : dlopen("libnccl_ep.so", RTLD_NOW | RTLD_LOCAL);
}

int bench_nccl_ep_open(const char *path, bench_nccl_ep *ep, char *why, size_t bytes)
{
    const char *missing = NULL;
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : open_usual();
    memset(ep, 0, sizeof *ep);
    if (!library) {
        snprintf(why, bytes, "%s; give its path as nccl-ep:PATH", dlerror());
        return -1;
    }
    if (weiri_mpi_check_alone() != WEIR_OK) {
        snprintf(why, bytes, "%s", weir_last_error());
        return -1;
    }
#define BENCH_NCCL_EP_FIND(member, symbol, arguments)                                              \
    *(void **)&ep->member = dlsym(library, symbol);                                                \
    if (!ep->member)                                                                               \
        missing = symbol;
    BENCH_NCCL_EP_MAP(BENCH_NCCL_EP_FIND)
#undef BENCH_NCCL_EP_FIND
    if (missing) {
        snprintf(why, bytes, "the library has no %s", missing);
        return -1;
    }
    if (ep->get_version(&ep->version) != 0 || ep->version / 100 < 1 || ep->version / 100 > 2) {
        snprintf(why, bytes,
                 "the library is EP %d.%d; EP 0.1 and 0.2 work (0.2 is in nccl-extensions 0.1.0)",
                 ep->version / 10000, ep->version % 10000 / 100);
        return -1;
    }
    return 0;
}
