/* See late_ranks.h. The rank whose word `turn` is 1 runs; it alone writes the rest of the board. */
#define _GNU_SOURCE
#define LATE_HOOKS_THEMSELVES
#include "verify/tests/support/late_hooks.h"

#include "comm/internode/internode.h"
#include "verify/tests/support/late_ranks.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SEEN_WORDS = 256, TURN_S = 20, STUCK_S = 3, CODE_FAILED = 90, CODE_STUCK = 91 };

typedef struct late_seat {
    _Alignas(64) uint32_t turn;
    uint32_t has_left;
} late_seat;

struct late_board {
    uint64_t moves; /* points that ranks have passed */
    uint32_t failed, nranks, streams_to_peers;
    late_seat seats[64];
};

/* This process's rank. */
static struct {
    late_board *board;                 /* NULL: hooks do nothing */
    uint32_t rank, is_slow;            /* in this round: late at every point */
    uint64_t points, late_at;          /* in this round; 0: nowhere */
    uint64_t random, shuffles;         /* one of so many points lets the next rank run; 0: none */
    const uint64_t *words[SEEN_WORDS]; /* flags and their latest values here */
    uint64_t values[SEEN_WORDS];
} late;

static late_board *late_latest; /* of which late_streams_to_peers is asked */

late_board *late_board_create(int nranks, int streams_to_peers)
{
    late_board *made =
        mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return NULL;
    made->nranks = (uint32_t)nranks;
    made->streams_to_peers = (uint32_t)streams_to_peers;
    made->seats[0].turn = 1;
    late_latest = made;
    return made;
}

void late_board_destroy(late_board *board)
{
    munmap(board, sizeof *board);
    late_latest = NULL;
}

/* -------------------------------------------------------------------- turns */

/* Lets the next rank run. Returns 0 if there is none. */
static int late_give_turn(void)
{
    late_board *board = late.board;
    uint32_t next = late.rank;
    do
        next = (next + 1) % board->nranks;
    while (next != late.rank && board->seats[next].has_left);
    if (next == late.rank)
        return 0;
    __atomic_store_n(&board->seats[late.rank].turn, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&board->seats[next].turn, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &board->seats[next].turn, FUTEX_WAKE, 1, NULL, NULL, 0);
    return 1;
}

void late_fail(void)
{
    if (!late.board)
        _exit(CODE_FAILED);
    late.board->failed = 1;
    late.board->seats[late.rank].has_left = 1;
    late_give_turn();
    _exit(CODE_FAILED);
}

static void late_await_turn(void)
{
    late_seat *own = &late.board->seats[late.rank];
    const struct timespec second = {.tv_sec = 1};
    for (int waited_s = 0; !__atomic_load_n(&own->turn, __ATOMIC_ACQUIRE);) {
        if (syscall(SYS_futex, &own->turn, FUTEX_WAIT, 0, &second, NULL, 0) < 0 &&
            errno == ETIMEDOUT && ++waited_s == TURN_S) {
            fprintf(stderr, "# rank %u: no turn for %d s\n", late.rank, TURN_S);
            _exit(CODE_STUCK);
        }
    }
    if (late.board->failed)
        late_fail();
}

static void late_pass(void)
{
    if (late_give_turn())
        late_await_turn();
}

/* The rank is late: the others run until none of them moves. */
static void late_stall(void)
{
    for (uint64_t moves = late.board->moves + 1; moves != late.board->moves;) {
        moves = late.board->moves;
        late_pass();
    }
}

static void late_point(void)
{
    if (!late.board)
        return;
    late.board->moves++;
    if (late.is_slow || ++late.points == late.late_at)
        late_stall();
    else if (late.shuffles && late_random(&late.random) % late.shuffles == 0)
        late_pass();
}

void late_begin(late_board *board, int rank)
{
    late.board = board;
    late.rank = (uint32_t)rank;
    late_await_turn();
}

void late_end(void)
{
    late.board->seats[late.rank].has_left = 1;
    late_give_turn();
    late.board = NULL;
}

/* In most rounds the late rank is late at every point, in some only at one, early points more often
 * than late ones; in others all ranks take turns often. */
void late_round(uint64_t seed, int rank)
{
    late.random = seed;
    late.points = late.late_at = late.shuffles = late.is_slow = 0;
    const uint64_t kind = late_random(&late.random) % 8;
    const int is_late = (uint32_t)rank == late.rank;
    late.random += late.rank * 77;
    if (kind == 0)
        late.shuffles = 1 + late_random(&late.random) % 8;
    else if (is_late && kind < 3)
        late.late_at = 1 + late_random(&late.random) % (2u << late_random(&late.random) % 8);
    else
        late.is_slow = is_late;
}

/* -------------------------------------------------------------------- hooks */

uint64_t late_load(const uint64_t *word)
{
    const uint64_t value = weir_load_acquire(word);
    const size_t at = (size_t)(uintptr_t)word / WEIR_LINE_BYTES % SEEN_WORDS;
    const int is_news = late.words[at] == word && late.values[at] != value;
    late.words[at] = word;
    late.values[at] = value;
    if (is_news)
        late_point();
    return value;
}

void late_store(uint64_t *word, uint64_t value)
{
    late_point();
    weir_store_release(word, value);
    late_point();
}

uint64_t late_claim(uint64_t *word)
{
    late_point();
    const uint64_t before = __atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
    late_point();
    return before;
}

weir_status late_wait(weir_comm *comm, const uint64_t *word, uint64_t target, int peer,
                      const char *phase)
{
    if (!late.board)
        return weiri_comm_wait(comm, word, target, peer, phase);
    late_point();
    while (weir_load_acquire(word) < target) {
        weir_status status = late_idle(comm, NULL, word, target, peer, phase);
        if (status != WEIR_OK)
            return status;
    }
    late_point();
    return WEIR_OK;
}

/* Ranks that wait only for each other would wait for ever. Networks need time. */
static void late_check_stuck(weir_comm *comm, int peer, const char *phase)
{
    static uint64_t moves, since_ns, polls;
    if (late.board->moves != moves) {
        moves = late.board->moves;
        polls = 0;
    } else if (polls++ == 0) {
        since_ns = weir_clock_ns();
    } else if (polls % 1024 == 0 && weir_clock_ns() - since_ns > STUCK_S * 1000000000ull) {
        fprintf(stderr, "# rank %d: no rank moves; in %s, waiting for rank %d\n", comm->rank, phase,
                peer);
        late_fail();
    }
}

weir_status late_idle(weir_comm *comm, weiri_waiter *waiter, const uint64_t *word, uint64_t target,
                      int peer, const char *phase)
{
    if (!late.board)
        return waiter ? weiri_comm_idle_for(comm, waiter, word, target, peer, phase)
                      : weiri_comm_wait(comm, word, target, peer, phase);
    late_pass();
    late_check_stuck(comm, peer, phase);
    if (comm->parent && comm->parent->internode)
        weiri_internode_poll(comm->parent->internode);
    return weiri_comm_is_aborted(comm) ? WEIR_ERR_ABORTED : WEIR_OK;
}

int late_streams_to_peers(void)
{
    return late_latest && late_latest->streams_to_peers;
}

int late_never(void)
{
    return 0;
}
