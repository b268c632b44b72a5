/*
 * A fleet: one process on each node of a job. The first process coordinates. It divides nodes into
 * groups for a round; the members of a group exchange messages, all with all, and report how long
 * that took and whether the data were right. Groups of a round run side by side. In all-pairs mode
 * groups are pairs, in a search they are halves (search.h).
 *
 * On every node a process (the agent) takes commands and forks a child for each round, so that a
 * crash or a hang ends that child alone. A node that does not answer is left out of later rounds.
 */
#ifndef BENCH_HEALTH_FLEET_H
#define BENCH_HEALTH_FLEET_H

#include "bench/health/health.h"
#include "programs/terminal.h"

#include <weir/weir.h>

/* What a node says of itself. */
typedef struct fleet_facts {
    char host[64], version[160], hardware[HEALTH_TEXT_BYTES];
    int cores, gpus, nics;
    int busy; /* other processes use its processors */
} fleet_facts;

typedef enum fleet_outcome {
    FLEET_RIGHT,
    FLEET_WRONG,
    FLEET_FAILED, /* the exchange ended with an error */
    FLEET_SILENT  /* no answer before the deadline */
} fleet_outcome;

/* What a member of a group found. Indices of members and peers are positions in the group. */
typedef struct fleet_result {
    int outcome;    /* a fleet_outcome */
    int wrong_from; /* the peer whose data were wrong; -1: none */
    int wrong_bytes;
    double latency_us; /* of an exchange of few bytes, per peer; the fastest of several */
    double gbs;        /* received in an exchange of many bytes; the fastest of several */
    char text[HEALTH_TEXT_BYTES];
} fleet_result;

typedef struct fleet_command {
    int is_end; /* 1: no more rounds */
    int index, nmembers, timeout_ms;
    int flips; /* 1: an injected fault: this member sends a flipped bit */
    weir_unique_id id;
} fleet_command;

/* Takes part in an exchange, in this process. Local in the sense of the agent; collective over the
 * members. */
void fleet_measure(const fleet_command *command, fleet_result *result);
/* Starts an exchange in a child process. Returns the end of a pipe from which fleet_agent_finish
 * reads the result, or -1. */
int fleet_agent_start(const fleet_command *command, int *child);
/* Waits for the child until its deadline has passed, then kills it. */
void fleet_agent_finish(int from, int child, int timeout_ms, fleet_result *result);
/* Serves commands of the coordinator until the end. Blocking. Returns 0, or -1 if it was lost. */
int fleet_agent_serve(weir_boot *boot);
void fleet_facts_read(fleet_facts *facts);

typedef struct fleet_nodes fleet_nodes;

typedef struct fleet_options {
    int timeout_ms;
    int flips; /* the node that sends flipped bits; -1: none */
    weiri_progress *progress;
} fleet_options;

/* The nodes of a round's groups; a node is in one group at most. */
typedef struct fleet_group {
    int *nodes, count;
} fleet_group;

/* Becomes the coordinator: gathers facts and starts the agent of this node. Collective with
 * fleet_agent_serve on the others. */
weir_status fleet_open(weir_boot *boot, const fleet_options *options, fleet_nodes **opened);
/* Ends all agents. */
void fleet_close(fleet_nodes *fleet);
int fleet_count(const fleet_nodes *fleet);
const fleet_facts *fleet_node(const fleet_nodes *fleet, int node);
/* The least deviation that this fleet is taken to have (deviation.h). */
double fleet_least_deviation(const fleet_nodes *fleet);
/* 1 if a node has not answered. */
int fleet_is_silent(const fleet_nodes *fleet, int node);
/* The number of rounds so far. */
int fleet_rounds(const fleet_nodes *fleet);
/* Executes a round. results has an entry for each node of the fleet; entries of nodes outside all
 * groups are unchanged. Blocking. */
void fleet_round(fleet_nodes *fleet, const fleet_group *groups, int ngroups, fleet_result *results);

/* Adds the checks of a fleet to a report. */
void fleet_check_facts(health_report *report, const fleet_nodes *fleet);
void fleet_check_pairs(health_report *report, fleet_nodes *fleet);
void fleet_check_by_halves(health_report *report, fleet_nodes *fleet);
/* Adds what a group's results say apart from their times: wrong data, errors, silence. Returns 1 if
 * there was any of it. */
int fleet_check_group(health_report *report, const fleet_nodes *fleet, const fleet_group *group,
                      const fleet_result *results);

/* The bootstrap of the job's processes, from the launcher or an address (NULL: the launcher).
 * Collective, blocking. WEIR_ERR_TIMEOUT names processes that did not come. */
weir_status fleet_boot(const char *address, int rank, int nranks, int timeout_ms, weir_boot **boot);

#endif
