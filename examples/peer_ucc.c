/*
 * UCC's collectives over UCX as a peer of the benchmarks on host memory (written for UCC 1.10).
 * UCC's variables apply, such as UCC_TLS and UCX_TLS.
 *
 *     cc -O2 -shared -fPIC peer_ucc.c -o ucc.so $(pkg-config --cflags weir ucc) $(pkg-config --libs
 * ucc) bench_allreduce -g 2 --peer ./ucc.so
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucc/api/ucc.h>
#include <weir/peer.h>

typedef struct peer {
    const weir_peer_job *job;
    ucc_lib_h lib;
    ucc_context_h context;
    ucc_team_h team;
    int has_lib, has_context, has_team;
} peer;

/* --------------------------------------------------------- UCC's own exchange */

static ucc_status_t oob_allgather(void *mine, void *all, size_t bytes, void *context,
                                  void **request)
{
    const weir_peer_job *job = context;
    memcpy((char *)all + (size_t)job->rank * bytes, mine, bytes);
    *request = all;
    return job->allgather(job->context, all, bytes) == 0 ? UCC_OK : UCC_ERR_NO_MESSAGE;
}

static ucc_status_t oob_done(void *request)
{
    (void)request;
    return UCC_OK;
}

/* ------------------------------------------------------------------- the peer */

static int ucc_peer_probe(const weir_peer_job *job, weir_peer_about *about, char *why)
{
    const char *named[] = {"UCC_TLS", "UCX_TLS", "UCC_TL_UCP_TUNE"};
    size_t used = 0;
    snprintf(about->version, sizeof about->version, "%s", ucc_get_version_string());
    for (int i = 0; i < 3; i++)
        if (getenv(named[i]) && used < sizeof about->settings)
            used += (size_t)snprintf(about->settings + used, sizeof about->settings - used,
                                     "%s=%s (environment) ", named[i], getenv(named[i]));
    strcpy(why, "this peer works on host memory");
    return job->device >= 0;
}

static ucc_status_t open_context(peer *p)
{
    const ucc_lib_params_t lib = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE,
                                  .thread_mode = UCC_THREAD_SINGLE};
    ucc_context_params_t params = {.mask = UCC_CONTEXT_PARAM_FIELD_OOB,
                                   .oob = {oob_allgather, oob_done, oob_done,
                                           (void *)(uintptr_t)p->job, (uint32_t)p->job->nranks,
                                           (uint32_t)p->job->rank}};
    ucc_lib_config_h config;
    ucc_context_config_h settings;
    ucc_status_t status = ucc_lib_config_read(NULL, NULL, &config);
    if (status != UCC_OK)
        return status;
    status = ucc_init(&lib, config, &p->lib);
    ucc_lib_config_release(config);
    p->has_lib = status == UCC_OK;
    if (status == UCC_OK)
        status = ucc_context_config_read(p->lib, NULL, &settings);
    if (status != UCC_OK)
        return status;
    status = ucc_context_create(p->lib, &params, settings, &p->context);
    ucc_context_config_release(settings);
    p->has_context = status == UCC_OK;
    return status;
}

static ucc_status_t open_team(peer *p)
{
    ucc_team_params_t params = {
        .mask = UCC_TEAM_PARAM_FIELD_OOB | UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE,
        .oob = {oob_allgather, oob_done, oob_done, (void *)(uintptr_t)p->job,
                (uint32_t)p->job->nranks, (uint32_t)p->job->rank},
        .ep = (uint64_t)p->job->rank,
        .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG};
    ucc_status_t status = ucc_team_create_post(&p->context, 1, &params, &p->team);
    p->has_team = status == UCC_OK;
    while (status == UCC_OK || status == UCC_INPROGRESS) {
        status = ucc_team_create_test(p->team);
        if (status == UCC_OK)
            return UCC_OK;
        ucc_context_progress(p->context);
    }
    return status;
}

static int ucc_peer_create(const weir_peer_job *job, void **state, char *why)
{
    peer *p = calloc(1, sizeof *p);
    *state = p;
    strcpy(why, "no memory");
    if (!p)
        return -1;
    p->job = job;
    ucc_status_t status = open_context(p);
    if (status == UCC_OK)
        status = open_team(p);
    snprintf(why, WEIR_PEER_TEXT, "%s", ucc_status_string(status));
    return status != UCC_OK;
}

