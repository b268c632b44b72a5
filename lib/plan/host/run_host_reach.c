/* Where the buffers of ranks are, and who wrote a packet, for the blocks of a launch. */
#include "plan/host/run_host.h"

uint64_t weiri_host_arena_offset(const weiri_host_launch *launch, uint32_t base)
{
    const weiri_host_context *own = launch->own;
    const int rank = (int)(base / WEIR_PLAN_BUFFERS);
    const int region = launch->context->in_place;
    if (base % WEIR_PLAN_BUFFERS == WEIR_PLAN_INPUT)
        return own->in_at + (region ? weiri_region_in_offset(launch->context, rank) : 0);
    if (base % WEIR_PLAN_BUFFERS == WEIR_PLAN_OUTPUT)
        return own->out_at + (region ? weiri_region_out_offset(launch->context, rank) : 0);
    return own->scratch_at + (own->launches & 1) * launch->program->geometry.half_bytes;
}

int weiri_host_read_post(weiri_host_launch *launch, int rank)
{
    weiri_coll *coll = launch->host->coll;
    const weiri_plan_context *context = launch->context;
    char **base = launch->own->bases + rank * WEIR_PLAN_BUFFERS;
    const char *in = NULL;
    if (weir_load_acquire(&weiri_post_of(coll, rank)->flag.value) < coll->epoch)
        return 0;
    if (context->in_place) {
        launch->status = weiri_post_out(coll, rank, NULL, &base[0]);
        base[1] = base[0] + weiri_region_out_offset(context, rank);
        base[0] += weiri_region_in_offset(context, rank);
    } else {
        if (context->reached[0])
            launch->status = weiri_post_in(coll, rank, NULL, &in);
        if (context->reached[1] && launch->status == WEIR_OK)
            launch->status = weiri_post_out(coll, rank, NULL, &base[1]);
        base[0] = (char *)in;
    }
    launch->unread &= ~weiri_rank_set_of((uint32_t)rank);
    return launch->status == WEIR_OK ? 1 : -1;
}

int weiri_host_sender(const weiri_host_launch *launch, const void *packet)
{
    const weiri_host_context *own = launch->own;
    const weiri_geometry *geometry = &launch->program->geometry;
    const char *scratch = own->bases[launch->program->rank * WEIR_PLAN_BUFFERS + WEIR_PLAN_SCRATCH];
    const uint64_t at = (uint64_t)((const char *)packet - scratch);
    return own->senders[own->has_separate_flags ? (at - own->flags_at) * 8 / geometry->chunk_bytes
                                                : at / geometry->slot_bytes];
}
