/* Prints a plan: its summary, the table of bytes moved between ranks, and its ranks. */
#include "plan/cost/moves.h"
#include "plan/draw/show.h"

#include "base/error.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static weir_status plan_show_no_memory(const weir_plan *plan)
{
    return weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to print the plan", plan->file);
}

/* ---------------------------------------------------------------------- summary */

static void plan_show_range(const weir_plan *plan, FILE *to)
{
    fprintf(to, "messages     %" PRIu64 " to ", plan->min_bytes);
    if (plan->max_bytes == UINT64_MAX)
        fputs("any", to);
    else
        fprintf(to, "%" PRIu64, plan->max_bytes);
    fprintf(to, " bytes; chunks of multiples of %u bytes\n", plan->alignment);
}

static void plan_show_counts(const weir_plan *plan, FILE *to)
{
    uint64_t kinds[WEIRI_PLAN_KINDS] = {0}, all = 0;
    uint32_t least = UINT32_MAX, most = 0;
    const char *between = "";
    for (int rank = 0; rank < plan->nranks; rank++) {
        const weiri_plan_gpu *gpu = &plan->gpus[rank];
        least = gpu->nblocks < least ? gpu->nblocks : least;
        most = gpu->nblocks > most ? gpu->nblocks : most;
        all += gpu->nops;
        for (uint32_t i = 0; i < gpu->nops; i++)
            kinds[gpu->ops[i].kind]++;
    }
    fprintf(to, "blocks       %u", least);
    if (most > least)
        fprintf(to, " to %u", most);
    fprintf(to, " thread block%s per rank, of %u threads\n", most > 1 ? "s" : "", plan->nthreads);
    fprintf(to, "operations   %" PRIu64 ": ", all);
    for (int kind = 0; kind < WEIRI_PLAN_KINDS; kind++)
        if (kinds[kind]) {
            fprintf(to, "%s%" PRIu64 " %s", between, kinds[kind],
                    weiri_plan_kind_name((weiri_plan_kind)kind));
            between = ", ";
        }
    fputc('\n', to);
}

static void plan_show_summary(const weir_plan *plan, FILE *to)
{
    char name[WEIRI_SHOWN_BYTES], collective[WEIRI_SHOWN_BYTES];
    fprintf(to, "plan         %s\n", weiri_text_shown(plan->name, name, sizeof name));
    fprintf(to, "collective   %s of %d ranks, %s\n",
            weiri_text_shown(plan->collective_name, collective, sizeof collective), plan->nranks,
            plan->in_place ? "in place" : "out of place");
    fprintf(to, "protocol     %s%s%s\n", plan->uses_ll ? "LL" : "Simple",
            plan->has_packets ? ", packets" : "",
            plan->double_scratch ? ", two halves of scratch used alternately" : "");
    plan_show_range(plan, to);
    plan_show_counts(plan, to);
}

/* ---------------------------------------------------------------------- traffic */

typedef struct route {
    int from, to;
    uint64_t bytes;
} route;

static int plan_show_compare_routes(const void *a, const void *b)
{
    const route *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->from != y->from ? x->from - y->from : x->to - y->to;
}

/* Prints a line for all pairs of ranks with the same bytes; `within` selects pairs of a rank with
 * itself, or the others. */
static void plan_show_routes(const route *routes, int count, int within, FILE *to)
{
    enum { NAMED = 6 };
    for (int i = 0; i < count;) {
        int named = 0, equal = 0, next = i;
        for (; next < count && routes[next].bytes == routes[i].bytes; next++)
            equal += (routes[next].from == routes[next].to) == within;
        for (int k = i; k < next && equal && named < NAMED; k++) {
            if ((routes[k].from == routes[k].to) != within)
                continue;
            if (named == 0)
                fprintf(to, "%15" PRIu64 " bytes  %s", routes[i].bytes, within ? "within " : "");
            fprintf(to, within ? "%s%d" : "%s%d>%d", named ? " " : "", routes[k].from,
                    routes[k].to);
            named++;
        }
        if (equal > named)
            fprintf(to, " ... (%d such)", equal);
        if (equal)
            fputc('\n', to);
        i = next;
    }
}

