/*
 * weir_comm_check, weir_comm_note and weir_comm_report. Each rank keeps a state record
 * (weiri_where) in its page, which all ranks of the node map: the caller's note, the latest
 * collective and, once a wait has become slow, the rank being waited on. A rank that is stopped or
 * dead is therefore still described by what it wrote before; the system reports its state (a pidfd
 * for death, /proc for a stop).
 *
 * Between nodes each rank sends a copy of its record when a failure is reported. There the loss of
 * the network path stands for death.
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
    ANSWER_MS = 500, /* wait for the final records of running ranks */
    OTHERS_MS = 700, /* wait for a rank of another node to start printing */
    PRINT_MS = 2000, /* wait for the rank that prints */
    LINE_BYTES = 400,
};

/* The report word of rank 0's page is 0, then 1 + the rank that prints, then that value with this
 * bit. */
static const uint64_t printed = (uint64_t)1 << 32;

typedef enum life { RUNS, STOPPED, DEAD } life;

static void report_nap(void)
{
    const struct timespec nap = {.tv_nsec = 2000000};
    nanosleep(&nap, NULL);
}

/* Returns the state letter of a process from /proc, 0 if it cannot be read. */
static char report_state_letter(int pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    /* The process name before it may contain blanks and parentheses. */
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' ? end[2] : 0;
}

static int report_is_remote(const weir_comm *comm, int rank)
{
    return comm->internode && weiri_internode_is_remote(comm->internode, rank);
}

/* Returns the record of a rank: in its page, or the copy that it sent. */
static const weiri_where *report_record_of(const weir_comm *comm, int rank)
{
    if (report_is_remote(comm, rank))
        return comm->internode->peers[rank].mirror;
    if (comm->internode)
        return &comm->host_comm->peers[comm->internode->place_of[rank]].page->where;
    return &comm->peers[rank].page->where;
}

static int report_has_answered(const weir_comm *comm, int rank)
{
    if (report_is_remote(comm, rank))
        return weir_load_acquire(&comm->internode->peers[rank].words->answered) != 0;
    return weir_load_acquire(&report_record_of(comm, rank)->answered) != 0;
}

/* A rank whose process has ended counts as running if its record is final or it had finished: it is
 * then not the cause of the failure. */
static life report_state_of(const weir_comm *comm, int rank)
{
    if (rank == comm->rank)
        return RUNS;
    if (report_is_remote(comm, rank))
        return weiri_internode_is_lost(comm->internode, rank) && !report_has_answered(comm, rank)
                   ? DEAD
                   : RUNS;
    if (comm->internode)
        return report_state_of(comm->host_comm, comm->internode->place_of[rank]);
    char letter = report_state_letter(comm->peers[rank].pid);
    if (letter == 'T' || letter == 't')
        return STOPPED;
    if (!weiri_comm_is_dead(comm, rank))
        return RUNS;
    return report_has_answered(comm, rank) || weiri_comm_has_finished(comm, rank) ? RUNS : DEAD;
}

/* Marks this rank's record as final. */
static void report_answer(const weir_comm *comm)
{
    weir_store_release(&comm->where->answered, 1);
    if (comm->internode)
        weiri_internode_send_record(comm->internode);
}

/* Turns the record of a failed kernel, which only this rank can see so far, into an error, and
 * aborts the other ranks. A kernel that was ended by a peer's abort may also have left a record. */
static weir_status report_cause_of_abort(weir_comm *comm)
{
    const weir_wait_record *record = &comm->where->wait;
    if (weir_load_acquire(comm->guard.abort_word) != WEIR_ABORTED_BY_KERNEL ||
        weir_load_acquire(&record->kind) == WEIR_WAIT_NONE)
        return weiri_fail(WEIR_ERR_ABORTED, "rank %d: the communicator was aborted", comm->rank);
    weiri_comm_abort_for(comm, WEIRI_ABORT_ASKED);
    report_answer(comm);
    if (record->kind == WEIR_WAIT_FAILED) {
        weir_status status = (weir_status)-(int)record->expected;
        return weiri_fail(status, "rank %d: a kernel failed: %s", comm->rank,
                          weir_status_text(status));
    }
    if (record->kind == WEIR_WAIT_SEND || record->kind == WEIR_WAIT_RECV)
        return weiri_fail(WEIR_ERR_INVALID,
                          "rank %d: the data to %s rank %lld end at byte %llu of an %s of %llu "
                          "bytes; correct the counts and displacements in GPU memory",
                          comm->rank, record->kind == WEIR_WAIT_SEND ? "send to" : "receive from",
                          (long long)record->peer, (unsigned long long)record->seen,
                          record->kind == WEIR_WAIT_SEND ? "input" : "output",
                          (unsigned long long)record->expected);
    if (record->kind == WEIR_WAIT_COUNTS)
        return weiri_fail(WEIR_ERR_MISMATCH,
                          "rank %d: a kernel expected %llu bytes between this rank and rank %lld, "
                          "but the sender has %llu; counts must match pairwise",
                          comm->rank, (unsigned long long)record->expected,
                          (long long)record->peer, (unsigned long long)record->seen);
    return weiri_fail(WEIR_ERR_TIMEOUT,
                      "rank %d: deadline of %llu ms passed in a kernel; it waits for rank %lld: "
                      "expected %llu, seen %llu",
                      comm->rank, (unsigned long long)(comm->guard.timeout_ns / 1000000),
                      (long long)record->peer, (unsigned long long)record->expected,
                      (unsigned long long)record->seen);
}

