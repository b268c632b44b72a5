/*
 * The paths of a communicator to other nodes: where every rank is, a network with an endpoint to
 * each remote rank (a rank of another node), and messages.
 *
 * Window. Each rank registers one block of memory, its window, with the network. For each remote
 * peer it holds a line of words, which the peer sets by signals; a mirror, the copy of the peer's
 * state record; and two rings: an outbox from which messages are put, and an inbox in which they
 * arrive. Every rank knows the layout of all windows. The words, written by the peer
 * and read here:
 *
 *   arrived    messages that the peer has put into this inbox, in total
 *   consumed   bytes of its inbox that the peer has released, in total
 *   abort      the reason for which the peer ended all waits (WEIRI_ABORT_*); 0: none
 *   answered   1: the mirror is final
 *   printed    1: the peer has printed the report for all ranks
 *   finished   1: the peer has done its part in all calls
 *   left       1: the peer needs nothing from this rank any more
 *   barrier    barriers that the peer has entered as its node's leader
 *
 * Messages. A message is a head and at most slot_bytes of data: one put and one signal. Messages
 * between two ranks arrive in the order in which they were sent. The sender's outbox and the
 * receiver's inbox are rings of WEIRI_INTERNODE_SLOTS slots, each long enough for the longest
 * message, and a message has the same place in both. It begins on the first cache line after the
 * message before it; or at the next slot, if much of this slot is used, or if this slot is the last
 * one and the longest message would no longer fit. So sender and receiver compute a message's place
 * from the lengths of all messages before it. The sender may write the next one once consumed shows
 * that the receiver has taken what the previous round left there, because that has then also left
 * the outbox. A
 * receiver signals consumed after every half ring, unless it has sent a message meanwhile: each
 * head has its value by then. So many short messages need one signal.
 * All ranks call the same collectives in the same order, so messages need no tags; the length in
 * the head is compared where callers may disagree.
 *
 * Pairs. Sends and receives between two ranks, of which the other ranks do not know, are not
 * ordered with collectives. Their messages use a second window, which is created on first use:
 * another weiri_internode with the same ranks, network and endpoints, used for messages only.
 *
 * Connections. Each rank is connected to all remote ranks when the communicator is created; or,
 * over tcp and with many remote ranks (WEIR_CONNECT), endpoints are prepared then and connect when
 * they are first used. The sender of a message uses an endpoint; the receiver does, too, if a wait
 * takes long, so that it notices a rank that has died. The boxes of a peer get memory when its
 * endpoint is first used. The leaders are connected from the start to the leaders of the nodes at
 * distances 1, 2, 4, ...: aborts, the end of reports and final state records travel over all
 * connections that there are, from rank to rank (internode_pass.c), and reach every node in
 * log2(nodes) steps.
 *
 * Progress. Waits drive the network: weiri_internode_poll is part of every wait of the communicator
 * and its sub-communicators. Any thread may poll; one thread sends and receives.
 */
#ifndef WEIR_COMM_INTERNODE_INTERNODE_H
#define WEIR_COMM_INTERNODE_INTERNODE_H

#include "boot/address.h"
#include "comm/comm.h"
#include "transport/net/net.h"

enum { WEIRI_INTERNODE_SLOTS = 8 };

typedef struct weiri_internode_words {
    _Alignas(WEIR_LINE_BYTES) uint64_t arrived;
    uint64_t consumed, abort, answered, finished, left, barrier, printed;
} weiri_internode_words;

/* Precedes the data of a message. */
typedef struct weiri_internode_head {
    _Alignas(WEIR_LINE_BYTES) uint64_t bytes; /* of data in this message */
    uint64_t total_bytes; /* of the whole transfer, if it consists of several messages */
    uint64_t consumed;    /* what the sender has released of its inbox before */
    weiri_called called;  /* the call that sends it; of pairs, none */
} weiri_internode_head;

