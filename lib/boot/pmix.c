/*
 * The bootstrap of a PMIx launcher. PMIx passes on one value, the unique id that rank 0 creates;
 * the ranks then connect over TCP, and PMIx is not used any more.
 *
 * libpmix is loaded at run time, and needs no header at build time: the declarations below are the
 * part of the PMIx standard (version 2 and later) that is used here. No array of several structures
 * is passed to it, because their size differs between versions.
 */
#include "base/config.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PMIX_OK = 0,
    PMIX_TYPE_BOOL = 1,
    PMIX_TYPE_STRING = 3,
    PMIX_TYPE_UINT32 = 14,
    PMIX_SCOPE_GLOBAL = 3
};
#define PMIX_ANY_RANK (UINT32_MAX - 1) /* PMIX_RANK_WILDCARD */

typedef struct pmix_proc {
    char nspace[256];
    uint32_t rank;
} pmix_proc;

/* pmix_value_t; the union is at least as large as in any version. */
typedef struct pmix_value {
    uint16_t type;
    union {
        const char *string;
        uint32_t uint32;
        uint8_t is_true;
        char room[64];
    } data;
} pmix_value;

/* pmix_info_t: a directive. */
typedef struct pmix_info {
    char key[512];
    uint32_t flags;
    pmix_value value;
} pmix_info;

typedef void (*pmix_fenced)(int status, void *data);
typedef void (*pmix_got)(int status, pmix_value *value, void *data);

typedef struct pmix_library {
    int (*init)(pmix_proc *self, void *info, size_t ninfo);
    int (*finalize)(const void *info, size_t ninfo);
    int (*put)(uint8_t scope, const char *key, pmix_value *value);
    int (*commit)(void);
    int (*fence)(const pmix_proc *procs, size_t nprocs, const pmix_info *info, size_t ninfo,
                 pmix_fenced done, void *data);
    int (*get)(const pmix_proc *proc, const char *key, const void *info, size_t ninfo,
               pmix_got done, void *data);
    const char *(*error)(int status);
} pmix_library;

enum { ID_TEXT_BYTES = 2 * WEIR_UNIQUE_ID_BYTES + 1 };

/* The result of a request, which a thread of the library reports. After a timeout the library may
 * still report it, so the memory is then left to it. */
typedef struct pmix_request {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int done, status;
    uint32_t number;
    char text[ID_TEXT_BYTES];
} pmix_request;

static weir_status pmix_load(pmix_library *pmix)
{
    static const char *const names[] = {"PMIx_Init",        "PMIx_Finalize", "PMIx_Put",
                                        "PMIx_Commit",      "PMIx_Fence_nb", "PMIx_Get_nb",
                                        "PMIx_Error_string"};
    void **places[] = {(void **)&pmix->init,   (void **)&pmix->finalize, (void **)&pmix->put,
                       (void **)&pmix->commit, (void **)&pmix->fence,    (void **)&pmix->get,
                       (void **)&pmix->error};
    const char *path = weiri_env(WEIRI_ENV_PMIX_SO);
    void *library = dlopen(path ? path : "libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return weiri_fail(WEIR_ERR_SYSTEM,
                          "PMIx: %s; install libpmix (apt-get install libpmix2) or name it by %s",
                          dlerror(), weiri_env_name(WEIRI_ENV_PMIX_SO));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *places[i] = dlsym(library, names[i]);
        if (!*places[i])
            return weiri_fail(WEIR_ERR_SYSTEM, "PMIx: %s has no %s; version 2 or later is needed",
                              path ? path : "libpmix.so.2", names[i]);
    }
    return WEIR_OK;
}

static weir_status pmix_check(const pmix_library *pmix, int status, const char *what)
{
    if (status == PMIX_OK)
        return WEIR_OK;
    return weiri_fail(WEIR_ERR_SYSTEM, "PMIx: %s: %s (%d)", what, pmix->error(status), status);
}

static pmix_request *pmix_request_create(void)
{
    pmix_request *made = calloc(1, sizeof *made);
    pthread_condattr_t clock;
    if (!made)
        return NULL;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->changed, &clock);
    pthread_condattr_destroy(&clock);
    return made;
}

static void pmix_request_complete(pmix_request *request, int status)
{
    request->status = status;
    request->done = 1;
    pthread_cond_signal(&request->changed);
    pthread_mutex_unlock(&request->mutex);
}

static void pmix_on_fence(int status, void *data)
{
    pmix_request *request = data;
    pthread_mutex_lock(&request->mutex);
    pmix_request_complete(request, status);
}

static void pmix_on_value(int status, pmix_value *value, void *data)
{
    pmix_request *request = data;
    pthread_mutex_lock(&request->mutex);
    if (status == PMIX_OK && value && value->type == PMIX_TYPE_UINT32)
        request->number = value->data.uint32;
    if (status == PMIX_OK && value && value->type == PMIX_TYPE_STRING && value->data.string)
        snprintf(request->text, sizeof request->text, "%s", value->data.string);
    pmix_request_complete(request, status);
}

/* Waits for a request that was started with the given status, and frees it. *result (may be NULL)
 * gets a copy. */
