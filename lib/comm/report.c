/*
 * Where every rank stands, in words. Each rank keeps a record of itself
 * (weiri_where) in the page that all ranks map: what its caller noted, the
 * collective it called last, and, once a wait has become slow, whom it waits
 * for. So a rank that is stopped or dead is still described, by what it wrote
 * before; whether it is, the system says: a pidfd for death, /proc for a stop.
 *
 * Across machines a rank's record lies where its own machine maps it; the others have a
 * copy, which it sends when it ends for a reason that is reported. The loss of its path
 * tells its death.
 */
#include "comm/comm.h"

#include "comm/internode/internode.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ANSWER_MS = 500, /* for living ranks to say where they stood */
    OTHERS_MS = 1000, /* for ranks of a machine that is to print for others */
    PRINT_MS = 2000, /* for the rank that prints */
    LINE_BYTES = 400,
};

/* The report word of rank 0's page: 0, then 1 + the rank that prints, then that
 * with PRINTED. */
static const uint64_t printed = (uint64_t)1 << 32;

typedef enum life { RUNS, STOPPED, DEAD } life;

static void nap(void)
{
    const struct timespec while_ns = {.tv_nsec = 2000000};
    nanosleep(&while_ns, NULL);
}

/* The state letter of a process in /proc, 0 if there is none to be read. */
static char state_letter(int pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    /* The name before it may hold blanks and parentheses. */
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' ? end[2] : 0;
}

static int is_remote(const weir_comm *comm, int rank)
{
    return comm->internode && weiri_internode_is_remote(comm->internode, rank);
}

/* Where a rank's record is read. */
static const weiri_where *where_of(const weir_comm *comm, int rank)
{
    if (is_remote(comm, rank))
        return comm->internode->peers[rank].mirror;
    if (comm->internode)
        return &comm->host_comm->peers[comm->internode->place_of[rank]].page->where;
    return &comm->peers[rank].page->where;
}

static int has_answered(const weir_comm *comm, int rank)
{
    if (is_remote(comm, rank))
        return weir_load_acquire(&comm->internode->peers[rank].words->answered) != 0;
    return weir_load_acquire(&where_of(comm, rank)->answered) != 0;
}

/* A rank that has said where it stood, or has finished, and ended then, was not the
 * cause: it counts as running. */
static life life_of(const weir_comm *comm, int rank)
{
    if (rank == comm->rank)
        return RUNS;
    if (is_remote(comm, rank))
        return weiri_internode_is_lost(comm->internode, rank) && !has_answered(comm, rank) ? DEAD
                                                                                           : RUNS;
    if (comm->internode)
        return life_of(comm->host_comm, comm->internode->place_of[rank]);
    char letter = state_letter(comm->peers[rank].pid);
    if (letter == 'T' || letter == 't')
        return STOPPED;
    if (!weiri_comm_is_dead(comm, rank))
        return RUNS;
    return has_answered(comm, rank) || weiri_comm_has_finished(comm, rank) ? RUNS : DEAD;
}

/* Says for good where this rank stands. */
static void answer(const weir_comm *comm)
{
    weir_store_release(&comm->where->answered, 1);
    if (comm->internode)
        weiri_internode_answer(comm->internode);
}

/* A kernel that failed has left where it stood, and only this rank knows of it so far. One
 * that a peer's abort ended may have left where it waited. */
static weir_status aborted(weir_comm *comm)
{
    const weir_wait_record *record = &comm->where->wait;
    if (weir_load_acquire(comm->guard.abort_word) != WEIR_ABORTED_BY_KERNEL ||
        weir_load_acquire(&record->kind) == WEIR_WAIT_NONE)
        return weiri_fail(WEIR_ERR_ABORTED, "the communicator was aborted");
    weiri_comm_abort_for(comm, WEIRI_ABORT_ASKED);
    answer(comm);
    if (record->kind == WEIR_WAIT_FAILED) {
        weir_status status = (weir_status)-(int)record->expected;
        return weiri_fail(status, "rank %d: a kernel failed: %s", comm->rank,
                          weir_status_text(status));
    }
    if (record->kind == WEIR_WAIT_SEND || record->kind == WEIR_WAIT_RECV)
        return weiri_fail(WEIR_ERR_INVALID,
                          "rank %d: what it is to %s rank %lld ends at byte %llu of an %s of %llu "
                          "bytes; make the counts on the device fit",
                          comm->rank, record->kind == WEIR_WAIT_SEND ? "send to" : "receive from",
                          (long long)record->peer, (unsigned long long)record->seen,
                          record->kind == WEIR_WAIT_SEND ? "input" : "output",
                          (unsigned long long)record->expected);
    if (record->kind == WEIR_WAIT_COUNTS)
        return weiri_fail(WEIR_ERR_MISMATCH,
                          "rank %d: between it and rank %lld a kernel was to move %llu bytes, but "
                          "the sender has %llu; counts must match pairwise",
                          comm->rank, (long long)record->peer,
                          (unsigned long long)record->expected, (unsigned long long)record->seen);
    return weiri_fail(WEIR_ERR_TIMEOUT,
                      "rank %d: deadline of %llu ms passed in a kernel; it waits for rank %lld: "
                      "expected %llu, seen %llu",
                      comm->rank, (unsigned long long)(comm->guard.timeout_ns / 1000000),
                      (long long)record->peer, (unsigned long long)record->expected,
                      (unsigned long long)record->seen);
}