typedef struct weiri_node {
    int count;  /* ranks of the node */
    int *ranks; /* in order; the first is the node's leader */
} weiri_node;

/* The path to a rank; endpoint is NULL for ranks of this node. */
typedef struct weiri_internode_peer {
    weiri_endpoint *endpoint;
    weiri_net_key key; /* of its window */
    int here, there;   /* the peer's index in this window, and this rank's in the peer's */
    weiri_internode_words *words;
    weiri_where *mirror; /* the copy of its state record, valid once answered is set */
    char *inbox, *outbox;
    uint64_t inbox_there, words_there; /* offsets in the peer's window */
    uint64_t sent, taken;              /* messages */
    uint64_t sent_at, taken_at; /* where the next ones begin, counting the bytes of all rounds */
    uint64_t credited;          /* taken_at as the peer last learned */
    uint64_t released;          /* what the peer has consumed, by the heads of the messages taken */
    size_t stride;              /* of the longest message */
    uint64_t expected;          /* messages whose data may arrive at their destination */
    struct weiri_internode *closed; /* NULL: the boxes have memory; else whose they are */
    int is_used;                    /* in links */
    int shares_kernel;              /* with this rank */
} weiri_internode_peer;

/* The remote ranks whose endpoints are in use: all, or the ranks used so far, in the order of use.
 */
typedef struct weiri_internode_links {
    int count;
    int ranks[]; /* nremote */
} weiri_internode_links;

/* What every poll of the network runs (internode_services.c). */
typedef struct weiri_internode_service {
    void (*run)(void *context);
    void *context;
    struct weiri_internode_service *next;
} weiri_internode_service;

typedef struct weiri_internode_services {
    pthread_mutex_t lock;
    weiri_internode_service *first;
    int drivers; /* threads between drive_begin and drive_end */
} weiri_internode_services;

typedef struct weiri_internode {
    weir_comm *parent, *local;
    weiri_net *net;
    int nnodes, node; /* node: this rank's; nodes are in the order of their first ranks */
    weiri_node *nodes;
    int *node_of, *place_of; /* for each rank: its node, and its index in that node */
    int32_t *pids;
    int fewest, most;    /* the smallest and largest number of ranks of a node */
    int nremote;         /* ranks of other nodes */
    size_t slot_bytes;   /* the largest data of a message */
    size_t window_bytes; /* of this rank's window */
    weir_mem *memory;    /* the window; the ranks of this node map it, too */
    char *window;
    weiri_net_mem *mem;
    weiri_where *own_records; /* in the window: copies of the state records of this node's ranks */
    weiri_internode_peer *peers; /* nranks */
    uint64_t barriers;
    uint64_t polls;
    uint64_t lost_ns; /* when the failure of an endpoint was first seen; 0: none */
    int lost;         /* the peer of that endpoint */
    int aborted;      /* an abort of another node was passed on to this node */
    /* What this rank has sent to its remote peers: its abort, final record, finished word. */
    int abort_sent, record_sent, finished;
    weiri_internode_links *links; /* shared with pairs */
    /* If connections are made when first used: what links that are made later are sent, too. */
    int is_first_use;
    uint64_t abort_reason;
    int printed, left;     /* sent */
    int replaces_leader;   /* this rank has connected to other leaders, as its own is lost */
    uint64_t abort_ns;     /* when this rank first missed its leader after an abort; 0: not yet */
    unsigned char *passed; /* for each rank: its final record was passed on */
    weiri_desc leader_window; /* of this node's leader, which receives the records of other nodes */
    char failure[256];        /* why a connection could not be made; empty: none failed */
    struct weiri_internode *pairs; /* NULL until it is created */
    weiri_internode_services *services;
} weiri_internode;

