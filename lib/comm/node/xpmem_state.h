/* The attachments of a communicator: shared by xpmem.c and xpmem_fault.c. */
#ifndef WEIR_COMM_NODE_XPMEM_STATE_H
#define WEIR_COMM_NODE_XPMEM_STATE_H

#include "comm/node/xpmem.h"

#include <signal.h>
#include <sys/types.h>

#define WEIRI_XPMEM_LIBRARY "libxpmem.so.0"
/* Constants of its interface: a permit by mode bits, for reading and writing, for this user. */
enum { WEIRI_XPMEM_PERMIT_MODE = 1, WEIRI_XPMEM_READ_WRITE = 2, WEIRI_XPMEM_OWNER_ONLY = 0600 };

/* libxpmem's functions and the type of their argument. -1 is a failure; errno has the reason. */
typedef struct weiri_xpmem_address {
    int64_t permit;
    off_t offset;
} weiri_xpmem_address;

typedef struct weiri_xpmem_library {
    int (*version)(void);
    int64_t (*make)(void *address, size_t bytes, int permit_type, void *mode);
    int (*remove)(int64_t segment);
    int64_t (*get)(int64_t segment, int flags, int permit_type, void *mode);
    int (*release)(int64_t permit);
    void *(*attach)(weiri_xpmem_address from, size_t bytes, void *wanted);
    int (*detach)(void *attached);
} weiri_xpmem_library;

/* A range [start, end) of a peer's addresses, and where it is attached. */
typedef struct weiri_attachment {
    uintptr_t start, end;
    char *at;                      /* NULL: none */
    uint64_t used;                 /* when it was last used, by weiri_xpmem.clock */
    volatile sig_atomic_t is_lost; /* empty memory has taken its place */
} weiri_attachment;

typedef struct weiri_attached_peer {
    int64_t permit; /* 0: none */
    int is_here;    /* the peer is a thread of this process: its addresses are valid */
    weiri_attachment *attachments; /* WEIRI_ATTACHMENTS_MAX, or NULL; owned */
} weiri_attached_peer;

typedef struct weiri_xpmem {
    const weiri_xpmem_library *library;
    int nranks;
    uint64_t clock;
    volatile sig_atomic_t lost_rank; /* whose memory was not there; -1: none */
    weiri_attached_peer peers[];
} weiri_xpmem;

/* xpmem_fault.c: handle SIGBUS while there are users. Not thread-safe. */
void weiri_xpmem_catch(void);
void weiri_xpmem_uncatch(void);
/* This thread accesses attached memory of xpmem; NULL: of none. */
void weiri_xpmem_accesses(weiri_xpmem *xpmem);

#endif
