/*
 * weir_comm_check, weir_comm_note and weir_comm_report. Each rank keeps a state record
 * (weiri_where) in its page, which all ranks of the node map: the caller's note, the latest
 * collective and, once a wait has become slow, the rank being waited on. A rank that is stopped or
 * dead is therefore still described by what it wrote before; the system reports its state (a pidfd
 * for death, /proc for a stop).
 *
 * Between nodes each rank sends a copy of its record when a failure is reported. There the loss of
 * the network path stands for death. report_text.c writes the text.
 */
#include "comm/comm.h"

#include "comm/called.h"
#include "comm/internode/internode.h"
#include "comm/report_text.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ANSWER_MS = 500,       /* wait for the final records of running ranks, */
    ANSWER_MS_EACH = 4,    /* longer for each rank, */
    ANSWER_MOST_MS = 1500, /* but no longer than that */
    OTHERS_MS = 700,       /* wait for a rank of another node to start printing */
    PRINT_MS = 2000,       /* wait for the rank that prints */
    LINE_BYTES = 400,
};

/* The report word of rank 0's page is 0, then 1 + the rank that prints, then that value with this
 * bit. */
static const uint64_t printed = (uint64_t)1 << 32;

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
        return weiri_internode_record_of(comm->internode, rank);
    if (comm->internode && comm->host_comm)
        return &comm->host_comm->peers[comm->internode->place_of[rank]].page->where;
    return &comm->peers[rank].page->where;
}

static int report_has_answered(const weir_comm *comm, int rank)
{
    if (report_is_remote(comm, rank))
        return weiri_internode_has_answered(comm->internode, rank);
    return weir_load_acquire(&report_record_of(comm, rank)->answered) != 0;
}

/* A rank whose process has ended counts as running if its record is final or it had finished: it is
 * then not the cause of the failure. */
static weiri_life report_state_of(const weir_comm *comm, int rank)
{
    if (rank == comm->rank)
        return WEIRI_RUNS;
    if (report_is_remote(comm, rank))
        return weiri_internode_is_lost(comm->internode, rank) && !report_has_answered(comm, rank)
                   ? WEIRI_DEAD
                   : WEIRI_RUNS;
    if (comm->internode && comm->host_comm)
        return report_state_of(comm->host_comm, comm->internode->place_of[rank]);
    char letter = report_state_letter(comm->peers[rank].pid);
    if (letter == 'T' || letter == 't')
        return WEIRI_STOPPED;
    if (!weiri_comm_is_dead(comm, rank))
        return WEIRI_RUNS;
    return report_has_answered(comm, rank) || weiri_comm_has_finished(comm, rank) ? WEIRI_RUNS
                                                                                  : WEIRI_DEAD;
}

/* Marks this rank's record as final. */
static void report_answer(weir_comm *comm)
{
    weiri_called_note(comm);
    weir_store_release(&comm->where->answered, 1);
    if (comm->internode)
        weiri_internode_send_record(comm->internode);
}

/* Turns the record of a failed kernel, which only this rank can see so far, into an error, and
 * aborts the other ranks. A kernel that was ended by a peer's abort may also have left a record. */