/* Where a rank runs, as the ranks exchange it before they create a communicator. */
typedef struct weiri_placement {
    uint64_t host;
    uint64_t hardware; /* equal for nodes that only WEIR_HOSTID distinguishes */
    uint64_t kernel;   /* equal for nodes that share cores */
    int32_t pid;
    int32_t job_rank; /* for WEIR_RECORD; -1: not recorded */
    int32_t invariant;
    weiri_budget budget;
    unsigned char cores[WEIRI_CORES_BYTES];
    weiri_address monitor; /* where its process describes itself (monitor/process.c) */
} weiri_placement;

/* Opens the network and creates the paths. Collective over the parent's bootstrap; agreed. The
 * parent has rank, nranks, guard and host_comm. */
weir_status weiri_internode_create(weir_comm *parent, const weiri_placement *placements,
                                   weiri_internode **internode);
/* Creates internode->pairs, if it does not exist; destroyed with internode. Collective over the
 * parent's bootstrap; agreed. */
weir_status weiri_internode_open_pairs(weiri_internode *internode);
/* Reads WEIR_CONNECT. WEIR_ERR_INVALID. */
typedef enum weiri_connect {
    WEIRI_CONNECT_AUTO,
    WEIRI_CONNECT_ALL,
    WEIRI_CONNECT_FIRST_USE
} weiri_connect;
weir_status weiri_internode_read_connect(weiri_connect *connect);
/* Decides, equally on all ranks, whether connections are made when first used. */
int weiri_internode_is_for_first_use(const weiri_internode *internode, weiri_connect connect);
/* Prepares the endpoints, and connects the leaders with each other as described above. Collective;
 * agreed. */
weir_status weiri_internode_prepare_all(weiri_internode *internode);
/* The leader of the node at a distance from this rank's, which may be negative. */
static inline int weiri_internode_leader_at(const weiri_internode *internode, int distance)
{
    const int n = internode->nnodes;
    return internode->nodes[((internode->node + distance) % n + n) % n].ranks[0];
}
/* Begins to connect to a rank, if that has not been done. Local, thread-safe. */
void weiri_internode_reach(weiri_internode *internode, int rank);
/* Frees all paths. Local; NULL is allowed. */
void weiri_internode_destroy(weiri_internode *internode);
/* Creates the window and exchanges the keys, for the two functions above. Collective; agreed. */
weir_status weiri_internode_window_create(weiri_internode *internode);
/* Gives memory to the boxes of a peer. Local, thread-safe. WEIR_ERR_NO_MEMORY. */
weir_status weiri_internode_window_open(weiri_internode *internode, int rank);
/* The offsets in the window of a remote rank `there` of the words and the mirror of another one of
 * its remote ranks. */
uint64_t weiri_internode_words_at(const weiri_internode *internode, int there, int rank);
uint64_t weiri_internode_mirror_at(const weiri_internode *internode, int there, int rank);
/* Frees the window, even if it was created in part or not at all. Local. */
void weiri_internode_window_destroy(weiri_internode *internode);
/* Signals every remote peer that this rank has done its part in all calls. */
void weiri_internode_signal_finished(weiri_internode *internode);
/* Signals every remote peer that this rank leaves, and waits for their signals for a short time. */
void weiri_internode_leave(weiri_internode *internode);

/* Progresses the network, passes aborts and losses of other nodes on to this node, and runs the
 * services. Returns 1 if the network moved anything. Local, thread-safe. */
int weiri_internode_poll(weiri_internode *internode);
/* Services. begin and end exclude them; between those, none may be added or removed. serve runs
 * them, without waiting. The caller of serve and begin does not hold the network's lock. Local,
 * thread-safe, except open (WEIR_ERR_NO_MEMORY) and close. */
weir_status weiri_internode_services_open(weiri_internode *internode);
void weiri_internode_services_close(weiri_internode *internode);
void weiri_internode_service_add(const weiri_internode *internode, weiri_internode_service *one);
void weiri_internode_service_remove(const weiri_internode *internode, weiri_internode_service *one);
void weiri_internode_serve_begin(const weiri_internode *internode);
void weiri_internode_serve_end(const weiri_internode *internode);
void weiri_internode_serve(const weiri_internode *internode);

