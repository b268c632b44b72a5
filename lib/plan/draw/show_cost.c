/* Prints an estimate as text. */
#include "plan/draw/show.h"

#include "base/error.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void plan_print_load_name(const weiri_plan_load *load, char *text, size_t bytes)
{
    static const char *const names[WEIRI_LOAD_KINDS] = {[WEIRI_LOAD_PAIR] = "rank %d > rank %d",
                                                        [WEIRI_LOAD_OUT] = "out of rank %d",
                                                        [WEIRI_LOAD_IN] = "into rank %d",
                                                        [WEIRI_LOAD_MEMORY] = "memory of rank %d",
                                                        [WEIRI_LOAD_NET_OUT] =
                                                            "network, rank %d out",
                                                        [WEIRI_LOAD_NET_IN] = "network, rank %d in",
                                                        [WEIRI_LOAD_NODE] = "memory of node %d"};
    const char *name = names[load->kind], *second = strstr(name, "> ");
    int at = snprintf(text, bytes, "%.*s%d", (int)(strchr(name, '%') - name), name, load->from);
    if (second && at > 0 && (size_t)at < bytes)
        snprintf(text + at, bytes - (size_t)at, " > rank %d", load->to);
    else if (at > 0 && (size_t)at < bytes)
        snprintf(text + at, bytes - (size_t)at, "%s", strchr(name, '%') + 2);
}

/* ------------------------------------------------------------------------ bound */

static double plan_print_alone_us(const weiri_plan_load *load)
{
    return load->gbs > 0 ? (double)load->bytes / (load->gbs * 1e3) : 0;
}

static double plan_print_percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* Prints the two lower bounds of the time: the busiest link, and the busiest thread block. */
static void plan_print_bound(const weir_plan *plan, const weiri_plan_cost *cost, FILE *to)
{
    const weiri_plan_load *most = &cost->loads[0];
    char name[64];
    for (uint32_t i = 1; i < cost->nloads; i++)
        if (plan_print_alone_us(&cost->loads[i]) > plan_print_alone_us(most))
            most = &cost->loads[i];
    plan_print_load_name(most, name, sizeof name);
    if (most->bytes)
        fprintf(to, "bound        %.2f us, %.0f%%: %" PRIu64 " bytes %s at %g GB/s\n",
                plan_print_alone_us(most),
                plan_print_percent(plan_print_alone_us(most), cost->total_us), most->bytes, name,
                most->gbs);
    if (plan->gpus[cost->busiest_rank].nblocks)
        fprintf(to, "             %.2f us, %.0f%%: rank %d, thread block %u without its waits\n",
                cost->busiest_us, plan_print_percent(cost->busiest_us, cost->total_us),
                cost->busiest_rank, plan->gpus[cost->busiest_rank].blocks[cost->busiest_block].id);
}

static void plan_print_time(const weir_plan *plan, const weiri_plan_cost *cost, FILE *to)
{
    double gbs = cost->total_us > 0 ? (double)cost->message_bytes / cost->total_us / 1e3 : 0;
    char name[WEIRI_SHOWN_BYTES], collective[WEIRI_SHOWN_BYTES];
    fprintf(to, "plan         %s, %s of %d ranks\n",
            weiri_text_shown(plan->name, name, sizeof name),
            weiri_text_shown(plan->collective_name, collective, sizeof collective), plan->nranks);
    fprintf(to, "message      %" PRIu64 " bytes, chunks of %" PRIu64 "\n", cost->message_bytes,
            cost->layout.chunk_bytes);
    fprintf(to, "topology     %s: %s\n", cost->model.name, cost->model.about);
    fprintf(to, "time         %.2f us, %.2f GB/s (algbw): an estimate\n", cost->total_us, gbs);
    plan_print_bound(plan, cost, to);
}

/* --------------------------------------------------------------- critical path */

static void plan_print_step(const weir_plan *plan, const weiri_plan_step *step, FILE *to)
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

static weir_status plan_print_path(const weir_plan *plan, const weiri_plan_cost *cost, FILE *to)
{
    enum { ENDS = 20 }; /* steps printed at each end of a long path */
    uint32_t count;
    int64_t *path = weiri_plan_critical_path(cost, &count);
    double moving = 0, under_way = 0, before = cost->model.launch_us;
    if (!path)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for the critical path", plan->file);
    for (uint32_t i = 0; i < count; i++) {
        const weiri_plan_step *step = &cost->steps[path[i]];
        moving += step->ended_us - step->began_us;
        under_way += step->began_us - before;
        before = step->ended_us;
    }
    fprintf(to,
            "critical path  %u operations take %.2f us, signals and packets between them %.2f "
            "us, the launch %.2f us\n     from us      to us\n",
            count, moving, under_way + cost->total_us - before, cost->model.launch_us);
    for (uint32_t i = 0; i < count; i++) {
        if (count > 2 * ENDS && i == ENDS) {
            fprintf(to, "                       ... %u more\n", count - 2 * ENDS);
            i = count - ENDS;
        }
        plan_print_step(plan, &cost->steps[path[i]], to);
    }
    free(path);
    return WEIR_OK;
}

/* ------------------------------------------------------------------------ links */

/* Prints loads that transferred bytes; those of one kind with the same bytes share a line. */
static void plan_print_loads(const weiri_plan_cost *cost, FILE *to)
{
    char name[64];
    fputs("links              bytes     us alone   in use\n", to);
    for (uint32_t i = 0; i < cost->nloads; i++) {
        const weiri_plan_load *load = &cost->loads[i];
        uint32_t equal = 0, earlier = 0;
        for (uint32_t k = 0; k < cost->nloads && load->bytes; k++) {
            int same = cost->loads[k].kind == load->kind && cost->loads[k].bytes == load->bytes;
            equal += same;
            earlier += same && k < i;
        }
        if (!load->bytes || earlier)
            continue;
        plan_print_load_name(load, name, sizeof name);
        fprintf(to, "%24" PRIu64 " %12.2f %7.1f%%  %s", load->bytes, plan_print_alone_us(load),
                plan_print_percent(plan_print_alone_us(load), cost->total_us), name);
        if (equal > 1)
            fprintf(to, " and %u more", equal - 1);
        fputc('\n', to);
    }
}

weir_status weiri_plan_cost_print(const weir_plan *plan, const weiri_plan_cost *cost, FILE *to)
{
    plan_print_time(plan, cost, to);
    plan_print_loads(cost, to);
    return plan_print_path(plan, cost, to);
}