static weir_status report_cause_of_abort(weir_comm *comm)
{
    const weir_wait_record *record = &comm->where->wait;
    const int rank = weiri_comm_parent_rank(comm, comm->rank);
    const weir_status failure = weiri_comm_fail_lane(comm);
    if (failure != WEIR_OK)
        return failure;
    if (weir_load_acquire(comm->guard.abort_word) != WEIR_ABORTED_BY_KERNEL ||
        weir_load_acquire(&record->kind) == WEIR_WAIT_NONE)
        return weiri_fail(WEIR_ERR_ABORTED, "rank %d: the communicator was aborted", rank);
    weiri_comm_abort_for(comm, WEIRI_ABORT_FAILED);
    report_answer(comm);
    if (record->kind == WEIR_WAIT_FAILED) {
        weir_status status = (weir_status) - (int)record->expected;
        return weiri_fail(status, "rank %d: a kernel failed: %s", rank, weir_status_text(status));
    }
    if (record->kind == WEIR_WAIT_SEND || record->kind == WEIR_WAIT_RECV)
        return weiri_fail(WEIR_ERR_INVALID,
                          "rank %d: the data to %s rank %lld end at byte %llu of an %s of %llu "
                          "bytes; correct the counts and displacements in GPU memory",
                          rank, record->kind == WEIR_WAIT_SEND ? "send to" : "receive from",
                          (long long)record->peer, (unsigned long long)record->seen,
                          record->kind == WEIR_WAIT_SEND ? "input" : "output",
                          (unsigned long long)record->expected);
    if (record->kind == WEIR_WAIT_COUNTS)
        return weiri_fail(WEIR_ERR_MISMATCH,
                          "rank %d: a kernel expected %llu bytes between this rank and rank %lld, "
                          "but the sender has %llu; counts must match pairwise",
                          rank, (unsigned long long)record->expected, (long long)record->peer,
                          (unsigned long long)record->seen);
    return weiri_fail(WEIR_ERR_TIMEOUT,
                      "rank %d: deadline of %llu ms passed in a kernel; it waits for rank %lld: "
                      "expected %llu, seen %llu",
                      rank, (unsigned long long)(comm->guard.timeout_ns / 1000000),
                      (long long)record->peer, (unsigned long long)record->expected,
                      (unsigned long long)record->seen);
}

weir_status weir_comm_check(weir_comm *comm)
{
    WEIRI_REQUIRE(comm);
    if (weiri_comm_is_forked(comm))
        return weiri_fork_fail("communicator");
    if (comm->internode)
        weiri_internode_poll(comm->internode);
    for (int rank = 0; rank < comm->nranks; rank++)
        if (report_state_of(comm, rank) == WEIRI_DEAD)
            return weiri_fail(WEIR_ERR_PEER, "rank %d has died", rank);
    if (weiri_called_compare(comm) != WEIR_OK)
        return weiri_comm_give_up(comm, WEIR_ERR_MISMATCH);
    if (weir_load_acquire(comm->guard.abort_word))
        return report_cause_of_abort(comm);
    for (int rank = 0; rank < comm->nranks; rank++)
        if (report_state_of(comm, rank) == WEIRI_STOPPED)
            return weiri_fail(WEIR_ERR_TIMEOUT, "rank %d is stopped", rank);
    return WEIR_OK;
}

weir_status weiri_comm_fail_call(weir_comm *comm, const char *function)
{
    return weir_load_acquire(comm->guard.abort_word) == WEIR_ABORTED_BY_KERNEL
               ? weir_comm_check(comm)
               : weiri_comm_fail_aborted(comm, function);
}