/* For a thread that polls in a loop: between begin and end threads of
 * weiri_internode_progress_start leave the network to it; rest, called after polls in which nothing
 * moved, sleeps until the network has something to do, for a millisecond at most. Local,
 * thread-safe. */
void weiri_internode_drive_begin(const weiri_internode *internode);
void weiri_internode_drive_rest(const weiri_internode *internode);
void weiri_internode_drive_end(const weiri_internode *internode);
/* Start and end a thread that polls while the program makes no calls; wake makes it poll now.
 * Local. WEIR_ERR_NO_MEMORY, WEIR_ERR_SYSTEM. stop: NULL is allowed. */
struct weiri_internode_progress;
weir_status weiri_internode_progress_start(weiri_internode *internode,
                                           struct weiri_internode_progress **made);
void weiri_internode_progress_wake(const struct weiri_internode_progress *progress);
void weiri_internode_progress_stop(struct weiri_internode_progress *progress);
/* As weiri_internode_poll, unless the network is locked, which the calling thread itself may have
 * done. */
void weiri_internode_try_poll(weiri_internode *internode);
/* Signals an abort to all remote ranks. Local, thread-safe. */
void weiri_internode_abort(weiri_internode *internode, uint64_t reason);
/* Sends them the final state record of this rank. */
void weiri_internode_send_record(weiri_internode *internode);
/* Sends them the record as it is now, or the records of all ranks of this node, which are not
 * final. Local, thread-safe. */
void weiri_internode_show_records(weiri_internode *internode, int of_node);
/* Signals to them that the report has been printed. */
void weiri_internode_printed(weiri_internode *internode);
/* The state record that a remote rank sent, and whether it has arrived. If connections are made
 * when first used, it may be in the window of this node's leader. */
const weiri_where *weiri_internode_record_of(const weiri_internode *internode, int rank);
int weiri_internode_has_answered(const weiri_internode *internode, int rank);
/* Returns 1 if a rank of another node has printed the report, as far as this rank has heard. */
int weiri_internode_has_printed(const weiri_internode *internode);
/* Sets a word at all peers in links. The caller holds the network's lock. */
void weiri_internode_signal_links(weiri_internode *internode, size_t word, uint64_t value);
/* As weiri_internode_signal_links, for an abort, once. Returns whether it was the first. */
int weiri_internode_signal_abort(weiri_internode *internode, uint64_t reason);
/* Puts the record of a rank from this rank's window into the window of a peer, unless the path to
 * the peer has failed, and if it is final, says so. */
void weiri_internode_put_record(weiri_internode *internode, int to, int rank,
                                const weiri_where *record, int is_final);
/* If connections are made when first used: passes on aborts, final records and the end of the
 * report to all peers in links. The caller holds the lock. */
void weiri_internode_pass_on(weiri_internode *internode);
/* Sends a link that has just been made what the others were sent before. The caller holds the lock.
 */
void weiri_internode_catch_up(weiri_internode *internode, int rank);
/* Returns 1 if the path to a rank has failed before the rank had finished. */
int weiri_internode_is_lost(const weiri_internode *internode, int rank);
/* Returns 1 if the path has failed at all, so that nothing arrives any more. */
int weiri_internode_is_gone(const weiri_internode *internode, int rank);
/* A barrier of the nodes, called by their leaders. */
weir_status weiri_internode_barrier(weiri_internode *internode);

/* How many of links may be looked at. */
static inline int weiri_internode_link_count(const weiri_internode_links *links)
{
    return __atomic_load_n(&links->count, __ATOMIC_ACQUIRE);
}

static inline int weiri_internode_is_remote(const weiri_internode *internode, int rank)
{
    return internode->peers[rank].endpoint != NULL;
}

/* ----------------------------------------------------------------- messages */