static weir_status plan_show_traffic(const weir_plan *plan, uint64_t message_bytes,
                                     const weiri_plan_layout *layout, FILE *to)
{
    size_t n = (size_t)plan->nranks;
    weir_status status = WEIR_OK;
    uint64_t *bytes = calloc(n * n, sizeof *bytes);
    route *routes = malloc(n * n * sizeof *routes);
    int count = 0;
    if (bytes && routes) {
        weiri_plan_add_traffic(plan, layout, bytes);
        for (size_t i = 0; i < n * n; i++)
            if (bytes[i])
                routes[count++] = (route){(int)(i / n), (int)(i % n), bytes[i]};
        qsort(routes, (size_t)count, sizeof *routes, plan_show_compare_routes);
        fprintf(to,
                "moves        for a message of %" PRIu64 " bytes, from rank > to rank (chunks of "
                "%" PRIu64 " bytes%s)\n",
                message_bytes, layout->chunk_bytes,
                plan->has_packets ? "; a packet takes twice its data" : "");
        plan_show_routes(routes, count, 0, to);
        plan_show_routes(routes, count, 1, to);
    } else {
        status = plan_show_no_memory(plan);
    }
    free(routes);
    free(bytes);
    return status;
}

/* ------------------------------------------------------------------------ ranks */

/* A rank or thread block and its text; those with equal text are printed once. */
typedef struct entry {
    char *text;
    uint32_t id;
    int part; /* its part in groups of thread blocks; -1: none, or several */
    int shown;
} entry;

/* The part that all group operations of a block have; -1 if there is none, or several. */
static int plan_show_part_of(const weiri_plan_gpu *gpu, const weiri_plan_block *block)
{
    int part = -1;
    for (uint32_t i = 0; i < block->nops; i++) {
        const weiri_plan_op *op = &gpu->ops[block->first_op + i];
        if (op->nparts > 1 && part >= 0 && op->part != (uint32_t)part)
            return -1;
        part = op->nparts > 1 ? (int)op->part : part;
    }
    return part;
}

