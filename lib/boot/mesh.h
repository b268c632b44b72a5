/*
 * A mesh is the bootstrap that fork and TCP share: one connected stream socket
 * to every peer. How the sockets came about is their business; from there on
 * everything is here.
 *
 * Protocol: each direction of a socket carries frames, a header and bytes of
 * payload. A frame is either a message (send, recv) or this rank's part of an
 * exchange (allgather, barrier). An exchange is direct, every rank with every
 * other, so that whoever is missing is named by everyone. Messages that a peer
 * sent before it entered an exchange are queued until they are received.
 *
 * An exchange that failed, a frame that was cut off in the middle, or a peer
 * that is gone cannot be mended: the mesh then counts as broken and every later
 * operation repeats the failure. Peers are told why by a farewell, the last frame, so that
 * all ranks end at once and with the same reason.
 */
#ifndef WEIR_BOOT_MESH_H
#define WEIR_BOOT_MESH_H

#include <weir/weir.h>

#include <stdint.h>

/* Makes a bootstrap of a mesh. Local. fds: the non-blocking socket to each
 * rank, -1 at the own place; on success they pass to the bootstrap. name:
 * static storage. Waits end after timeout_ms. */
weir_status weiri_mesh_create(const char *name, int rank, int nranks, int timeout_ms,
                              const int *fds, weir_boot **boot);

/* ----------------------------------- between mesh.c, exchange.c and tcp.c */

enum {
    WEIRI_FRAME_MESSAGE = 0x4753454d,
    WEIRI_FRAME_EXCHANGE = 0x48435845,
    WEIRI_FRAME_FAREWELL = 0x45594244
};
enum { WEIRI_REASON_BYTES = 384 };

/* As it stands on the wire: all ranks have the same byte order. */
typedef struct weiri_frame {
    uint32_t kind;
    int32_t tag; /* of a message; of a farewell the status; else 0 */
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
    weiri_frame frame;   /* the header that is arriving */
    size_t frame_bytes;  /* how much of it has; kept when a wait times out */
    int cut_off;         /* a frame to it was sent in part */
    weiri_message *first; /* messages that came ahead of an exchange, in order */
    weiri_message **last; /* where the next one is linked */
} weiri_mesh_peer;

typedef struct weiri_mesh {
    weir_boot_ops ops;
    int rank, nranks, timeout_ms;
    weir_status broken; /* WEIR_OK, or why nothing works any more */
    char reason[WEIRI_REASON_BYTES];
    weiri_mesh_peer peers[];
} weiri_mesh;

/* What a bootstrap was made with (boot.c): of a mesh, that. */
void *weiri_boot_context(const weir_boot *boot);
/* The operations of exchange.c; context is the weiri_mesh. */
weir_status weiri_mesh_allgather(void *context, void *all, size_t bytes);
weir_status weiri_mesh_barrier(void *context);

/* Marks the mesh broken by the calling thread's last error, says farewell to
 * the peers, and returns status. Peers to whom a frame was sent in part must be
 * marked cut_off before. */
weir_status weiri_mesh_break(weiri_mesh *mesh, weir_status status);
/* WEIR_OK, or the failure that broke the mesh. */
weir_status weiri_mesh_usable(const weiri_mesh *mesh);
/* The failure for the frame in from->frame, a farewell or rubbish. */
weir_status weiri_mesh_fail_frame(weiri_mesh *mesh, int peer);
/* Queues a message that arrived while an exchange was waited for. */
void weiri_mesh_keep(weiri_mesh_peer *from, weiri_message *message);

#endif
