/*
 * Internal structs and functions of the tcp transport, shared by tcp*.c. tcp.c explains streams,
 * fences and acknowledgements. Everything is protected by the network's lock.
 */
#ifndef WEIR_TRANSPORT_NET_TCP_H
#define WEIR_TRANSPORT_NET_TCP_H

#include "boot/guests.h"
#include "boot/socket.h"
#include "transport/net/staging.h"
#include "transport/net/net.h"

enum {
    WEIRI_TCP_MOST_STREAMS = 8,
    WEIRI_TCP_BUFFER_BYTES = 16384, /* read at once if no payload is expected */
    WEIRI_TCP_AHEAD_BYTES = 128,    /* read after a payload: the next frame's header */
    WEIRI_TCP_TEXT_BYTES = 384,
    WEIRI_TCP_SLOTS = 2,      /* staging slots per stream and direction */
    WEIRI_TCP_GRACE_MS = 500, /* from a connection's end until it counts as a failure */
};

/* Kinds of frames. */
enum {
    WEIRI_TCP_PUT = 0x31545550,    /* value bytes of payload follow, for offset to of memory */
    WEIRI_TCP_SIGNAL = 0x314e4753, /* the word at offset to of memory becomes value */
    WEIRI_TCP_FENCE = 0x31434e46,  /* a count for each stream follows */
    WEIRI_TCP_ACK = 0x314b4341,    /* likewise */
    WEIRI_TCP_BYE = 0x31455942,    /* to is a status; value bytes of text follow */
};

/* The header of a frame, as transmitted; all ranks have the same byte order. */
typedef struct weiri_tcp_frame {
    uint32_t kind;
    uint32_t nstreams; /* counts of a fence or an acknowledgement */
    uint64_t memory;
    uint64_t to;
    uint64_t value;
} weiri_tcp_frame;

/* A staging slot. */
typedef struct weiri_tcp_slot {
    weiri_staging_slot stage;
    int is_busy;     /* holds a copy in progress, or (sending) a payload */
    int is_copied;   /* sending: the payload has been copied into it */
    uint64_t frames; /* receiving: frames that are processed once the copy has ended */
} weiri_tcp_slot;

/* A frame that waits to be written. */
typedef struct weiri_tcp_item {
    weiri_tcp_frame frame;
    uint64_t counts[WEIRI_TCP_MOST_STREAMS]; /* as many as frame.nstreams */
    const char *payload;
    size_t payload_bytes;
    int is_staged;        /* the payload is in GPU memory; */
    weiri_tcp_slot *slot; /* where it is copied to first; NULL before the copy starts */
} weiri_tcp_item;

/* A put of the peer that is to arrive outside of the memory that it names. */
typedef struct weiri_tcp_landing {
    uint64_t memory, at, bytes; /* the put; memory is 0 if this entry is free */
    char *to;
    int has_begun, has_ended; /* its payload */
} weiri_tcp_landing;

struct weiri_tcp_endpoint;

/* One connection. Both sides count the frames that move data (puts and signals). */
typedef struct weiri_tcp_stream {
    struct weiri_tcp_endpoint *endpoint;
    int index, fd;
    uint32_t events; /* registered with epoll */

    weiri_tcp_item *items; /* a ring */
    size_t capacity, head, count;
    size_t head_sent;      /* bytes of the first item */
    uint64_t queued_bytes; /* of payload */
    uint64_t frames_sent;  /* or queued */
    uint64_t frames_written;
    uint64_t fenced[WEIRI_TCP_MOST_STREAMS]; /* the counts of the latest fence */
    int is_full;                             /* the socket accepted no more data */
    int write_failed;                        /* writing failed; reading reports the reason */

    size_t in_begin, in_end;
    char *payload; /* where the rest of the current payload goes */
    size_t payload_left;
    weiri_tcp_landing *landing; /* the redirection of the current payload, or NULL */
    int is_staged;              /* the payload goes to GPU memory */
    size_t slot_bytes;          /* bytes in the slot that is being filled */
    int awaits_copy;            /* nothing can be processed before a copy has ended */
    uint64_t frames_done;
    uint64_t awaits[WEIRI_TCP_MOST_STREAMS]; /* counts of the fence that it waits at */
    int is_stalled;
    int is_ended; /* the peer closed it */
    weiri_tcp_slot out[WEIRI_TCP_SLOTS], into[WEIRI_TCP_SLOTS];
    int into_next;
    unsigned char in[WEIRI_TCP_BUFFER_BYTES];
} weiri_tcp_stream;