/* Returns 1 if there is room for the next message to a peer; 0 also if there is no memory for it,
 * which ends all waits. */
int weiri_internode_has_room(const weiri_internode_peer *peer);

/* Returns 1 if a message of a peer has arrived. */
static inline int weiri_internode_has_arrived(const weiri_internode_peer *peer)
{
    return weir_load_acquire(&peer->words->arrived) > peer->taken;
}

/* The size of the longest message including the head. */
static inline size_t weiri_internode_stride(const weiri_internode *internode)
{
    return sizeof(weiri_internode_head) + internode->slot_bytes;
}

/* The size of the ring of a peer. */
static inline size_t weiri_internode_ring(const weiri_internode_peer *peer)
{
    return WEIRI_INTERNODE_SLOTS * peer->stride;
}

/* The value of consumed with which there is room for the next message to a peer; only if there is
 * none yet. */
static inline uint64_t weiri_internode_room_at(const weiri_internode_peer *peer)
{
    return peer->sent_at + peer->stride - weiri_internode_ring(peer);
}

/* Return the data of the next message to a peer, for which there must be room, and of the next
 * one from a peer, which must have arrived. */
static inline char *weiri_internode_outgoing(const weiri_internode *internode, int rank)
{
    const weiri_internode_peer *peer = &internode->peers[rank];
    return peer->outbox + peer->sent_at % weiri_internode_ring(peer) + sizeof(weiri_internode_head);
}

static inline const char *weiri_internode_incoming(const weiri_internode *internode, int rank)
{
    const weiri_internode_peer *peer = &internode->peers[rank];
    return peer->inbox + peer->taken_at % weiri_internode_ring(peer) + sizeof(weiri_internode_head);
}

static inline const weiri_internode_head *weiri_internode_head_of(const char *data)
{
    return (const weiri_internode_head *)(const void *)(data - sizeof(weiri_internode_head));
}

/* Wait for room, and for the arrival of a message. */
weir_status weiri_internode_await_room(weiri_internode *internode, int rank, const char *phase);
weir_status weiri_internode_await(weiri_internode *internode, int rank, const char *phase);
/* Returns 1 if data of so many bytes are worth sending from where they are, for which the network
 * must support that. */
int weiri_internode_is_direct(const weiri_internode *internode, size_t bytes);
/* Queues a message, which the next poll sends: its data were written to weiri_internode_outgoing,
 * or (from not NULL) are elsewhere and stay unchanged until weiri_internode_flush. Non-blocking. */
weir_status weiri_internode_post(weiri_internode *internode, int rank, const char *from,
                                 size_t bytes, size_t total_bytes);
/* Names the destination of the data of the next messages from a peer: bytes in all, of which each
 * message but the last has slot_bytes. Some or all may yet arrive in the inbox. Repeat it for the
 * rest after each message taken. Non-blocking. */
void weiri_internode_expect(weiri_internode *internode, int rank, char *to, size_t bytes);
/* Returns 1 if the data of the message that has arrived are at their destination already. */
int weiri_internode_landed(weiri_internode *internode, int rank);
/* After a failure: no memory given to post_from is read any more, at the cost of the paths to peers
 * that have not accepted it. */
void weiri_internode_forget(weiri_internode *internode);
/* Ends all expectations; until then destinations must remain valid. */
void weiri_internode_expect_nothing(weiri_internode *internode);
/* As weiri_internode_post, and progresses the network at once, unless it is a short message that
 * needs no progress to arrive. So a rank that only sends may make calls without looking at the
 * network until there is no room for the next message. */
weir_status weiri_internode_send(weiri_internode *internode, int rank, size_t bytes,
                                 size_t total_bytes);
/* Releases the message of weiri_internode_incoming. Non-blocking. */
weir_status weiri_internode_take(weiri_internode *internode, int rank);
/* Waits until the messages sent need no more progress by this rank. */
weir_status weiri_internode_flush(weiri_internode *internode, const char *phase);

#endif
