/*
 * Attached memory that is not there. An access to it raises SIGBUS in the thread that makes it: its
 * owner has ended, or has nothing mapped at that address. The handler detaches the range and puts
 * empty memory in its place, so that the loop over it ends, and records the rank; the caller's
 * check then fails (weiri_xpmem_check). Any other SIGBUS goes to the handler that was there before.
 */
#define _GNU_SOURCE
#include "comm/node/xpmem_state.h"

#include "base/error.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* How long a process that loses its memory may take to be seen as ended. */
enum { DEATH_MS = 2000 };

static __thread weiri_xpmem *volatile accessed;
static struct sigaction before;

void weiri_xpmem_accesses(weiri_xpmem *xpmem)
{
    accessed = xpmem;
}

int weiri_xpmem_end_access(weiri_xpmem *xpmem)
{
    accessed = NULL;
    return xpmem->lost_rank < 0;
}

/* Puts empty memory in the place of an attachment. Async-signal-safe: libxpmem's detach is one
 * system call. */
static int attachment_empty(const weiri_xpmem *xpmem, weiri_attachment *attachment)
{
    int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *at = attachment->at;
    if (xpmem->library->detach(at) != 0)
        return 0;
#ifdef MAP_FIXED_NOREPLACE
    flags |= MAP_FIXED_NOREPLACE;
#endif
    if (mmap(at, attachment->end - attachment->start, prot, flags, -1, 0) != (void *)at)
        return 0;
    attachment->is_lost = 1;
    return 1;
}

static int fault_is_handled(weiri_xpmem *xpmem, const char *address)
{
    for (int rank = 0; rank < xpmem->nranks; rank++)
        for (int i = 0; xpmem->peers[rank].attachments && i < WEIRI_ATTACHMENTS_MAX; i++) {
            weiri_attachment *attachment = &xpmem->peers[rank].attachments[i];
            const char *at = attachment->at;
            if (!at || attachment->is_lost || address < at ||
                address >= at + (attachment->end - attachment->start))
                continue;
            if (!attachment_empty(xpmem, attachment))
                return 0;
            xpmem->lost_rank = rank;
            return 1;
        }
    return 0;
}

static void fault_handle(int number, siginfo_t *info, void *context)
{
    weiri_xpmem *xpmem = accessed;
    if (xpmem && info->si_code > 0 && fault_is_handled(xpmem, info->si_addr))
        return;
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
        return;
    }
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
        return;
    }
    signal(SIGBUS, SIG_DFL); /* the access is repeated, and ends the process */
    if (info->si_code <= 0)
        raise(SIGBUS);
}

static int fault_is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == fault_handle;
}

void weiri_xpmem_catch(void)
{
    struct sigaction action, now;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = fault_handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    if (sigaction(SIGBUS, NULL, &now) != 0 || fault_is_ours(&now))
        return;
    before = now;
    sigaction(SIGBUS, &action, NULL);
}

void weiri_xpmem_uncatch(void)
{
    struct sigaction now;
    if (sigaction(SIGBUS, NULL, &now) == 0 && fault_is_ours(&now))
        sigaction(SIGBUS, &before, NULL);
}

weir_status weiri_xpmem_report_end(weir_comm *comm, int rank)
{
    const uint64_t never = 0;
    if (!weir_load_acquire(comm->guard.abort_word) && !weiri_comm_is_dead(comm, rank))
        return WEIR_OK;
    return weiri_comm_wait_slow(comm, &never, 1, rank, "access to attached memory");
}

weir_status weiri_xpmem_report_lost(weir_comm *comm)
{
    const int rank = (int)comm->xpmem->lost_rank;
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int ms = 0; ms < DEATH_MS; ms++) {
        weir_status status = weiri_xpmem_report_end(comm, rank);
        if (status != WEIR_OK)
            return status;
        nanosleep(&pause, NULL);
    }
    return weiri_comm_abort_for_buffer(comm, rank);
}