/* An outstanding operation: complete once the peer has acknowledged the given number of frames of
 * each stream. */
typedef struct weiri_tcp_op {
    uint64_t memory, to, bytes;
    uint64_t needs[WEIRI_TCP_MOST_STREAMS];
} weiri_tcp_op;

/* How an endpoint becomes connected: by endpoint_connect, or when it is first used (prepared). */
typedef enum weiri_tcp_state {
    WEIRI_TCP_BLOCKING, /* not prepared */
    WEIRI_TCP_UNUSED,
    WEIRI_TCP_CALLS,     /* this rank connects */
    WEIRI_TCP_IS_CALLED, /* the peer does */
    WEIRI_TCP_CONNECTED
} weiri_tcp_state;

/* A prepared endpoint's connection under way. */
typedef struct weiri_tcp_call {
    int fd;             /* of the next stream; -1: none */
    int is_established; /* the handshake has begun */
    int naps;           /* attempts that failed in a row */
    uint64_t retry_ns;  /* when the next attempt begins; 0: none waits */
    uint64_t end_ns;    /* the deadline */
    weiri_handshake handshake;
} weiri_tcp_call;

typedef struct weiri_tcp_endpoint {
    weiri_endpoint base;
    /* What every pass of progress reads, together, because with many peers it is rarely cached. */
    struct weiri_tcp_endpoint *next; /* in the network's list */
    size_t count;                    /* of ops */
    uint64_t nqueued;                /* items of all streams */
    uint64_t owed_frames;            /* processed but not yet acknowledged */
    uint64_t ended_ns;               /* when a premature end of the peer was noticed; else 0 */
    uint64_t moved_ns;               /* when the peer last accepted data */
    int idle_passes;                 /* of progress since the latest arrived */
    int is_connected;
    int has_left; /* the peer sent a bye frame without an error */
    int nstreams;
    int nmade; /* streams that are connections; of a prepared endpoint the others come later */

    uint64_t owed_bytes;
    weiri_job job; /* with the key of this pair of ranks */
    weiri_tcp_state state;
    weiri_tcp_call *call;  /* NULL unless it is prepared, in use and not connected */
    weiri_address listens; /* of a prepared endpoint's peer */
    int streams_wanted;    /* of a prepared endpoint */
    weiri_tcp_stream *streams[WEIRI_TCP_MOST_STREAMS];
    int next_stream;                      /* of the next stripe */
    char where[WEIRI_ADDRESS_TEXT_BYTES]; /* the peer's address */

    weiri_tcp_op *ops; /* a ring */
    size_t capacity, head;
    size_t nsent; /* of these, in order, whose frames are written */
    uint64_t acked[WEIRI_TCP_MOST_STREAMS];

    weiri_tcp_landing *landings; /* WEIRI_NET_LANDINGS; NULL until the first */
    int nlandings;               /* entries in use */

    char *reason; /* of the failure, if base.failed is set and there was memory for it */
} weiri_tcp_endpoint;

typedef struct weiri_tcp_mem {
    weiri_net_mem base;
    weiri_net_place place;
    uint64_t id;
} weiri_tcp_mem;

typedef struct weiri_tcp_net {
    weiri_net base;
    weiri_job job; /* its key is not used */
    int nstreams;
    weiri_address listens;
    int has_source; /* WEIR_SOCKET_IFNAME names the interface to connect from */
    int listener, epoll, timer;
    unsigned passes; /* progress calls since the last epoll_wait */
    weiri_guests guests;
    weiri_tcp_endpoint *endpoints; /* except prepared ones that are not used */

    /* Of prepared endpoints (tcp_first_use.c, tcp_gate.c); NULL and -1 if there are none. */
    uint8_t secret[WEIRI_KEY_BYTES];
    weiri_tcp_endpoint **prepared; /* by rank */
    int gate;                      /* an epoll set, itself in epoll: listener, guests, calls */
    struct pollfd *gate_set;
    int check_failed;                   /* for the guest that is being decided about */
    char failure[WEIRI_TCP_TEXT_BYTES]; /* the reason for base.failed */
    weiri_tcp_mem **mems;               /* by slot */
    uint32_t nmems, generation;
    weiri_staging stage;
} weiri_tcp_net;

