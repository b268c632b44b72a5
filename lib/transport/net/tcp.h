/*
 * The tcp wire's insides, shared by tcp*.c; tcp.c says how the wire works.
 */
#ifndef WEIR_TRANSPORT_NET_TCP_H
#define WEIR_TRANSPORT_NET_TCP_H

#include "boot/guests.h"
#include "transport/net/staging.h"
#include "transport/net/net.h"

enum {
    WEIRI_TCP_MOST_STREAMS = 8,
    WEIRI_TCP_BUFFER_BYTES = 16384, /* what is read at once where no payload is awaited */
    WEIRI_TCP_AHEAD_BYTES = 128,    /* what is read behind a payload: the next frame's header */
    WEIRI_TCP_TEXT_BYTES = 384,
    WEIRI_TCP_SLOTS = 2, /* of a stream, each way, for memory of a GPU */
};

/* Kinds of frames. */
enum {
    WEIRI_TCP_PUT = 0x31545550,    /* value bytes of payload follow, for offset to of memory */
    WEIRI_TCP_SIGNAL = 0x314e4753, /* the word at offset to of memory becomes value */
    WEIRI_TCP_FENCE = 0x31434e46,  /* a count for each stream follows */
    WEIRI_TCP_ACK = 0x314b4341,    /* likewise */
    WEIRI_TCP_BYE = 0x31455942,    /* to is a status; value bytes of text follow */
};

/* The header of a frame as it stands on the wire: all ranks have the same byte order. */
typedef struct weiri_tcp_frame {
    uint32_t kind;
    uint32_t nstreams; /* counts of a fence or an acknowledgement */
    uint64_t memory;
    uint64_t to;
    uint64_t value;
} weiri_tcp_frame;

/* A place for what is staged. */
typedef struct weiri_tcp_slot {
    weiri_staging_slot stage;
    int is_busy;     /* a copy, or for sending a payload, is in it */
    int is_copied;   /* for sending: the payload is there */
    uint64_t frames; /* for receiving: how many are taken when the copy has ended */
} weiri_tcp_slot;

/* A frame that waits to be written. */
typedef struct weiri_tcp_item {
    weiri_tcp_frame frame;
    uint64_t counts[WEIRI_TCP_MOST_STREAMS]; /* as many as frame.nstreams */
    const char *payload;
    size_t payload_bytes;
    int is_staged;        /* the payload is a GPU's, */
    weiri_tcp_slot *slot; /* and this is where it is copied to first; NULL: not begun */
} weiri_tcp_item;

struct weiri_tcp_endpoint;

/* One connection. Both sides count frames that move data, puts and signals. */
typedef struct weiri_tcp_stream {
    struct weiri_tcp_endpoint *endpoint;
    int index, fd;
    uint32_t events; /* what epoll watches it for */

    weiri_tcp_item *items; /* a ring */
    size_t capacity, head, count;
    size_t head_sent;      /* bytes of the first item */
    uint64_t queued_bytes; /* of payload */
    uint64_t frames_sent;  /* or queued */
    uint64_t frames_written;
    uint64_t fenced[WEIRI_TCP_MOST_STREAMS]; /* the counts of the latest fence */
    int is_full;           /* the socket took no more */
    int write_failed;           /* writing failed; reading tells why */

    size_t in_begin, in_end;
    char *payload; /* where the rest of the current payload goes */
    size_t payload_left;
    int is_staged;   /* that is a GPU's memory */
    size_t slot_bytes; /* of the payload, in the buffer that fills now */
    int awaits_copy; /* nothing can be taken before one has ended */
    uint64_t frames_done;
    uint64_t awaits[WEIRI_TCP_MOST_STREAMS]; /* counts of the fence it stands at */
    int is_stalled;
    int is_ended; /* the peer closed it */
    weiri_tcp_slot out[WEIRI_TCP_SLOTS], into[WEIRI_TCP_SLOTS];
    int into_next;
    unsigned char in[WEIRI_TCP_BUFFER_BYTES];
} weiri_tcp_stream;

/* An operation that was posted and is not known to have arrived: done when the peer has
 * acknowledged so many frames of each stream. */
typedef struct weiri_tcp_op {
    uint64_t memory, to, bytes;
    uint64_t needs[WEIRI_TCP_MOST_STREAMS];
} weiri_tcp_op;

typedef struct weiri_tcp_endpoint {
    weiri_endpoint base;
    struct weiri_tcp_endpoint *next; /* of the wire */
    weiri_job job;        /* with the key that the lower rank made */
    int nstreams;         /* connections made so far */
    int is_connected;
    weiri_tcp_stream *streams[WEIRI_TCP_MOST_STREAMS];
    int next_stream;      /* of the next stripe */
    char where[WEIRI_ADDRESS_TEXT_BYTES]; /* the peer's address */

    weiri_tcp_op *ops; /* a ring */
    size_t capacity, head, count;
    size_t nsent; /* of these, in order, whose frames are written */
    uint64_t acked[WEIRI_TCP_MOST_STREAMS];
    uint64_t moved_ns; /* when the peer was last seen to take something */

    uint64_t owed_frames, owed_bytes; /* that arrived and are not acknowledged */
    int idle_passes;                  /* of progress since the latest arrived */
    char reason[WEIRI_TCP_TEXT_BYTES]; /* why it serves no more, if base.failed says so */
    int has_left;       /* the peer ended it in good order */
    uint64_t ended_ns;  /* when it turned out that the peer went too early; 0: it did not */
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
    int has_source; /* WEIR_SOCKET_IFNAME says where to leave by */
    int listener, epoll, timer;
    unsigned passes; /* of progress since epoll was last asked for more than the first streams */
    weiri_guests guests;
    weiri_tcp_endpoint *endpoints;
    weiri_tcp_mem **mems; /* by slot */
    uint32_t nmems, generation;
    weiri_staging stage;
} weiri_tcp_net;

