/* The event queue of a simulation, a binary heap, and the set of packets that have arrived. */
#include "plan/cost/simulation.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

void weiri_simulation_no_memory(weiri_simulation *sim)
{
    if (sim->status == WEIR_OK)
        sim->status =
            weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory for the simulation", sim->plan->file);
}

static int plan_cost_event_is_before(const weiri_event *a, const weiri_event *b)
{
    return a->us != b->us ? a->us < b->us : a->order < b->order;
}

static void plan_cost_swap_events(weiri_event *a, weiri_event *b)
{
    weiri_event kept = *a;
    *a = *b;
    *b = kept;
}

void weiri_event_push(weiri_simulation *sim, weiri_event event, double delay_us)
{
    if (sim->nevents == sim->room) {
        uint32_t room = sim->room ? 2 * sim->room : 256;
        weiri_event *events = realloc(sim->events, room * sizeof *events);
        if (!events) {
            weiri_simulation_no_memory(sim);
            return;
        }
        sim->events = events;
        sim->room = room;
    }
    event.us = sim->now_us + delay_us;
    event.order = sim->order++;
    uint32_t at = sim->nevents++;
    sim->events[at] = event;
    for (; at && plan_cost_event_is_before(&sim->events[at], &sim->events[(at - 1) / 2]);
         at = (at - 1) / 2)
        plan_cost_swap_events(&sim->events[at], &sim->events[(at - 1) / 2]);
}

weiri_event weiri_event_pop(weiri_simulation *sim)
{
    weiri_event first = sim->events[0];
    sim->events[0] = sim->events[--sim->nevents];
    for (uint32_t at = 0, next; (next = 2 * at + 1) < sim->nevents; at = next) {
        if (next + 1 < sim->nevents &&
            plan_cost_event_is_before(&sim->events[next + 1], &sim->events[next]))
            next++;
        if (!plan_cost_event_is_before(&sim->events[next], &sim->events[at]))
            break;
        plan_cost_swap_events(&sim->events[next], &sim->events[at]);
    }
    return first;
}

void weiri_packets_add(weiri_simulation *sim, weiri_rank_state *rank, weiri_span span)
{
    uint32_t first = 0, end;
    while (first < rank->npackets && rank->packets[first].end < span.first)
        first++;
    for (end = first; end < rank->npackets && rank->packets[end].first <= span.end; end++) {
        const weiri_span *old = &rank->packets[end];
        span.first = old->first < span.first ? old->first : span.first;
        span.end = old->end > span.end ? old->end : span.end;
    }
    if (end == first && !weiri_plan_append(&rank->packets, &rank->npackets, sizeof span)) {
        weiri_simulation_no_memory(sim);
        return;
    }
    uint32_t nafter = end == first ? rank->npackets - 1 - first : rank->npackets - end;
    memmove(&rank->packets[first + 1], &rank->packets[end], nafter * sizeof span);
    rank->npackets = first + 1 + nafter;
    rank->packets[first] = span;
}

int weiri_packets_have_arrived(const weiri_rank_state *rank, weiri_span span)
{
    for (uint32_t i = 0; i < rank->npackets; i++)
        if (rank->packets[i].first <= span.first && span.end <= rank->packets[i].end)
            return 1;
    return span.first >= span.end;
}