/* Contents of a weiri_net_address. */
typedef struct weiri_tcp_address {
    uint64_t magic;
    int32_t rank, nranks;
    int32_t nstreams;
    int32_t unused;
    weiri_address listens;
    uint8_t key[WEIRI_KEY_BYTES]; /* of the pair; for all peers: the rank's secret */
} weiri_tcp_address;

/* Contents of a weiri_net_key. */
typedef struct weiri_tcp_key {
    uint64_t magic, id, bytes;
    int32_t rank;
    uint32_t place;
} weiri_tcp_key;

/* ------------------------------------------------------------- tcp_connect.c */

/* Chooses the interface and listens on it. */
weir_status weiri_tcp_listen(weiri_tcp_net *net);
weir_status weiri_tcp_endpoint_create(weiri_net *net, int peer, weiri_endpoint **endpoint,
                                      weiri_net_address *own);
weir_status weiri_tcp_endpoint_connect(weiri_endpoint *endpoint, const weiri_net_address *peers);
void weiri_tcp_endpoint_destroy(weiri_endpoint *endpoint);
/* Checks that an address begins with magic and is that of the endpoint's peer. WEIR_ERR_INVALID,
 * WEIR_ERR_MISMATCH. */
weir_status weiri_tcp_check_address(const weiri_tcp_endpoint *endpoint,
                                    const weiri_tcp_address *peers, uint64_t magic);
/* Makes a stream without a connection, the endpoint's next. NULL if there is no memory. */
weiri_tcp_stream *weiri_tcp_add_stream(weiri_tcp_endpoint *endpoint);
/* Makes a connection that has passed the handshake the endpoint's next stream. On failure it is
 * closed. WEIR_ERR_NO_MEMORY. */
weir_status weiri_tcp_take_stream(weiri_tcp_endpoint *endpoint, int fd);
/* Has epoll report what arrives at the endpoint's streams, which are all made; allocates what they
 * need for GPU memory. WEIR_ERR_SYSTEM, WEIR_ERR_NO_MEMORY. */
weir_status weiri_tcp_watch_streams(weiri_tcp_endpoint *endpoint);

/* Describes a call of the endpoint's peer at an address; *source gets the address to call from. */
weiri_socket_call weiri_tcp_socket_call(const weiri_tcp_endpoint *endpoint, const weiri_address *to,
                                        weiri_address *source);

/* ----------------------------------------------------------- tcp_first_use.c */

/* Slots of the ops table. */
weir_status weiri_tcp_address_own(weiri_net *net, weiri_net_address *own);
weir_status weiri_tcp_endpoint_prepare(weiri_net *net, int peer, const weiri_net_address *peers,
                                       weiri_endpoint **endpoint);
weir_status weiri_tcp_endpoint_begin(weiri_endpoint *endpoint);
/* The prepared endpoint whose key the guest has proven to know; NULL if there is none. */
weiri_tcp_endpoint *weiri_tcp_prepared_for(const weiri_tcp_net *net, const weiri_guest *who);
/* What weiri_guests_host asks about a guest of a prepared endpoint. */
int weiri_tcp_guest_is_crossing(const weiri_tcp_endpoint *endpoint);
weir_status weiri_tcp_admit_guest(weiri_tcp_endpoint *endpoint);
/* Goes on with an endpoint after a guest became one of its streams. */
void weiri_tcp_guest_came(weiri_tcp_endpoint *endpoint);
/* Goes on with a call whose socket has an event. */
void weiri_tcp_call_advance(weiri_tcp_endpoint *endpoint);
/* Retries a call whose time has come, and fails the endpoint after the deadline. */
void weiri_tcp_check_call(weiri_tcp_endpoint *endpoint);
/* When weiri_tcp_check_call has something to do. */
uint64_t weiri_tcp_call_due(const weiri_tcp_endpoint *endpoint);
/* Ends a call; NULL is allowed. */
void weiri_tcp_drop_call(weiri_tcp_call *call);

/* ----------------------------------------------------------------- tcp_gate.c */