weir_status weir_comm_check(weir_comm *comm)
{
    if (weiri_comm_is_forked(comm))
        return weiri_fork_fail("communicator");
    if (comm->internode)
        weiri_internode_poll(comm->internode);
    for (int rank = 0; rank < comm->nranks; rank++)
        if (report_state_of(comm, rank) == DEAD)
            return weiri_fail(WEIR_ERR_PEER, "rank %d has died", rank);
    if (weir_load_acquire(comm->guard.abort_word))
        return report_cause_of_abort(comm);
    for (int rank = 0; rank < comm->nranks; rank++)
        if (report_state_of(comm, rank) == STOPPED)
            return weiri_fail(WEIR_ERR_TIMEOUT, "rank %d is stopped", rank);
    return WEIR_OK;
}

void weir_comm_note(weir_comm *comm, const char *phase, uint64_t iteration)
{
    if (!comm || weiri_comm_is_forked(comm))
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

static void report_print(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void report_print(writer *w, const char *format, ...)
{
    size_t left = w->used < w->bytes ? w->bytes - w->used : 0;
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(left ? w->text + w->used : NULL, left, format, arguments);
    va_end(arguments);
    w->used += more > 0 ? (size_t)more : 0;
}

static void report_wait(writer *w, const weiri_where *where)
{
    static const char *const kinds[] = {"", "", "a semaphore", "packets"};
    char phase[WEIRI_TEXT_BYTES + 1];
    uint64_t kind = weir_load_acquire(&where->wait.kind);
    int64_t peer = (int64_t)weir_load_relaxed(&where->wait.peer);
    uint64_t expected = weir_load_relaxed(&where->wait.expected);
    if (kind == WEIR_WAIT_NONE || kind > WEIR_WAIT_PACKET) {
        report_print(w, "; in no long wait of weir");
        return;
    }
    weiri_text_load(phase, where->phase);
    report_print(w, "; waits in %s", kind == WEIR_WAIT_WORD ? phase : kinds[kind]);
    if (peer >= 0)
        report_print(w, " for rank %d", (int)peer);
    if (expected)
        report_print(w, ": expected %llu, seen %llu", (unsigned long long)expected,
            (unsigned long long)weir_load_relaxed(&where->wait.seen));
}

/* The rank's note, latest collective and wait. */
static void report_position(writer *w, const weiri_where *where)
{
    char note[WEIRI_TEXT_BYTES + 1];
    uint64_t call = weir_load_relaxed(&where->call);
    weiri_text_load(note, where->note);
    if (*note)
        report_print(w, "%s, iteration %llu; ", note,
            (unsigned long long)weir_load_relaxed(&where->iteration));
    if (call)
        report_print(w, "%s, call %llu", weir_collective_name((weir_collective)(call & 0xff)),
            (unsigned long long)(call >> 8));
    else
        report_print(w, "no collective yet");
    report_wait(w, where);
}

static void report_rank(writer *w, const weir_comm *comm, int rank, life state)
{
    const weiri_where *where = report_record_of(comm, rank);
    int aborted = weir_load_acquire(comm->guard.abort_word) != 0;
    int unknown = report_is_remote(comm, rank) && !report_has_answered(comm, rank);
    report_print(w, "  rank %d (pid %d", rank,
        comm->internode ? comm->internode->pids[rank] : comm->peers[rank].pid);
    if (comm->internode)
        report_print(w, ", node %d", comm->internode->node_of[rank]);
    report_print(w, "): ");
    if (unknown) {
        report_print(w, "%s; on another node\n", state == DEAD ? "dead" : "no answer");
        return;
    }
    if (state == STOPPED)
        report_print(w, "stopped (state T); last seen in ");
    else if (state == DEAD)
        report_print(w, "dead; last seen in ");
    else if (aborted && !report_has_answered(comm, rank))
        report_print(w, "no answer; last seen in ");
    report_position(w, where);
    report_print(w, "\n");
}

/* Returns 1 if the rank runs on another node and has not sent its record after an abort. */
static int report_is_silent(const weir_comm *comm, int rank)
{
    return report_is_remote(comm, rank) && weir_load_acquire(comm->guard.abort_word) &&
           !report_has_answered(comm, rank);
}

static void report_head(writer *w, const weir_comm *comm, const life *lives)
{
    int lost = 0;
    report_print(w, "weir: where %d ranks stand (deadline %llu ms):", comm->nranks,
        (unsigned long long)(comm->guard.timeout_ns / 1000000));
    for (int rank = 0; rank < comm->nranks; rank++)
        if (lives[rank] != RUNS)
            report_print(w, "%s rank %d is %s", lost++ ? "," : "", rank,
                lives[rank] == DEAD ? "dead" : "stopped");
        else if (report_is_silent(comm, rank))
            report_print(w, "%s rank %d does not answer", lost++ ? "," : "", rank);
    report_print(w, "%s\n", lost ? "" : " all run; one is slow or stuck");
}

/* After an abort: waits until all running ranks have final records, ANSWER_MS at most. */
static void report_await_answers(weir_comm *comm)
{
    uint64_t end_ns = weir_clock_ns() + ANSWER_MS * 1000000ull;
    report_answer(comm);
    for (int rank = 0; rank < comm->nranks; rank++)
        while (!report_has_answered(comm, rank) && report_state_of(comm, rank) == RUNS &&
               weir_clock_ns() < end_ns) {
            if (comm->internode)
                weiri_internode_poll(comm->internode);
            report_nap();
        }
}

int weir_comm_report(weir_comm *comm, char *text, size_t bytes)
{
    writer w = {.text = text, .bytes = bytes};
    life lives[WEIRI_RANKS_MAX];
    if (weiri_comm_is_forked(comm))
        return 0;
    if (weir_load_acquire(comm->guard.abort_word))
        report_await_answers(comm);
    for (int rank = 0; rank < comm->nranks; rank++)
        lives[rank] = report_state_of(comm, rank);
    report_head(&w, comm, lives);
    for (int rank = 0; rank < comm->nranks; rank++)
        report_rank(&w, comm, rank, lives[rank]);
    return (int)w.used;
}

/* ------------------------------------------------- the report of one rank for all */

static void report_write(weir_comm *comm, int fd)
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

/* Returns 1 if the rank can no longer print, even if its record is final. */
static int report_is_lost(const weir_comm *comm, int rank)
{
    return report_state_of(comm, rank) != RUNS ||
           (rank != comm->rank && weiri_comm_is_dead(comm, rank));
}

/* Returns 1 if a rank of an earlier node prints the report for all ranks, as any rank with a final
 * record does. Waits for the end of the report, after which this process may exit. */
static int report_other_node_prints(weir_comm *comm)
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
            prints |= report_has_answered(comm, rank);
            waits |= !weiri_internode_is_lost(comm->internode, rank);
        }
        report_nap();
    }
    return prints && waits;
}

int weir_comm_report_once(weir_comm *comm, int fd)
{
    const weir_comm *host = comm->host_comm ? comm->host_comm : comm;
    uint64_t *word = &host->peers[0].page->report.value;
    uint64_t mine = (uint64_t)host->rank + 1, end_ns = weir_clock_ns() + PRINT_MS * 1000000ull;
    if (weiri_comm_is_forked(comm))
        return 0;
    report_answer(comm);
    if (report_other_node_prints(comm))
        return 0;
    while (weir_clock_ns() < end_ns) {
        uint64_t holder = weir_load_acquire(word);
        if (holder & printed)
            return 0;
        if ((!holder || report_is_lost(host, (int)holder - 1)) &&
            __atomic_compare_exchange_n(word, &holder, mine, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            report_write(comm, fd);
            weir_store_release(word, mine | printed);
            if (comm->internode)
                weiri_internode_printed(comm->internode);
            return 1;
        }
        report_nap();
    }
    return 0;
}
