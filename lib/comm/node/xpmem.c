/* XPMEM: the library, this process's segment, and the attachments to peers. */
#include "comm/node/xpmem_state.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Ranges are attached in whole windows, so that neighbouring buffers share an attachment. */
#define WINDOW_BYTES ((uintptr_t)32 << 20)

static const char library_name[] = WEIRI_XPMEM_LIBRARY;

/* What the communicators of this process share. */
static struct {
    pthread_mutex_t mutex;
    int is_tried; /* to load the library */
    int is_loaded;
    weiri_xpmem_library library;
    int users;       /* communicators */
    int64_t segment; /* of this process; 0: none */
} own = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void xpmem_before_fork(void)
{
    pthread_mutex_lock(&own.mutex);
}

static void xpmem_after_fork(void)
{
    pthread_mutex_unlock(&own.mutex);
}

/* The parent's segment and attachments do not exist in the child. */
static void xpmem_in_child(void)
{
    own.users = 0;
    own.segment = 0;
    weiri_xpmem_accesses(NULL);
    pthread_mutex_unlock(&own.mutex);
}

/* Loads the library and its functions, once. */
static int xpmem_load(void)
{
    weiri_xpmem_library *library = &own.library;
    const struct {
        const char *name;
        void *place;
    } functions[] = {
        {"xpmem_version", &library->version}, {"xpmem_make", &library->make},
        {"xpmem_remove", &library->remove},   {"xpmem_get", &library->get},
        {"xpmem_release", &library->release}, {"xpmem_attach", &library->attach},
        {"xpmem_detach", &library->detach},
    };
    if (own.is_tried)
        return own.is_loaded;
    own.is_tried = 1;
    void *handle = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        weiri_log(WEIRI_LOG_DEBUG, "XPMEM: %s", dlerror());
        return 0;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(handle, functions[i].name);
        if (!function) {
            weiri_log(WEIRI_LOG_DEBUG, "XPMEM: %s has no %s", library_name, functions[i].name);
            return 0;
        }
        memcpy(functions[i].place, &function, sizeof function);
    }
    pthread_atfork(xpmem_before_fork, xpmem_after_fork, xpmem_in_child);
    own.is_loaded = 1;
    return 1;
}

/* Adds a user of this process's segment, and makes it for the first one. */
static weiri_xpmem_offer xpmem_share(void)
{
    const weiri_xpmem_library *library = &own.library;
    if (!xpmem_load())
        return (weiri_xpmem_offer){.state = WEIRI_XPMEM_NO_LIBRARY};
    if (own.users == 0) {
        errno = 0;
        if (library->version() <= 0)
            return (weiri_xpmem_offer){.state = WEIRI_XPMEM_NO_DEVICE, .code = errno};
        errno = 0;
        int64_t made = library->make(NULL, SIZE_MAX, WEIRI_XPMEM_PERMIT_MODE,
                                     (void *)(uintptr_t)WEIRI_XPMEM_OWNER_ONLY);
        if (made <= 0)
            return (weiri_xpmem_offer){.state = WEIRI_XPMEM_REFUSED, .code = errno};
        own.segment = made;
        weiri_xpmem_catch();
    }
    own.users++;
    return (weiri_xpmem_offer){.segment = own.segment, .state = WEIRI_XPMEM_READY};
}

static void xpmem_unshare(void)
{
    pthread_mutex_lock(&own.mutex);
    if (own.users > 0 && --own.users == 0) {
        own.library.remove(own.segment);
        own.segment = 0;
        weiri_xpmem_uncatch();
    }
    pthread_mutex_unlock(&own.mutex);
}

weir_status weiri_xpmem_open(weir_comm *comm, const uint64_t *word, weiri_xpmem_offer *offer)
{
    long wanted = 1;
    weir_status status = weiri_env_long(WEIRI_ENV_XPMEM, 0, 1, 1, &wanted);
    *offer = (weiri_xpmem_offer){.state = WEIRI_XPMEM_OFF};
    if (status != WEIR_OK || !wanted || comm->nranks == 1)
        return status;
    weiri_xpmem *made = calloc(1, sizeof *made + (size_t)comm->nranks * sizeof *made->peers);
    if (!made)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the attachments to %d ranks",
                          comm->nranks);
    pthread_mutex_lock(&own.mutex);
    *offer = xpmem_share();
    pthread_mutex_unlock(&own.mutex);
    if (offer->state != WEIRI_XPMEM_READY) {
        free(made);
        return WEIR_OK;
    }
    offer->address = (uint64_t)(uintptr_t)word;
    offer->word = *word;
    made->library = &own.library;
    made->nranks = comm->nranks;
    made->lost_rank = -1;
    comm->xpmem = made;
    return WEIR_OK;
}

static void attachment_detach(const weiri_xpmem *xpmem, weiri_attachment *attachment)
{
    if (attachment->at && attachment->is_lost)
        munmap(attachment->at, attachment->end - attachment->start);
    else if (attachment->at)
        xpmem->library->detach(attachment->at);
    *attachment = (weiri_attachment){.at = NULL};
}

