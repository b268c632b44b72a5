/*
 * The mesh: the bootstrap that fork and TCP share, with one connected stream socket to every peer.
 * fork.c and tcp.c create the sockets.
 *
 * Protocol: each direction of a socket carries frames, a header followed by a payload. A frame is a
 * message (send, recv), this rank's part of an exchange (allgather, barrier), or a farewell. In an
 * exchange every rank sends its part directly to every other one, so that each rank can name the
 * ranks that are missing. Messages that a peer sent before it entered an exchange are queued until
 * they are received.
 *
 * The mesh is broken after a failed exchange, a frame that was sent in part, or the loss of a peer:
 * every later operation repeats the failure. The rank that fails sends the reason to its peers in a
 * farewell, the last frame, so that all ranks fail at once with the same reason. A rank that fails
 * because of a farewell passes on the reason in it, so that reasons do not grow on their way.
 */
#ifndef WEIR_BOOT_MESH_H
#define WEIR_BOOT_MESH_H

#include <weir/weir.h>

#include <stdint.h>

/* Creates the bootstrap of a mesh. Local. fds has the non-blocking socket to each rank, and -1 for
 * the calling one; the bootstrap owns them on success. name has static storage. Waits end after
 * timeout_ms. */
weir_status weiri_mesh_create(const char *name, int rank, int nranks, int timeout_ms,
                              const int *fds, weir_boot **boot);

/* Ends all waits of the mesh, here and of peers that wait for this rank. Thread-safe until its
 * destruction. */
void weiri_mesh_shut(weir_boot *boot);

/* ----------------------------------- between mesh.c, exchange.c and tcp.c
 *
 * mesh.c and exchange.c call each other: they are two halves of one object, divided by its
 * operations. */

enum {
    WEIRI_FRAME_MESSAGE = 0x4753454d,
    WEIRI_FRAME_EXCHANGE = 0x48435845,
    WEIRI_FRAME_FAREWELL = 0x45594244
};
enum { WEIRI_REASON_BYTES = 384 };

/* A header as it is sent; all ranks have the same byte order. */
typedef struct weiri_frame {
    uint32_t kind;
    int32_t tag; /* message: its tag; farewell: the status; else 0 */
    uint64_t bytes;
} weiri_frame;

typedef struct weiri_message {
    struct weiri_message *next;
    int tag;
    size_t bytes;
    char data[];
} weiri_message;

typedef struct weiri_mesh_peer {
    int fd;
    weiri_frame frame;    /* the header being received */
    size_t frame_bytes;   /* bytes of it received so far; kept when a wait times out */
    int cut_off;          /* a frame to this peer was sent in part */
    weiri_message *first; /* queued messages, in order */
    weiri_message **last; /* where the next one is linked */
} weiri_mesh_peer;

typedef struct weiri_mesh {
    weir_boot_ops ops;
    int rank, nranks, timeout_ms;
    int first, stride;  /* the members' numbers in error lines: first, first + stride, ... */
    weir_status broken; /* WEIR_OK, or the failure that broke the mesh */
    char reason[WEIRI_REASON_BYTES];
    char cause[WEIRI_REASON_BYTES]; /* the reason in a farewell that was received, or "" */
    weiri_mesh_peer peers[];
} weiri_mesh;

/* The number of a member in error lines. */
static inline int weiri_mesh_number(const weiri_mesh *mesh, int member)
{
    return mesh->first + member * mesh->stride;
}

/* Returns the context of a bootstrap (boot.c): for a mesh, the weiri_mesh. */
void *weiri_boot_context(const weir_boot *boot);
/* The operations of exchange.c; context is the weiri_mesh. */
weir_status weiri_mesh_allgather(void *context, void *all, size_t bytes);
weir_status weiri_mesh_barrier(void *context);

/* Marks the mesh as broken by the calling thread's last error, sends farewells, and returns status.
 * cut_off must be set before for peers to which a frame was sent in part. */
weir_status weiri_mesh_break(weiri_mesh *mesh, weir_status status);
/* WEIR_OK, or the failure that broke the mesh. */
weir_status weiri_mesh_usable(const weiri_mesh *mesh);
/* Returns the failure that a peer's current frame stands for: a farewell, or an invalid frame. */
weir_status weiri_mesh_fail_frame(weiri_mesh *mesh, int peer);
/* Queues a message that arrived during an exchange. */
void weiri_mesh_keep(weiri_mesh_peer *from, weiri_message *message);

#endif