/* What WEIRI_NET_ADDRESS_BYTES hold. */
typedef struct weiri_tcp_address {
    uint64_t magic;
    int32_t rank, nranks;
    int32_t nstreams;
    int32_t unused;
    weiri_address listens;
    uint8_t key[WEIRI_KEY_BYTES];
} weiri_tcp_address;

/* What WEIRI_NET_KEY_BYTES hold. */
typedef struct weiri_tcp_key {
    uint64_t magic, id, bytes;
    int32_t rank;
    uint32_t place;
} weiri_tcp_key;

/* ------------------------------------------------------------- tcp_connect.c */

/* Chooses the interface and listens there. */
weir_status weiri_tcp_listen(weiri_tcp_net *net);
weir_status weiri_tcp_endpoint_create(weiri_net *net, int peer, weiri_endpoint **endpoint,
                                      weiri_net_address *own);
weir_status weiri_tcp_endpoint_connect(weiri_endpoint *endpoint, const weiri_net_address *peers);
void weiri_tcp_endpoint_destroy(weiri_endpoint *endpoint);

/* ---------------------------------------------------------------- tcp_send.c */

/* Queue an operation. WEIR_ERR_NO_MEMORY. */
weir_status weiri_tcp_queue_put(weiri_tcp_endpoint *endpoint, const char *from, int is_staged,
                                const weiri_tcp_key *key, uint64_t to, uint64_t bytes);
weir_status weiri_tcp_queue_signal(weiri_tcp_endpoint *endpoint, const weiri_tcp_key *key,
                                   uint64_t to, uint64_t value);
/* The last word of this end, behind all that is queued; text is cut to what fits. */
weir_status weiri_tcp_queue_bye(weiri_tcp_endpoint *endpoint, weir_status status,
                                const char *text);
/* Writes what the sockets take now. *moved is set if that was anything. Fails if a GPU's
 * memory cannot be read; else it is reading that tells of a peer that is gone. */
weir_status weiri_tcp_write(weiri_tcp_endpoint *endpoint, int *moved);
/* The peer has so many frames of each stream. 0: more than were sent. */
int weiri_tcp_acknowledged(weiri_tcp_endpoint *endpoint, const uint64_t *counts);
/* Has the peer told what has arrived here. */
void weiri_tcp_acknowledge(weiri_tcp_endpoint *endpoint);

/* ------------------------------------------------------------- tcp_receive.c */

/* Reads what is there. *moved is set if that was anything. A failure is the endpoint's. */
weir_status weiri_tcp_read(weiri_tcp_stream *stream, int *moved);
/* Goes on with streams whose fences have fallen. */
weir_status weiri_tcp_resume(weiri_tcp_endpoint *endpoint, int *moved);

/* Goes on with what waited for copies into a GPU's memory. */
weir_status weiri_tcp_settle_copies(weiri_tcp_endpoint *endpoint, int *moved);

/* --------------------------------------------------------------- tcp_staging.c */

/* Memory of a GPU was registered: all streams need buffers. WEIR_ERR_UNSUPPORTED. */
weir_status weiri_tcp_staging_add(weiri_tcp_net *net, const void *memory);
/* Gives the endpoint's streams buffers, if the wire needs them. */
weir_status weiri_tcp_staging_prepare(weiri_tcp_endpoint *endpoint);
/* Frees a stream's buffers, behind the copies that use them. */
void weiri_tcp_staging_drop(weiri_tcp_stream *stream);
/* Begins to copy an item's payload out, if a buffer is free; its payload is there then. */
weir_status weiri_tcp_staging_out(weiri_tcp_stream *stream, weiri_tcp_item *item);
/* Whether an item can be written. */
weir_status weiri_tcp_staging_is_out(weiri_tcp_stream *stream, const weiri_tcp_item *item,
                                   int *ready);
/* The buffer that fills next; NULL: none is free. */
weiri_tcp_slot *weiri_tcp_staging_room(weiri_tcp_stream *stream);
/* Begins to copy that buffer to where the payload goes, and that goes on behind it. */
weir_status weiri_tcp_staging_in(weiri_tcp_stream *stream, size_t bytes, int ends_frame);
/* Adds the frames whose copies have ended; *ended is set if a buffer is free again. */
weir_status weiri_tcp_staging_settle(weiri_tcp_stream *stream, uint64_t *frames, int *ended);
/* Whether copies into GPU memory are under way. */
int weiri_tcp_staging_copies(const weiri_tcp_stream *stream);

/* -------------------------------------------------------------------- tcp.c */

/* Registered memory by its id; NULL: none. */
weiri_tcp_mem *weiri_tcp_mem_of(const weiri_tcp_net *net, uint64_t id);
/* Has epoll watch the stream for what it needs now. */
void weiri_tcp_watch(weiri_tcp_stream *stream);
/* Closes the connections. */
void weiri_tcp_hang_up(weiri_tcp_endpoint *endpoint);

#endif