/* The type, or -1. */
static int type_of(weir_dtype dtype)
{
    switch (dtype) {
    case WEIR_INT8:
        return (int)UCC_DT_INT8;
    case WEIR_UINT8:
        return (int)UCC_DT_UINT8;
    case WEIR_INT32:
        return (int)UCC_DT_INT32;
    case WEIR_UINT32:
        return (int)UCC_DT_UINT32;
    case WEIR_INT64:
        return (int)UCC_DT_INT64;
    case WEIR_UINT64:
        return (int)UCC_DT_UINT64;
    case WEIR_HALF:
        return (int)UCC_DT_FLOAT16;
    case WEIR_BFLOAT16:
        return (int)UCC_DT_BFLOAT16;
    case WEIR_FLOAT:
        return (int)UCC_DT_FLOAT32;
    case WEIR_DOUBLE:
        return (int)UCC_DT_FLOAT64;
    default:
        return -1;
    }
}

static const char *ucc_peer_refuses(void *state, const weir_call *call)
{
    (void)state;
    if (type_of(call->dtype) < 0)
        return "it has no such type";
    switch (call->collective) {
    case WEIR_COLL_ALLREDUCE:
    case WEIR_COLL_REDUCE:
    case WEIR_COLL_ALLGATHER:
    case WEIR_COLL_ALLTOALL:
        return NULL;
    case WEIR_COLL_BROADCAST:
        return call->in == call->out ? NULL : "it has broadcasts in place only";
    default:
        return "this peer has no such collective";
    }
}

static ucc_coll_buffer_info_t buffer(const void *memory, size_t count, weir_dtype dtype)
{
    return (ucc_coll_buffer_info_t){(void *)(uintptr_t)memory, count,
                                    (ucc_datatype_t)type_of(dtype), UCC_MEMORY_TYPE_HOST};
}

/* Counts are those of all ranks together, where a buffer has a block for each. */
static void describe(const peer *p, const weir_call *c, ucc_coll_args_t *args)
{
    static const ucc_reduction_op_t ops[] = {[WEIR_SUM] = UCC_OP_SUM,
                                             [WEIR_PROD] = UCC_OP_PROD,
                                             [WEIR_MAX] = UCC_OP_MAX,
                                             [WEIR_MIN] = UCC_OP_MIN,
                                             [WEIR_AVG] = UCC_OP_AVG};
    static const uint64_t types[] = {[WEIR_COLL_ALLREDUCE] = UCC_COLL_TYPE_ALLREDUCE,
                                     [WEIR_COLL_REDUCE] = UCC_COLL_TYPE_REDUCE,
                                     [WEIR_COLL_ALLGATHER] = UCC_COLL_TYPE_ALLGATHER,
                                     [WEIR_COLL_ALLTOALL] = UCC_COLL_TYPE_ALLTOALL,
                                     [WEIR_COLL_BROADCAST] = UCC_COLL_TYPE_BCAST};
    const size_t all = c->count * (size_t)p->job->nranks;
    const int has_in_all = c->collective == WEIR_COLL_ALLTOALL;
    const int has_out_all = has_in_all || c->collective == WEIR_COLL_ALLGATHER;
    memset(args, 0, sizeof *args);
    args->coll_type = (ucc_coll_type_t)types[c->collective];
    args->op = ops[c->op];
    args->root = (uint64_t)c->root;
    args->src.info = buffer(c->in, has_in_all ? all : c->count, c->dtype);
    args->dst.info = buffer(c->out, has_out_all ? all : c->count, c->dtype);
    if (c->in == c->out && c->collective != WEIR_COLL_BROADCAST) {
        args->mask = UCC_COLL_ARGS_FIELD_FLAGS;
        args->flags = UCC_COLL_ARGS_FLAG_IN_PLACE;
    }
}

static int ucc_peer_run(void *state, const weir_call *call, char *why)
{
    const peer *p = state;
    ucc_coll_args_t args;
    ucc_coll_req_h request;
    describe(p, call, &args);
    ucc_status_t status = ucc_collective_init(&args, &request, p->team);
    if (status == UCC_OK) {
        status = ucc_collective_post(request);
        while (status >= 0 && (status = ucc_collective_test(request)) == UCC_INPROGRESS)
            ucc_context_progress(p->context);
        ucc_collective_finalize(request);
    }
    snprintf(why, WEIR_PEER_TEXT, "%s", ucc_status_string(status));
    return status != UCC_OK;
}

static void ucc_peer_destroy(void *state)
{
    peer *p = state;
    while (p->has_team && ucc_team_destroy(p->team) == UCC_INPROGRESS)
        ucc_context_progress(p->context);
    if (p->has_context)
        ucc_context_destroy(p->context);
    if (p->has_lib)
        ucc_finalize(p->lib);
    free(p);
}

const weir_peer *weir_peer_v1(void)
{
    static const weir_peer made = {WEIR_PEER_INIT,
                                   .name = "ucc",
                                   .probe = ucc_peer_probe,
                                   .create = ucc_peer_create,
                                   .refuses = ucc_peer_refuses,
                                   .run = ucc_peer_run,
                                   .destroy = ucc_peer_destroy};
    return &made;
}