weir_status weiri_comm_fail_ended(weir_comm *comm, const char *function)
{
    const weir_status status = weiri_comm_fail_buffer(comm, function);
    return status == WEIR_OK ? weiri_comm_fail_call(comm, function) : status;
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

/* After an abort: waits for a short time until all running ranks have final records. */
static void report_await_answers(weir_comm *comm)
{
    const int wanted_ms = ANSWER_MS + ANSWER_MS_EACH * comm->nranks;
    const int wait_ms = wanted_ms < ANSWER_MOST_MS ? wanted_ms : ANSWER_MOST_MS;
    const uint64_t end_ns = weir_clock_ns() + (uint64_t)wait_ms * 1000000u;
    report_answer(comm);
    for (int rank = 0; rank < comm->nranks; rank++)
        while (!report_has_answered(comm, rank) && report_state_of(comm, rank) == WEIRI_RUNS &&
               weir_clock_ns() < end_ns) {
            if (comm->internode)
                weiri_internode_poll(comm->internode);
            report_nap();
        }
}

weiri_report_rank weiri_report_look_at(const weir_comm *comm, int rank)
{
    return (weiri_report_rank){
        .life = report_state_of(comm, rank),
        .pid = comm->internode ? comm->internode->pids[rank] : comm->peers[rank].pid,
        .node = comm->internode ? comm->internode->node_of[rank] : -1,
        .unknown = report_is_remote(comm, rank) && !report_has_answered(comm, rank),
        .answered = report_has_answered(comm, rank),
        .where = report_record_of(comm, rank)};
}

int weir_comm_report(weir_comm *comm, char *text, size_t bytes)
{
    if (weiri_comm_is_forked(comm))
        return 0;
    weiri_report_rank *ranks = calloc((size_t)comm->nranks, sizeof *ranks);
    if (!ranks)
        return 0;
    if (weir_load_acquire(comm->guard.abort_word))
        report_await_answers(comm);
    for (int rank = 0; rank < comm->nranks; rank++)
        ranks[rank] = weiri_report_look_at(comm, rank);
    const weiri_report report = {.nranks = comm->nranks,
                                 .timeout_ms = comm->guard.timeout_ns / 1000000,
                                 .aborted = weir_load_acquire(comm->guard.abort_word) != 0,
                                 .ranks = ranks};
    int length = weiri_report_print(&report, text, bytes);
    free(ranks);
    return length;
}

/* ------------------------------------------------- the report of one rank for all */

static void report_write(weir_comm *comm, int fd)
{
    size_t bytes = (size_t)(comm->nranks + 2) * LINE_BYTES;
    char *text = malloc(bytes);
    size_t length = text ? (size_t)weir_comm_report(comm, text, bytes) : 0;
    size_t end = length < bytes ? length : bytes - 1;
    for (size_t at = 0; at < end;) {
        ssize_t written = write(fd, text + at, end - at);
        if (written <= 0)
            break;
        at += (size_t)written;
    }
    free(text);
}

/* Returns 1 if the rank can no longer print, even if its record is final. */
static int report_is_lost(const weir_comm *comm, int rank)
{
    return report_state_of(comm, rank) != WEIRI_RUNS ||
           (rank != comm->rank && weiri_comm_is_dead(comm, rank));
}

/* A leader decides this way if connections are made when first used. It learns from the
 * records and words that other ranks pass on whether a rank of an earlier node prints; and the
 * other ranks of its node wait for its decision, unless it is lost. */
static int report_leader_decides(weir_comm *comm)
{
    const weir_comm *host = comm->host_comm;
    const weiri_internode *internode = comm->internode;
    const uint64_t *word = &host->peers[0].page->report.value;
    const uint64_t start_ns = weir_clock_ns();
    while (weir_clock_ns() - start_ns < (OTHERS_MS + PRINT_MS) * 1000000ull) {
        weiri_internode_poll(comm->internode);
        if (weir_load_acquire(word) || report_is_lost(host, 0))
            return 0;
        if (weiri_internode_has_printed(internode))
            return 1;
        report_nap();
    }
    return 0;
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
        if (weiri_internode_has_printed(comm->internode))
            return 1;
        for (int rank = 0; rank < comm->nranks; rank++) {
            if (comm->internode->node_of[rank] >= comm->internode->node)
                continue;
            prints |= report_has_answered(comm, rank);
            waits |= !weiri_internode_is_lost(comm->internode, rank);
        }
        report_nap();
    }
    return prints && waits;
}

/* Returns 1 if another rank prints. A leader that does not print says so to its node. */
static int report_leaves_it(weir_comm *comm, uint64_t *word)
{
    uint64_t none = 0;
    const int is_first_use = comm->internode && comm->internode->is_first_use;
    if (is_first_use && comm->local_rank != 0 && !report_is_lost(comm->host_comm, 0))
        return report_leader_decides(comm);
    if (!report_other_node_prints(comm))
        return 0;
    if (is_first_use && comm->local_rank == 0)
        __atomic_compare_exchange_n(word, &none, printed | 1, 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE);
    return 1;
}

int weir_comm_report_once(weir_comm *comm, int fd)
{
    const weir_comm *host = comm->host_comm ? comm->host_comm : comm;
    uint64_t *word = &host->peers[0].page->report.value;
    uint64_t mine = (uint64_t)host->rank + 1, end_ns = weir_clock_ns() + PRINT_MS * 1000000ull;
    if (weiri_comm_is_forked(comm))
        return 0;
    report_answer(comm);
    if (report_leaves_it(comm, word))
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
