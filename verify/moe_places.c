/*
 * Where dispatch puts rows, by the definition of layouts in weir/moe.h: the oracle's own
 * enumeration of all choices of all ranks.
 */
#include "verify/moe_data.h"

#include <stdlib.h>
#include <string.h>

static int places_make_room(moe_places *p, int count)
{
    if (count == 0 || count <= p->room)
        return 1;
    moe_place *more = realloc(p->of, (size_t)count * sizeof *more);
    if (!more)
        return 0;
    p->of = more;
    p->room = count;
    return 1;
}

/* The local expert of a choice on a rank; -1: it is elsewhere, or none. */
static int local_expert(const weirv_moe *o, int rank, int expert)
{
    return expert >= 0 && expert / o->local_experts == rank ? expert % o->local_experts : -1;
}

static void places_count(const weirv_moe *o, int version, moe_places *p)
{
    const int k = o->shape.config.topk;
    memset(p->counts, 0, (size_t)o->local_experts * sizeof *p->counts);
    memset(p->sources, 0, (size_t)o->shape.nranks * sizeof *p->sources);
    p->count = 0;
    for (int source = 0; source < o->shape.nranks; source++)
        for (int token = 0; token < o->versions[version].tokens[source]; token++) {
            const int32_t *experts = moe_token_experts(o, version, source, token);
            int here = 0;
            for (int choice = 0; choice < k; choice++) {
                const int local = local_expert(o, p->rank, experts[choice]);
                if (local >= 0) {
                    p->counts[local]++;
                    here++;
                }
            }
            const int rows = o->shape.config.layout == WEIR_MOE_EXPERT_MAJOR ? here : here > 0;
            p->sources[source] += rows;
            p->count += rows;
        }
}

static void places_expert_major(weirv_moe *o, int version, moe_places *p)
{
    const weir_moe_config *c = &o->shape.config;
    int32_t *index = o->next;
    int first = 0, begun = 0;
    for (int local = 0; local < o->local_experts; local++) {
        p->offsets[local] = c->expert_capacity ? local * c->expert_capacity : first;
        index[local] = begun;
        begun += p->counts[local];
        first += (p->counts[local] + c->alignment - 1) / c->alignment * c->alignment;
        p->end_row = c->expert_capacity ? o->local_experts * c->expert_capacity : first;
    }
    for (int source = 0; source < o->shape.nranks; source++)
        for (int token = 0; token < o->versions[version].tokens[source]; token++) {
            const int32_t *experts = moe_token_experts(o, version, source, token);
            for (int choice = 0; choice < c->topk; choice++) {
                const int local = local_expert(o, p->rank, experts[choice]);
                if (local >= 0)
                    p->of[index[local]++] = (moe_place){0, local, source, token, choice};
            }
        }
    for (int i = 0, local = -1, row = 0; i < p->count; i++) {
        row = p->of[i].bin == local ? row + 1 : p->offsets[p->of[i].bin];
        local = p->of[i].bin;
        p->of[i].row = row;
    }
}

static void places_by_token(const weirv_moe *o, int version, moe_places *p)
{
    const weir_moe_config *c = &o->shape.config;
    const int is_flat = c->layout == WEIR_MOE_FLAT;
    int count = 0;
    for (int source = 0; source < o->shape.nranks; source++) {
        int row = is_flat ? count : source * c->max_tokens;
        for (int token = 0; token < o->versions[version].tokens[source]; token++) {
            const int32_t *experts = moe_token_experts(o, version, source, token);
            int choice = 0;
            while (choice < c->topk && local_expert(o, p->rank, experts[choice]) < 0)
                choice++;
            if (choice < c->topk)
                p->of[count++] = (moe_place){row++, 0, source, token, choice};
        }
    }
    p->end_row = is_flat ? count : o->shape.nranks * c->max_tokens;
}

const moe_places *moe_places_of(weirv_moe *o, int version, int rank)
{
    moe_places *p = &o->versions[version].places;
    if (p->rank == rank)
        return p;
    p->rank = rank;
    places_count(o, version, p);
    if (!places_make_room(p, p->count)) {
        p->rank = -1;
        return NULL;
    }
    if (o->shape.config.layout == WEIR_MOE_EXPERT_MAJOR)
        places_expert_major(o, version, p);
    else
        places_by_token(o, version, p);
    return p;
}

int weirv_moe_received(weirv_moe *o, int version, int rank)
{
    const moe_places *p = moe_places_of(o, version, rank);
    return p ? p->count : 0;
}

int weirv_moe_end_row(weirv_moe *o, int version, int rank)
{
    const moe_places *p = moe_places_of(o, version, rank);
    return p ? p->end_row : 0;
}

int weirv_moe_row(weirv_moe *o, int version, int rank, int index, int *source, int *token,
                  int *choice)
{
    const moe_places *p = moe_places_of(o, version, rank);
    if (!p)
        return 0;
    *source = p->of[index].source;
    *token = p->of[index].token;
    *choice = p->of[index].choice;
    return p->of[index].row;
}

void weirv_moe_fill_outputs(weirv_moe *o, int version, int rank, void *rows)
{
    const moe_places *p = moe_places_of(o, version, rank);
    for (int i = 0; p && i < p->count; i++)
        moe_fill_row(o,
                     moe_row_number(o, (moe_origin){version, p->of[i].source, p->of[i].token,
                                                    p->of[i].choice}),
                     (char *)rows + (size_t)p->of[i].row * o->row_bytes);
}