weir_status weir_comm_check(weir_comm *comm)
{
    if (comm->internode)
        weiri_internode_poll(comm->internode);
    for (int rank = 0; rank < comm->nranks; rank++)
        if (life_of(comm, rank) == DEAD)
            return weiri_fail(WEIR_ERR_PEER, "rank %d has died", rank);
    if (weir_load_acquire(comm->guard.abort_word))
        return aborted(comm);
    for (int rank = 0; rank < comm->nranks; rank++)
        if (life_of(comm, rank) == STOPPED)
            return weiri_fail(WEIR_ERR_TIMEOUT, "rank %d is stopped", rank);
    return WEIR_OK;
}

void weir_comm_note(weir_comm *comm, const char *phase, uint64_t iteration)
{
    if (!comm)
        return;
    if (phase != comm->noted) {
        comm->noted = phase;
        weiri_text_store(comm->where->note, phase);
    }
    weir_store_relaxed(&comm->where->iteration, iteration);
}

/* ------------------------------------------------------------------ the text */

typedef struct writer {
    char *text;
    size_t bytes, used;
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...)
{
    size_t left = w->used < w->bytes ? w->bytes - w->used : 0;
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(left ? w->text + w->used : NULL, left, format, arguments);
    va_end(arguments);
    w->used += more > 0 ? (size_t)more : 0;
}

static void put_wait(writer *w, const weiri_where *where)
{
    static const char *const kinds[] = {"", "", "a semaphore", "packets"};
    char phase[WEIRI_TEXT_BYTES + 1];
    uint64_t kind = weir_load_acquire(&where->wait.kind);
    int64_t peer = (int64_t)weir_load_relaxed(&where->wait.peer);
    uint64_t expected = weir_load_relaxed(&where->wait.expected);
    if (kind == WEIR_WAIT_NONE || kind > WEIR_WAIT_PACKET) {
        put(w, "; in no long wait of weir");
        return;
    }
    weiri_text_load(phase, where->phase);
    put(w, "; waits in %s", kind == WEIR_WAIT_WORD ? phase : kinds[kind]);
    if (peer >= 0)
        put(w, " for rank %d", (int)peer);
    if (expected)
        put(w, ": expected %llu, seen %llu", (unsigned long long)expected,
            (unsigned long long)weir_load_relaxed(&where->wait.seen));
}

/* What the rank's record says. */
static void put_place(writer *w, const weiri_where *where)
{
    char note[WEIRI_TEXT_BYTES + 1];
    uint64_t call = weir_load_relaxed(&where->call);
    weiri_text_load(note, where->note);
    if (*note)
        put(w, "%s, iteration %llu; ", note,
            (unsigned long long)weir_load_relaxed(&where->iteration));
    if (call)
        put(w, "%s, call %llu", weir_collective_name((weir_collective)(call & 0xff)),
            (unsigned long long)(call >> 8));
    else
        put(w, "no collective yet");
    put_wait(w, where);
}

static void put_rank(writer *w, const weir_comm *comm, int rank, life state)
{
    const weiri_where *where = where_of(comm, rank);
    int aborted = weir_load_acquire(comm->guard.abort_word) != 0;
    int unknown = is_remote(comm, rank) && !has_answered(comm, rank);
    put(w, "  rank %d (pid %d", rank,
        comm->internode ? comm->internode->pids[rank] : comm->peers[rank].pid);
    if (comm->internode)
        put(w, ", machine %d", comm->internode->node_of[rank]);
    put(w, "): ");
    if (unknown) {
        put(w, "%s; on another machine\n", state == DEAD ? "dead" : "no answer");
        return;
    }
    if (state == STOPPED)
        put(w, "stopped (state T); last seen in ");
    else if (state == DEAD)
        put(w, "dead; last seen in ");
    else if (aborted && !has_answered(comm, rank))
        put(w, "no answer; last seen in ");
    put_place(w, where);
    put(w, "\n");
}

