/*
 * Registered memory of the ib transport: registered with the device, or staged if the device does
 * not accept GPU memory; and the error text if a device refuses memory.
 */
#include "transport/net/ib.h"

#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* "64 KiB", "unlimited": the limit of locked memory. */
static void describe_limit(char text[48])
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        snprintf(text, 48, "unlimited");
    else
        snprintf(text, 48, "%llu KiB", (unsigned long long)limit.rlim_cur / 1024);
}

weir_status weiri_ib_refused(const weiri_ib_net *ib, int error, const char *what, size_t bytes)
{
    char limit[48];
    describe_limit(limit);
    if (error == ENOMEM || error == EAGAIN || error == EPERM)
        return weiri_fail_errno(WEIR_ERR_NO_MEMORY, error,
                                "RDMA device %s refuses %s of %zu bytes: this process may lock %s "
                                "of memory; raise that (ulimit -l unlimited; LimitMEMLOCK= of a "
                                "service; memlock in /etc/security/limits.conf)",
                                ib->port.device, what, bytes, limit);
    if (error == EFAULT)
        return weiri_fail_errno(
            WEIR_ERR_INVALID, error,
            "RDMA device %s refuses %s of %zu bytes: part of it is not writable "
            "memory of this process",
            ib->port.device, what, bytes);
    return weiri_fail_errno(WEIR_ERR_SYSTEM, error, "RDMA device %s refuses %s of %zu bytes",
                            ib->port.device, what, bytes);
}

static weir_status register_host(weiri_ib_net *ib, void *base, size_t bytes, struct ibv_mr **mr)
{
    *mr = ib->verbs->reg_mr(ib->pd, base, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return *mr ? WEIR_OK : weiri_ib_refused(ib, errno, "memory", bytes);
}

static void fill_key(const weiri_ib_mem *mem, weiri_net_key *key)
{
    const weiri_ib_key own = {.magic = WEIRI_IB_MAGIC,
                              .rkey = mem->mr ? mem->mr->rkey : 0,
                              .base = (uint64_t)(uintptr_t)mem->base.base,
                              .bytes = mem->base.bytes,
                              .id = mem->id,
                              .is_staged = (uint64_t)mem->is_staged};
    _Static_assert(sizeof own <= sizeof key->bytes, "a key holds it");
    memcpy(key->bytes, &own, sizeof own);
}

/* Registers GPU memory with the device if possible, else marks it as staged. */
static weir_status register_gpu(weiri_ib_net *ib, void *base, size_t bytes, weiri_ib_mem *mem)
{
    const int is_first = !ib->stage.context;
    weir_status status = weiri_ib_gpu_register(ib, base, bytes, &mem->mr);
    if (status != WEIR_ERR_UNSUPPORTED)
        return status;
    mem->is_staged = 1;
    status = weiri_ib_staging_add(ib, base);
    if (status == WEIR_OK)
        weiri_log(is_first ? WEIRI_LOG_INFO : WEIRI_LOG_DEBUG,
                  "transport ib: GPU memory is staged: %s", weir_last_error());
    return status;
}

weir_status weiri_ib_mem_register(weiri_net *net, void *base, size_t bytes, weiri_net_place place,
                                  weiri_net_mem **mem)
{
    weiri_ib_net *ib = weiri_ib_of(net);
    weiri_ib_mem *made = calloc(1, sizeof *made);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for a registration");
    weir_status status = WEIR_OK;
    made->id = ++ib->registrations;
    made->is_host = place == WEIRI_NET_HOST;
    if (bytes > 0) /* an empty range has a key, but devices do not register it */
        status = made->is_host ? register_host(ib, base, bytes, &made->mr)
                               : register_gpu(ib, base, bytes, made);
    if (status != WEIR_OK) {
        free(made);
        return status;
    }
    made->base.net = net;
    made->base.base = base;
    made->base.bytes = bytes;
    fill_key(made, &made->base.key);
    made->next = ib->mems;
    if (ib->mems)
        ib->mems->before = made;
    ib->mems = made;
    *mem = &made->base;
    return WEIR_OK;
}

void weiri_ib_mem_deregister(weiri_net_mem *mem)
{
    weiri_ib_mem *own = (weiri_ib_mem *)(void *)mem;
    weiri_ib_net *ib = weiri_ib_of(mem->net);
    *(own->before ? &own->before->next : &ib->mems) = own->next;
    if (own->next)
        own->next->before = own->before;
    if (own->mr)
        ib->verbs->dereg_mr(own->mr);
    free(own);
}

const weiri_ib_mem *weiri_ib_mem_at(const weiri_ib_net *ib, const weiri_ib_piece_header *label,
                                    uint64_t bytes)
{
    const weiri_ib_mem *mem = ib->mems;
    while (mem && mem->id != label->memory)
        mem = mem->next;
    if (!mem)
        return NULL;
    uint64_t at = label->address - (uint64_t)(uintptr_t)mem->base.base;
    return at <= mem->base.bytes && bytes <= mem->base.bytes - at ? mem : NULL;
}
