/* Registered memory inside. */
#ifndef WEIR_COMM_MEM_H
#define WEIR_COMM_MEM_H

#include "comm/internode/networks.h"

struct weir_mem {
    weir_comm *comm;
    void *pointer;
    size_t bytes;
    enum { WEIRI_MEM_ALLOCATED, WEIRI_MEM_REGISTERED, WEIRI_MEM_IMPORTED } kind;
    int owner;              /* rank whose region it lies in */
    weiri_desc desc;        /* generation 0: staged */
    weiri_mem_nets *nets; /* owned */
};

/* Makes an object of this content, whose wires it adds. */
weir_status weiri_mem_make(weir_mem content, weir_mem **mem);

#endif