static void put_head(writer *w, const weir_comm *comm, const life *lives)
{
    int lost = 0;
    put(w, "weir: where %d ranks stand (deadline %llu ms):", comm->nranks,
        (unsigned long long)(comm->guard.timeout_ns / 1000000));
    for (int rank = 0; rank < comm->nranks; rank++)
        if (lives[rank] != RUNS)
            put(w, "%s rank %d is %s", lost++ ? "," : "", rank,
                lives[rank] == DEAD ? "dead" : "stopped");
    put(w, "%s\n", lost ? "" : " all run; one is slow or stuck");
}

/* After an abort: until those who can have said where they stood. */
static void await_answers(weir_comm *comm)
{
    uint64_t end_ns = weir_clock_ns() + ANSWER_MS * 1000000ull;
    answer(comm);
    for (int rank = 0; rank < comm->nranks; rank++)
        while (!has_answered(comm, rank) && life_of(comm, rank) == RUNS &&
               weir_clock_ns() < end_ns) {
            if (comm->internode)
                weiri_internode_poll(comm->internode);
            nap();
        }
}

int weir_comm_report(weir_comm *comm, char *text, size_t bytes)
{
    writer w = {.text = text, .bytes = bytes};
    life lives[WEIRI_RANKS_MAX];
    if (weir_load_acquire(comm->guard.abort_word))
        await_answers(comm);
    for (int rank = 0; rank < comm->nranks; rank++)
        lives[rank] = life_of(comm, rank);
    put_head(&w, comm, lives);
    for (int rank = 0; rank < comm->nranks; rank++)
        put_rank(&w, comm, rank, lives[rank]);
    return (int)w.used;
}

/* ------------------------------------------------------------------ only once */

static void print(weir_comm *comm, int fd)
{
    char text[WEIRI_RANKS_MAX * LINE_BYTES];
    size_t length = (size_t)weir_comm_report(comm, text, sizeof text);
    size_t end = length < sizeof text ? length : sizeof text - 1;
    for (size_t at = 0; at < end;) {
        ssize_t written = write(fd, text + at, end - at);
        if (written <= 0)
            return;
        at += (size_t)written;
    }
}

/* Whether the rank cannot print any more, whatever it has said. */
static int is_lost(const weir_comm *comm, int rank)
{
    return life_of(comm, rank) != RUNS || (rank != comm->rank && weiri_comm_is_dead(comm, rank));
}

/* Whether an earlier machine prints for this one, which one of its ranks does that has
 * answered. Then this rank waits until it has: all may end then. */
static int other_machine_prints(weir_comm *comm)
{
    uint64_t start_ns = weir_clock_ns();
    int prints = 0, waits = comm->internode && comm->internode->node > 0;
    while (waits && weir_clock_ns() - start_ns < (prints ? PRINT_MS : OTHERS_MS) * 1000000ull) {
        waits = 0;
        weiri_internode_poll(comm->internode);
        for (int rank = 0; rank < comm->nranks; rank++) {
            if (comm->internode->node_of[rank] >= comm->internode->node)
                continue;
            if (weir_load_acquire(&comm->internode->peers[rank].words->printed))
                return 1;
            prints |= has_answered(comm, rank);
            waits |= !weiri_internode_is_lost(comm->internode, rank);
        }
        nap();
    }
    return prints && waits;
}

int weir_comm_report_once(weir_comm *comm, int fd)
{
    const weir_comm *here = comm->host_comm ? comm->host_comm : comm;
    uint64_t *word = &here->peers[0].page->report.value;
    uint64_t mine = (uint64_t)here->rank + 1, end_ns = weir_clock_ns() + PRINT_MS * 1000000ull;
    answer(comm);
    if (other_machine_prints(comm))
        return 0;
    while (weir_clock_ns() < end_ns) {
        uint64_t holder = weir_load_acquire(word);
        if (holder & printed)
            return 0;
        if ((!holder || is_lost(here, (int)holder - 1)) &&
            __atomic_compare_exchange_n(word, &holder, mine, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            print(comm, fd);
            weir_store_release(word, mine | printed);
            if (comm->internode)
                weiri_internode_printed(comm->internode);
            return 1;
        }
        nap();
    }
    return 0;
}