static char *plan_show_block_text(const weir_plan *plan, int rank, const weiri_plan_block *block,
                                  int part)
{
    const weiri_plan_gpu *gpu = &plan->gpus[rank];
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return NULL;
    for (uint32_t i = 0; i < block->nops; i++) {
        const weiri_plan_op *op = &gpu->ops[block->first_op + i];
        fprintf(to, "    %4u %s", i, op->in_body ? "  " : "");
        weiri_plan_show_op(plan, rank, op, part, to);
        fputc('\n', to);
    }
    if (fclose(to) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static void plan_show_free_entries(entry *entries, uint32_t count)
{
    for (uint32_t i = 0; entries && i < count; i++)
        free(entries[i].text);
    free(entries);
}

/* Prints the heading "what 0..3 7:" of all entries with the same text as entry `first`, and marks
 * them as shown. Returns 0 without memory. */
static int plan_show_same_entries(entry *entries, uint32_t count, uint32_t first, const char *what,
                                  FILE *to)
{
    uint32_t *ids = malloc(count * sizeof *ids), equal = 0;
    if (!ids)
        return 0;
    for (uint32_t i = first; i < count; i++)
        if (strcmp(entries[i].text, entries[first].text) == 0) {
            entries[i].shown = 1;
            ids[equal++] = entries[i].id;
        }
    fprintf(to, "%s%s ", what, equal > 1 ? "s" : "");
    weiri_plan_show_ids(ids, equal, to);
    free(ids);
    for (uint32_t i = first, said = 0; i < count; i++)
        if (entries[i].part >= 0 && strcmp(entries[i].text, entries[first].text) == 0)
            fprintf(to, said++ ? " %d" : ", parts %d", entries[i].part);
    fputs(":\n", to);
    return 1;
}

static int plan_show_blocks(const weir_plan *plan, int rank, FILE *to)
{
    const weiri_plan_gpu *gpu = &plan->gpus[rank];
    entry *blocks = calloc(gpu->nblocks ? gpu->nblocks : 1, sizeof *blocks);
    int made = blocks != NULL;
    for (uint32_t i = 0; i < gpu->nblocks && made; i++) {
        blocks[i].id = gpu->blocks[i].id;
        blocks[i].part = plan_show_part_of(gpu, &gpu->blocks[i]);
        blocks[i].text = plan_show_block_text(plan, rank, &gpu->blocks[i], blocks[i].part);
        made = blocks[i].text != NULL;
    }
    for (uint32_t i = 0; i < gpu->nblocks && made; i++)
        if (!blocks[i].shown) {
            made = plan_show_same_entries(blocks, gpu->nblocks, i, "  thread block", to);
            fputs(blocks[i].text, to);
        }
    plan_show_free_entries(blocks, gpu->nblocks);
    return made;
}

static void plan_show_links(const weiri_plan_gpu *gpu, int type, FILE *to)
{
    uint32_t ends[WEIRI_PLAN_RANKS_MAX] = {0};
    for (uint32_t i = 0; i < gpu->nlinks[type]; i++)
        ends[gpu->links[type][i].peer]++;
    if (gpu->nlinks[type])
        fprintf(to, "  %s channels to", weiri_plan_channel_name((weiri_plan_channel)type));
    for (int peer = 0; peer < WEIRI_PLAN_RANKS_MAX; peer++)
        if (ends[peer])
            fprintf(to, ends[peer] > 1 ? " %d(x%u)" : " %d", peer, ends[peer]);
    if (gpu->nlinks[type])
        fputc('\n', to);
}

static void plan_show_resources(const weiri_plan_gpu *gpu, FILE *to)
{
    fprintf(to, "  chunks: i %u, o %u, s %u\n", gpu->chunks[WEIR_PLAN_INPUT],
            gpu->chunks[WEIR_PLAN_OUTPUT], gpu->chunks[WEIR_PLAN_SCRATCH]);
    plan_show_links(gpu, WEIRI_PLAN_MEMORY, to);
    plan_show_links(gpu, WEIRI_PLAN_PORT, to);
    for (uint32_t i = 0; i < gpu->nswitches; i++) {
        fprintf(to, "  switch channel %u: %c of ranks ", i,
                weiri_plan_buffer_letters[gpu->switches[i].buffer]);
        weiri_plan_show_ids(gpu->ids + gpu->switches[i].first_rank, gpu->switches[i].nranks, to);
        fputc('\n', to);
    }
    for (uint32_t i = 0; i < gpu->nsemaphores; i++)
        fprintf(to, "%s %u", i ? "" : "  initial values of semaphores:", gpu->semaphores[i]);
    if (gpu->nsemaphores)
        fputc('\n', to);
}

static char *plan_show_rank_text(const weir_plan *plan, int rank)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return NULL;
    plan_show_resources(&plan->gpus[rank], to);
    int made = plan_show_blocks(plan, rank, to);
    if (fclose(to) != 0 || !made) {
        free(text);
        return NULL;
    }
    return text;
}

static weir_status plan_show_ranks(const weir_plan *plan, int only, FILE *to)
{
    uint32_t first = only < 0 ? 0 : (uint32_t)only;
    uint32_t count = only < 0 ? (uint32_t)plan->nranks : 1;
    entry *ranks = calloc(count, sizeof *ranks);
    int made = ranks != NULL;
    for (uint32_t i = 0; i < count && made; i++) {
        ranks[i] = (entry){
            .id = first + i, .part = -1, .text = plan_show_rank_text(plan, (int)(first + i))};
        made = ranks[i].text != NULL;
    }
    for (uint32_t i = 0; i < count && made; i++)
        if (!ranks[i].shown) {
            fputc('\n', to);
            made = plan_show_same_entries(ranks, count, i, "rank", to);
            fputs(ranks[i].text, to);
        }
    plan_show_free_entries(ranks, count);
    return made ? WEIR_OK : plan_show_no_memory(plan);
}

weir_status weiri_plan_show(const weir_plan *plan, const weiri_plan_show_options *options, FILE *to)
{
    if (options->rank >= plan->nranks)
        return weiri_fail(WEIR_ERR_INVALID, "%s: no rank %d; it has ranks 0 to %d", plan->file,
                          options->rank, plan->nranks - 1);
    uint64_t bytes =
        options->message_bytes ? options->message_bytes : weiri_plan_default_bytes(plan);
    weiri_plan_layout layout;
    weir_status status = weiri_plan_lay_out_message(plan, bytes, &layout);
    if (status != WEIR_OK)
        return status;
    plan_show_summary(plan, to);
    status = plan_show_traffic(plan, bytes, &layout, to);
    if (status == WEIR_OK && !options->summary)
        status = plan_show_ranks(plan, options->rank, to);
    return status;
}
