/* The definition of weir_mem. */
#ifndef WEIR_COMM_MEM_H
#define WEIR_COMM_MEM_H

#include "comm/internode/networks.h"

struct weir_mem {
    weir_comm *comm;
    void *pointer;
    size_t bytes;
    enum { WEIRI_MEM_ALLOCATED, WEIRI_MEM_REGISTERED, WEIRI_MEM_IMPORTED } kind;
    int owner;              /* the rank that owns the memory */
    weiri_desc desc;        /* generation 0: staged */
    weiri_mem_nets *nets; /* registrations or keys for networks; owned */
};

/* Creates an object with this content and an empty nets. */
weir_status weiri_mem_make(weir_mem content, weir_mem **mem);

#endif