/* Creates the gate, with the listener. WEIR_ERR_SYSTEM, WEIR_ERR_NO_MEMORY. */
weir_status weiri_tcp_gate_open(weiri_tcp_net *net);
/* Has the gate report events of a socket, by an operation of epoll_ctl, as those of the endpoint's
 * call, or if that is NULL as those of guests. WEIR_ERR_SYSTEM. */
weir_status weiri_tcp_gate_watch(const weiri_tcp_net *net, int operation, int fd, uint32_t events,
                                 weiri_tcp_endpoint *endpoint);
/* Serves the listener, guests and calls, if the gate has events. */
void weiri_tcp_serve_gate(weiri_tcp_net *net);
/* Has the gate, if there is one, report what guests say; fails the network if it cannot. */
void weiri_tcp_watch_guests(weiri_tcp_net *net);
/* Destroys the prepared endpoints that are left, and the gate. */
void weiri_tcp_close_gate(weiri_tcp_net *net);

/* -------------------------------------------------------------- tcp_memory.c */

/* Slots of the ops table. */
weir_status weiri_tcp_mem_register(weiri_net *net, void *memory, size_t bytes,
                                   weiri_net_place place, weiri_net_mem **mem);
void weiri_tcp_mem_deregister(weiri_net_mem *mem);
/* Registered memory by its id; NULL if there is none. */
weiri_tcp_mem *weiri_tcp_mem_of(const weiri_tcp_net *net, uint64_t id);
/* Reads a key and checks that it names memory of the endpoint's peer which contains
 * [to, to + bytes). WEIR_ERR_INVALID. */
weir_status weiri_tcp_read_key(const weiri_tcp_endpoint *endpoint, const weiri_net_key *given,
                               uint64_t to, uint64_t bytes, weiri_tcp_key *key);

/* ---------------------------------------------------------- tcp_operations.c */

/* Slots of the ops table. */
weir_status weiri_tcp_put(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at,
                          const weiri_net_key *key, uint64_t to, uint64_t bytes);
weir_status weiri_tcp_put_from(weiri_endpoint *endpoint, const char *from, const weiri_net_key *key,
                               uint64_t to, uint64_t bytes);
weir_status weiri_tcp_signal(weiri_endpoint *endpoint, const weiri_net_key *key, uint64_t to,
                             uint64_t value);
void weiri_tcp_forget(weiri_endpoint *endpoint);

/* --------------------------------------------------------------- tcp_queue.c */

/* Queue an operation. WEIR_ERR_NO_MEMORY. */
weir_status weiri_tcp_queue_put(weiri_tcp_endpoint *endpoint, const char *from, int is_staged,
                                const weiri_tcp_key *key, uint64_t to, uint64_t bytes);
weir_status weiri_tcp_queue_signal(weiri_tcp_endpoint *endpoint, const weiri_tcp_key *key,
                                   uint64_t to, uint64_t value);
/* Writes the rest of a frame that is written in part, with zeros for memory that is not there. */
void weiri_tcp_finish_frame(weiri_tcp_stream *stream);
/* Queues a bye frame after everything else; text is truncated to fit. */
weir_status weiri_tcp_queue_bye(weiri_tcp_endpoint *endpoint, weir_status status, const char *text);
/* Adds an empty item at the end of a stream's queue. NULL if there is no memory. */
weiri_tcp_item *weiri_tcp_append_item(weiri_tcp_stream *stream);

/* An item of a stream's queue, counted from the first one that is not written. */
static inline weiri_tcp_item *weiri_tcp_item_at(const weiri_tcp_stream *stream, size_t index)
{
    return &stream->items[(stream->head + index) & (stream->capacity - 1)];
}

/* An outstanding operation, counted from the earliest. */
static inline weiri_tcp_op *weiri_tcp_op_at(const weiri_tcp_endpoint *endpoint, size_t index)
{
    return &endpoint->ops[(endpoint->head + index) & (endpoint->capacity - 1)];
}

/* --------------------------------------------------------------- tcp_write.c */

/* Writes as much as the sockets accept; sets *moved if that was anything. Fails only if GPU memory
 * cannot be read; a lost peer is reported by reading. */
weir_status weiri_tcp_write(weiri_tcp_endpoint *endpoint, int *moved);