static weir_status pmix_request_wait(const pmix_library *pmix, pmix_request *request, int started,
                                     const char *what, pmix_request *result)
{
    int timeout_ms = weiri_config_timeout_ms(), error = 0;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += timeout_ms / 1000;
    end.tv_nsec += timeout_ms % 1000 * 1000000l;
    if (end.tv_nsec >= 1000000000l) {
        end.tv_nsec -= 1000000000l;
        end.tv_sec++;
    }
    pthread_mutex_lock(&request->mutex);
    while (started == PMIX_OK && !request->done && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&request->changed, &request->mutex, &end);
    int done = request->done || started != PMIX_OK;
    if (done && result)
        *result = *request;
    int status = started != PMIX_OK ? started : request->status;
    pthread_mutex_unlock(&request->mutex);
    if (!done)
        return weiri_fail(WEIR_ERR_TIMEOUT,
                          "PMIx: %s: not complete after %d ms; check whether all ranks run, or "
                          "raise WEIR_TIMEOUT_MS",
                          what, timeout_ms);
    pthread_cond_destroy(&request->changed);
    pthread_mutex_destroy(&request->mutex);
    free(request);
    return pmix_check(pmix, status, what);
}

static weir_status pmix_no_memory(void)
{
    return weiri_fail(WEIR_ERR_NO_MEMORY, "PMIx: no memory for a request");
}

/* The fence also brings what rank 0 has put to all nodes. Otherwise, the server of another node
 * asks for it at the first get, which PRRTE ends after 2 seconds without data. */
static weir_status pmix_fence_all(const pmix_library *pmix)
{
    static const pmix_info collect = {.key = "pmix.collect",
                                      .value = {.type = PMIX_TYPE_BOOL, .data.is_true = 1}};
    pmix_request *request = pmix_request_create();
    if (!request)
        return pmix_no_memory();
    int started = pmix->fence(NULL, 0, &collect, 1, pmix_on_fence, request);
    return pmix_request_wait(pmix, request, started, "fence of all ranks", NULL);
}

static weir_status pmix_get_value(const pmix_library *pmix, const pmix_proc *of, const char *key,
                                  pmix_request *result)
{
    pmix_request *request = pmix_request_create();
    if (!request)
        return pmix_no_memory();
    int started = pmix->get(of, key, NULL, 0, pmix_on_value, request);
    return pmix_request_wait(pmix, request, started, key, result);
}

static weir_status pmix_read_id(const char *text, weir_unique_id *id)
{
    for (size_t i = 0; i < WEIR_UNIQUE_ID_BYTES; i++) {
        unsigned byte = 0;
        if (strlen(text) != ID_TEXT_BYTES - 1 || sscanf(text + 2 * i, "%2x", &byte) != 1)
            return weiri_fail(WEIR_ERR_SYSTEM, "PMIx: rank 0's unique id arrived damaged");
        id->bytes[i] = (char)byte;
    }
    return WEIR_OK;
}

/* Rank 0 publishes its unique id, the others read it. Collective. */
static weir_status pmix_share_id(const pmix_library *pmix, const pmix_proc *self,
                                 weir_unique_id *id)
{
    static atomic_int jobs;
    char key[32], text[ID_TEXT_BYTES];
    pmix_value value = {.type = PMIX_TYPE_STRING, .data.string = text};
    pmix_request found;
    pmix_proc root = *self;
    weir_status status = WEIR_OK;
    root.rank = 0;
    snprintf(key, sizeof key, "weir.id.%d", atomic_fetch_add(&jobs, 1));
    if (self->rank == 0) {
        status = weir_unique_id_create(id);
        if (status != WEIR_OK)
            return status;
        for (size_t i = 0; i < WEIR_UNIQUE_ID_BYTES; i++)
            snprintf(text + 2 * i, 3, "%02x", (unsigned char)id->bytes[i]);
        status = pmix_check(pmix, pmix->put(PMIX_SCOPE_GLOBAL, key, &value), "put");
        if (status == WEIR_OK)
            status = pmix_check(pmix, pmix->commit(), "commit");
    }
    if (status == WEIR_OK)
        status = pmix_fence_all(pmix);
    if (status != WEIR_OK || self->rank == 0)
        return status;
    status = pmix_get_value(pmix, &root, key, &found);
    return status == WEIR_OK ? pmix_read_id(found.text, id) : status;
}

static weir_status pmix_connect(const pmix_library *pmix, const pmix_proc *self, weir_boot **boot)
{
    pmix_request size;
    weir_unique_id id;
    pmix_proc job = *self;
    job.rank = PMIX_ANY_RANK;
    weir_status status = pmix_get_value(pmix, &job, "pmix.job.size", &size);
    if (status == WEIR_OK)
        status = pmix_share_id(pmix, self, &id);
    if (status == WEIR_OK)
        status = weir_boot_tcp_create(&id, (int)self->rank, (int)size.number, boot);
    return status;
}

weir_status weir_boot_pmix_create(weir_boot **boot)
{
    pmix_library pmix;
    pmix_proc self = {.rank = 0};
    if (!boot)
        return weiri_fail(WEIR_ERR_INVALID, "weir_boot_pmix_create: boot is required");
    weir_status status = pmix_load(&pmix);
    if (status != WEIR_OK)
        return status;
    status = pmix_check(&pmix, pmix.init(&self, NULL, 0), "no server; is the launcher a PMIx one?");
    if (status != WEIR_OK)
        return status;
    status = pmix_connect(&pmix, &self, boot);
    if (status == WEIR_ERR_TIMEOUT)
        return status; /* finalizing would wait for the ranks that are missing */
    int finalized = pmix.finalize(NULL, 0);
    if (finalized != PMIX_OK)
        weiri_log(WEIRI_LOG_WARN, "PMIx: finalize: %s", pmix.error(finalized));
    return status;
}
