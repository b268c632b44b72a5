/* The definition of weir_mem. */
#ifndef WEIR_COMM_MEM_H
#define WEIR_COMM_MEM_H

#include "comm/internode/networks.h"

struct weir_mem {
    weir_comm *comm;
    void *pointer;
    size_t bytes;
    enum { WEIRI_MEM_ALLOCATED, WEIRI_MEM_REGISTERED, WEIRI_MEM_IMPORTED } kind;
    int owner;            /* the rank that owns the memory */
    weiri_desc desc;      /* generation 0: staged */
    weiri_mem_nets *nets; /* registrations or keys for networks; owned */
};

/* Like weir_mem_alloc, for host memory of which a part has memory only once weiri_mem_back was
 * called for it. */
weir_status weiri_mem_reserve(weir_comm *comm, size_t bytes, weir_mem **mem);
/* Backs a part. Thread-safe. WEIR_ERR_NO_MEMORY. */
weir_status weiri_mem_back(const weir_mem *mem, size_t at, size_t bytes);
/* Creates an object with this content and an empty nets. */
weir_status weiri_mem_make(weir_mem content, weir_mem **mem);

#endif