/* --------------------------------------------------------- tcp_acknowledge.c */

/* Advances sent and completed; an empty operation is complete at once. */
void weiri_tcp_count_completed(weiri_tcp_endpoint *endpoint);
/* Processes an acknowledgement. Returns 0 if it counts more frames than were sent. */
int weiri_tcp_acknowledged(weiri_tcp_endpoint *endpoint, const uint64_t *counts);
/* Queues an acknowledgement if frames are unacknowledged. */
void weiri_tcp_acknowledge(weiri_tcp_endpoint *endpoint);

/* ------------------------------------------------------------- tcp_receive.c */

/* Reads and processes available data; sets *moved if there were any. A failure fails the
 * endpoint. */
weir_status weiri_tcp_read(weiri_tcp_stream *stream, int *moved);
/* Resumes the streams whose fences are satisfied. */
weir_status weiri_tcp_resume(weiri_tcp_endpoint *endpoint, int *moved);

/* Completes copies into GPU memory and resumes the streams that waited for them. */
weir_status weiri_tcp_settle_copies(weiri_tcp_endpoint *endpoint, int *moved);

/* --------------------------------------------------------------- tcp_landing.c */

/* Slots of the ops table. */
void weiri_tcp_land(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at, uint64_t bytes,
                    char *to);
int weiri_tcp_landed(weiri_endpoint *endpoint, const weiri_net_mem *mem, uint64_t at);
/* Begins a payload for [at, at + bytes) of memory: redirects it if that was requested. */
void weiri_tcp_landing_begin(weiri_tcp_stream *stream, uint64_t memory, uint64_t at,
                             uint64_t bytes);

/* --------------------------------------------------------------- tcp_staging.c */

/* Called when GPU memory is registered: gives all streams staging slots. WEIR_ERR_UNSUPPORTED. */
weir_status weiri_tcp_staging_add(weiri_tcp_net *net, const void *memory);
/* Allocates staging slots for the endpoint's streams, if GPU memory is registered. */
weir_status weiri_tcp_staging_prepare(weiri_tcp_endpoint *endpoint);
/* Frees a stream's staging slots, after the copies that use them. */
void weiri_tcp_staging_drop(weiri_tcp_stream *stream);
/* Starts copying an item's payload into a slot, if one is free, and points the item to it. */
weir_status weiri_tcp_staging_out(weiri_tcp_stream *stream, weiri_tcp_item *item);
/* Sets *ready if the item can be written. */
weir_status weiri_tcp_staging_is_out(weiri_tcp_stream *stream, const weiri_tcp_item *item,
                                     int *ready);
/* The slot to be filled next; NULL if none is free. */
weiri_tcp_slot *weiri_tcp_staging_room(weiri_tcp_stream *stream);
/* Starts copying that slot to the payload's destination, and advances the destination. */
weir_status weiri_tcp_staging_in(weiri_tcp_stream *stream, size_t bytes, int ends_frame);
/* Adds the number of frames whose copies have ended; sets *ended if a slot became free. */
weir_status weiri_tcp_staging_settle(weiri_tcp_stream *stream, uint64_t *frames, int *ended);
/* Whether copies into GPU memory are in progress. */
int weiri_tcp_staging_copies(const weiri_tcp_stream *stream);

/* ------------------------------------------------------------ tcp_progress.c */

/* Slots of the ops table. */
weir_status weiri_tcp_progress(weiri_net *net, int *moved);
int weiri_tcp_arm(weiri_net *net, int *descriptor);
/* Registers with epoll for the events that the stream needs now. */
void weiri_tcp_watch(weiri_tcp_stream *stream);

/* ------------------------------------------------------------- tcp_failure.c */

/* Closes the connections. */
void weiri_tcp_hang_up(weiri_tcp_endpoint *endpoint);
/* Fails the endpoint for good, with the calling thread's last error as the reason. */
void weiri_tcp_fail_endpoint(weiri_tcp_endpoint *endpoint, weir_status status);
/* Returns the endpoint's failure, with its reason. */
weir_status weiri_tcp_return_failure(const weiri_tcp_endpoint *endpoint);
/* Fails the endpoint if a deadline has passed. */
void weiri_tcp_check_deadline(weiri_tcp_endpoint *endpoint);

#endif
