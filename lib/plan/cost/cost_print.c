/* An estimate as text. */
#include "plan/cost/cost.h"
#include "plan/draw/show.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void weiri_plan_load_name(const weiri_plan_load *load, char *text, size_t bytes)
{
    static const char *const names[WEIRI_SHARES] = {
        [WEIRI_SHARE_PAIR] = "rank %d > rank %d",    [WEIRI_SHARE_OUT] = "out of rank %d",
        [WEIRI_SHARE_IN] = "into rank %d",           [WEIRI_SHARE_MEMORY] = "memory of rank %d",
        [WEIRI_SHARE_NET_OUT] = "network, rank %d out",
        [WEIRI_SHARE_NET_IN] = "network, rank %d in",
        [WEIRI_SHARE_MACHINE] = "memory of machine %d"};
    const char *name = names[load->share], *second = strstr(name, "> ");
    int at = snprintf(text, bytes, "%.*s%d", (int)(strchr(name, '%') - name), name, load->from);
    if (second && at > 0 && (size_t)at < bytes)
        snprintf(text + at, bytes - (size_t)at, " > rank %d", load->to);
    else if (at > 0 && (size_t)at < bytes)
        snprintf(text + at, bytes - (size_t)at, "%s", strchr(name, '%') + 2);
}

/* ------------------------------------------------------------------------ bound */

static double alone_us(const weiri_plan_load *load)
{
    return load->gbs > 0 ? (double)load->bytes / (load->gbs * 1e3) : 0;
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* Whichever takes longest if nothing else took time: bytes on one link, or one thread block. */
static void print_bound(const weir_plan *plan, const weiri_plan_cost *cost, FILE *to)
{
    const weiri_plan_load *most = &cost->loads[0];
    char name[64];
    for (uint32_t i = 1; i < cost->nloads; i++)
        if (alone_us(&cost->loads[i]) > alone_us(most))
            most = &cost->loads[i];
    weiri_plan_load_name(most, name, sizeof name);
    if (most->bytes)
        fprintf(to, "bound        %.2f us, %.0f%%: %" PRIu64 " bytes %s at %g GB/s\n",
                alone_us(most), percent(alone_us(most), cost->total_us), most->bytes, name,
                most->gbs);
    if (plan->gpus[cost->busiest_rank].nblocks)
        fprintf(to, "             %.2f us, %.0f%%: rank %d, thread block %u without its waits\n",
                cost->busiest_us, percent(cost->busiest_us, cost->total_us), cost->busiest_rank,
                plan->gpus[cost->busiest_rank].blocks[cost->busiest_block].id);
}

static void print_time(const weir_plan *plan, const weiri_plan_cost *cost, FILE *to)
{
    double gbs = cost->total_us > 0 ? (double)cost->message_bytes / cost->total_us / 1e3 : 0;
    fprintf(to, "plan         %s, %s of %d ranks\n", plan->name, plan->collective_name,
            plan->nranks);
    fprintf(to, "message      %" PRIu64 " bytes, chunks of %" PRIu64 "\n", cost->message_bytes,
            cost->layout.chunk_bytes);
    fprintf(to, "topology     %s: %s\n", cost->model.name, cost->model.about);
    fprintf(to, "time         %.2f us, %.2f GB/s (algbw): an estimate\n", cost->total_us, gbs);
    print_bound(plan, cost, to);
}

/* --------------------------------------------------------------- critical path */

int64_t *weiri_plan_critical_path(const weiri_plan_cost *cost, uint32_t *count)
{
    int64_t *path = malloc((cost->nsteps + 1) * sizeof *path);
    *count = 0;
    for (int64_t at = cost->last; path && at >= 0 && *count < cost->nsteps;
         at = cost->steps[at].cause)
        path[(*count)++] = at;
    for (uint32_t i = 0; path && i < *count / 2; i++) {
        int64_t kept = path[i];
        path[i] = path[*count - 1 - i];
        path[*count - 1 - i] = kept;
    }
    return path;
}

static void print_step(const weir_plan *plan, const weiri_plan_step *step, FILE *to)
{
    const weiri_plan_gpu *gpu = &plan->gpus[step->rank];
    const weiri_plan_block *block = &gpu->blocks[step->block];
    fprintf(to, "%10.2f %10.2f  rank %d, thread block %u, op %u  ", step->began_us, step->ended_us,
            step->rank, block->id, step->op);
    if (gpu->ops[block->first_op + step->op].in_body)
        fprintf(to, "turn %" PRIu64 "  ", step->turn);
    weiri_plan_show_op(plan, step->rank, &gpu->ops[block->first_op + step->op], -1, to);
    fputc('\n', to);
}

static void print_path(const weir_plan *plan, const weiri_plan_cost *cost, FILE *to)
{
    enum { ENDS = 20 }; /* steps of either end of a long path */
    uint32_t count;
    int64_t *path = weiri_plan_critical_path(cost, &count);
    double moving = 0, under_way = 0, before = cost->model.launch_us;
    for (uint32_t i = 0; path && i < count; i++) {
        const weiri_plan_step *step = &cost->steps[path[i]];
        moving += step->ended_us - step->began_us;
        under_way += step->began_us - before;
        before = step->ended_us;
    }
    fprintf(to, "critical path  %u operations take %.2f us, signals and packets between them %.2f "
                "us, the launch %.2f us\n     from us      to us\n", count, moving,
            under_way + cost->total_us - before, cost->model.launch_us);
    for (uint32_t i = 0; path && i < count; i++) {
        if (count > 2 * ENDS && i == ENDS) {
            fprintf(to, "                       ... %u more\n", count - 2 * ENDS);
            i = count - ENDS;
        }
        print_step(plan, &cost->steps[path[i]], to);
    }
    free(path);
}

/* ------------------------------------------------------------------------ links */

/* Loads that had bytes; those of a kind with the same bytes are one line. */
static void print_loads(const weiri_plan_cost *cost, FILE *to)
{
    char name[64];
    fputs("links              bytes     us alone   in use\n", to);
    for (uint32_t i = 0; i < cost->nloads; i++) {
        const weiri_plan_load *load = &cost->loads[i];
        uint32_t alike = 0, earlier = 0;
        for (uint32_t k = 0; k < cost->nloads && load->bytes; k++) {
            int same = cost->loads[k].share == load->share && cost->loads[k].bytes == load->bytes;
            alike += same;
            earlier += same && k < i;
        }
        if (!load->bytes || earlier)
            continue;
        weiri_plan_load_name(load, name, sizeof name);
        fprintf(to, "%24" PRIu64 " %12.2f %7.1f%%  %s", load->bytes, alone_us(load),
                percent(alone_us(load), cost->total_us), name);
        if (alike > 1)
            fprintf(to, " and %u more", alike - 1);
        fputc('\n', to);
    }
}

void weiri_plan_cost_print(const weir_plan *plan, const weiri_plan_cost *cost, FILE *to)
{
    print_time(plan, cost, to);
    print_loads(cost, to);
    print_path(plan, cost, to);
}