/* The attachment that contains [start, end), or NULL. */
static weiri_attachment *attachment_find(const weiri_attached_peer *peer, uintptr_t start,
                                         uintptr_t end)
{
    for (int i = 0; peer->attachments && i < WEIRI_ATTACHMENTS_MAX; i++) {
        weiri_attachment *attachment = &peer->attachments[i];
        if (attachment->start <= start && end <= attachment->end && !attachment->is_lost)
            return attachment->at ? attachment : NULL;
    }
    return NULL;
}

/* The entry for a new attachment: an unused one, else the least recently used one. */
static weiri_attachment *attachment_victim(const weiri_attached_peer *peer)
{
    weiri_attachment *oldest = &peer->attachments[0];
    for (int i = 0; i < WEIRI_ATTACHMENTS_MAX; i++) {
        weiri_attachment *attachment = &peer->attachments[i];
        if (!attachment->at || attachment->is_lost)
            return attachment;
        if (attachment->used < oldest->used)
            oldest = attachment;
    }
    return oldest;
}

/* Attaches [start, end), whole pages. Returns 1 if that succeeded. */
static int attachment_try(const weiri_xpmem *xpmem, const weiri_attached_peer *peer,
                          weiri_attachment *attachment, uintptr_t start, uintptr_t end)
{
    if (end <= start)
        return 0;
    void *at = xpmem->library->attach((weiri_xpmem_address){peer->permit, (off_t)start},
                                      end - start, NULL);
    if (at == MAP_FAILED || !at)
        return 0;
    *attachment = (weiri_attachment){.start = start, .end = end, .at = at};
    return 1;
}

static weir_status attachment_make(weiri_xpmem *xpmem, weir_comm *comm, int rank, uintptr_t start,
                                   uintptr_t end, weiri_attachment **made)
{
    weiri_attached_peer *peer = &xpmem->peers[rank];
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), window = WINDOW_BYTES;
    if (!peer->attachments)
        peer->attachments = calloc(WEIRI_ATTACHMENTS_MAX, sizeof *peer->attachments);
    if (!peer->attachments)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the attachments to rank %d", rank);
    weiri_attachment *attachment = attachment_victim(peer);
    attachment_detach(xpmem, attachment);
    *made = attachment;
    start = start / page * page;
    end = (end + page - 1) / page * page;
    if (attachment_try(xpmem, peer, attachment, start / window * window,
                       (end + window - 1) / window * window) ||
        attachment_try(xpmem, peer, attachment, start, end))
        return WEIR_OK;
    return weiri_fail_errno(WEIR_ERR_SYSTEM, errno,
                            "rank %d cannot attach %zu bytes of rank %d's memory (xpmem_attach)",
                            weiri_comm_parent_rank(comm, comm->rank), (size_t)(end - start),
                            weiri_comm_parent_rank(comm, rank));
}

weir_status weiri_xpmem_pointer(weir_comm *comm, int rank, weiri_desc desc, char **pointer)
{
    weiri_xpmem *xpmem = comm->xpmem;
    const uintptr_t start = (uintptr_t)desc.offset;
    const uintptr_t unit = WEIRI_ATTACHED_UNIT_BYTES;
    const uintptr_t end = start / unit * unit + (uintptr_t)desc.region * unit;
    if (!xpmem)
        return weiri_fail(WEIR_ERR_INVALID, "rank %d cannot attach memory of rank %d",
                          weiri_comm_parent_rank(comm, comm->rank),
                          weiri_comm_parent_rank(comm, rank));
    if (xpmem->peers[rank].is_here || desc.region == 0) {
        *pointer = (char *)start;
        return WEIR_OK;
    }
    weiri_attachment *attachment = attachment_find(&xpmem->peers[rank], start, end);
    weir_status status =
        attachment ? WEIR_OK : attachment_make(xpmem, comm, rank, start, end, &attachment);
    if (status != WEIR_OK)
        return status;
    attachment->used = ++xpmem->clock;
    weiri_xpmem_accesses(xpmem);
    *pointer = attachment->at + (start - attachment->start);
    return WEIR_OK;
}

void weiri_xpmem_close(weir_comm *comm)
{
    weiri_xpmem *xpmem = comm->xpmem;
    if (!xpmem)
        return;
    for (int rank = 0; rank < xpmem->nranks; rank++) {
        weiri_attached_peer *peer = &xpmem->peers[rank];
        for (int i = 0; peer->attachments && i < WEIRI_ATTACHMENTS_MAX; i++)
            attachment_detach(xpmem, &peer->attachments[i]);
        if (peer->permit > 0)
            xpmem->library->release(peer->permit);
        free(peer->attachments);
    }
    weiri_xpmem_accesses(NULL);
    comm->xpmem = NULL;
    free(xpmem);
    xpmem_unshare();
}
