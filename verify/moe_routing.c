/*
 * Routings of the oracle of expert parallelism. A token's experts differ; its weights are multiples
 * of 1/256. Every rank computes the routings of all ranks.
 */
#include "verify/hash.h"
#include "verify/moe_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A recorded trace: topk experts of each token. */
typedef struct moe_trace {
    int32_t *experts;
    int tokens;
} moe_trace;

typedef struct moe_random {
    uint64_t state;
} moe_random;

static uint32_t random_below(moe_random *r, uint32_t n)
{
    r->state += 0x9e3779b97f4a7c15ull;
    return weirv_hash_below((uint32_t)(weirv_mix64(r->state) >> 32), n);
}

static double random_unit(moe_random *r)
{
    return random_below(r, 1u << 24) / (double)(1u << 24);
}

static int was_chosen(const int32_t *experts, int choices, int expert)
{
    for (int i = 0; i < choices; i++)
        if (experts[i] == expert)
            return 1;
    return 0;
}

/* Draws an expert in proportion to the cumulative weights. */
static int draw_expert(moe_random *r, const double *cumulative, int experts)
{
    const double at = random_unit(r) * cumulative[experts - 1];
    int low = 0, high = experts - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (cumulative[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void route_token(const weirv_moe *o, moe_random *r, const double *cumulative,
                        int32_t *experts)
{
    const weir_moe_config *c = &o->shape.config;
    const int most = c->topk < c->experts ? c->topk : c->experts;
    for (int choice = 0; choice < c->topk; choice++) {
        int expert = -1, tries = 0;
        if (choice < most) {
            expert = o->shape.spread == WEIRV_MOE_HOT && !choice
                         ? 0
                         : draw_expert(r, cumulative, c->experts);
            while (was_chosen(experts, choice, expert))
                expert = tries++ < 8 ? draw_expert(r, cumulative, c->experts)
                                     : (expert + 1) % c->experts;
        }
        experts[choice] = expert;
    }
    for (int choice = 0; o->shape.spread == WEIRV_MOE_MASKED && choice < c->topk; choice++)
        if (random_unit(r) < o->shape.parameter)
            experts[choice] = -1;
}

static int tokens_of(const weirv_moe *o, int version, int rank)
{
    const int most = o->shape.config.max_tokens;
    if (o->shape.spread == WEIRV_MOE_EMPTY && rank % 2)
        return 0;
    if (o->shape.spread != WEIRV_MOE_RAGGED)
        return most;
    moe_random r = {o->shape.seed * 977 + (uint64_t)(version * 131 + rank)};
    return (version + rank) % 4 == 1 ? 0 : (int)random_below(&r, (uint32_t)most + 1);
}

static void route_rank(weirv_moe *o, int version, int rank, const double *cumulative,
                       const moe_trace *trace)
{
    const weir_moe_config *c = &o->shape.config;
    moe_version *v = &o->versions[version];
    moe_random r = {weirv_mix64(o->shape.seed + 1) + (uint64_t)version * 1000003 +
                    (uint64_t)rank * 7919};
    v->tokens[rank] = tokens_of(o, version, rank);
    for (int token = 0; token < v->tokens[rank]; token++) {
        const size_t at = ((size_t)rank * (size_t)c->max_tokens + (size_t)token) * (size_t)c->topk;
        const size_t line =
            ((size_t)(version * o->shape.nranks + rank) * (size_t)c->max_tokens + (size_t)token);
        if (trace->tokens)
            memcpy(v->experts + at, trace->experts + line % (size_t)trace->tokens * (size_t)c->topk,
                   (size_t)c->topk * sizeof *v->experts);
        else
            route_token(o, &r, cumulative, v->experts + at);
        for (int choice = 0; choice < c->topk; choice++)
            v->weights[at + (size_t)choice] = (float)(1 + random_below(&r, 255)) / 256;
    }
}

/* Reads the numbers of one line. Returns 0, or -1 if they are not topk experts. */
static int trace_line(const weir_moe_config *c, char *line, int32_t *experts)
{
    char *at = line;
    for (int i = 0; i < c->topk; i++) {
        char *end;
        const long expert = strtol(at, &end, 10);
        if (end == at || expert < -1 || expert >= c->experts)
            return -1;
        experts[i] = (int32_t)expert;
        at = end + strspn(end, " \t,;");
    }
    return *at && *at != '\n' && *at != '\r' ? -1 : 0;
}

static int trace_read(const weirv_moe *o, moe_trace *trace, char *problem)
{
    const weir_moe_config *c = &o->shape.config;
    char line[512];
    int number = 0;
    FILE *file = fopen(o->shape.trace, "re");
    if (!file) {
        snprintf(problem, WEIRV_MOE_MESSAGE, "routing trace %s: cannot be opened", o->shape.trace);
        return -1;
    }
    while (fgets(line, sizeof line, file)) {
        number++;
        if (line[0] == '#' || line[0] == '\n')
            continue;
        int32_t *more =
            realloc(trace->experts, (size_t)(trace->tokens + 1) * (size_t)c->topk * sizeof *more);
        if (more)
            trace->experts = more;
        if (!more || trace_line(c, line, more + (size_t)trace->tokens * (size_t)c->topk)) {
            snprintf(problem, WEIRV_MOE_MESSAGE,
                     "routing trace %s, line %d: give %d numbers from -1 (none) to %d",
                     o->shape.trace, number, c->topk, c->experts - 1);
            fclose(file);
            return -1;
        }
        trace->tokens++;
    }
    fclose(file);
    if (!trace->tokens)
        snprintf(problem, WEIRV_MOE_MESSAGE, "routing trace %s: has no tokens", o->shape.trace);
    return trace->tokens ? 0 : -1;
}

int moe_route(weirv_moe *o, char *problem)
{
    const int experts = o->shape.config.experts;
    const double power = o->shape.spread == WEIRV_MOE_ZIPF ? o->shape.parameter : 0;
    moe_trace trace = {NULL, 0};
    double *cumulative = malloc((size_t)experts * sizeof *cumulative), total = 0;
    int failed = !cumulative;
    if (failed)
        snprintf(problem, WEIRV_MOE_MESSAGE, "no memory for the routing of %d experts", experts);
    for (int e = 0; cumulative && e < experts; e++)
        cumulative[e] = total += pow(e + 1, -power);
    if (!failed && o->shape.spread == WEIRV_MOE_TRACE)
        failed = trace_read(o, &trace, problem);
    for (size_t i = 0; i < (size_t)trace.tokens * (size_t)o->shape.config.topk; i++)
        o->trace_hash = weirv_mix64(o->trace_hash + (uint32_t)trace.experts[i] + 1);
    for (int version = 0; !failed && version < WEIRV_MOE_VERSIONS; version++)
        for (int rank = 0; rank < o->shape.nranks; rank++)
            route_rank(o, version, rank, cumulative, &trace);
    free(trace.experts);
    free(cumulative);
    return failed ? -1 : 0;
}
