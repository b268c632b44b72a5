/*
 * What port channels of plans need on any backend: a proxy and connections, which the executor
 * owns, and semaphores, which a context owns.
 */
#ifndef WEIR_PLAN_EXECUTE_PORTS_H
#define WEIR_PLAN_EXECUTE_PORTS_H

#include "plan/execute/executor.h"

typedef struct weiri_plan_ports {
    weir_proxy *proxy;                      /* NULL before the first context with ports */
    weir_conn *conns[WEIRI_PLAN_RANKS_MAX]; /* NULL if no plan had ports to that rank */
} weiri_plan_ports;

/* Whether a context's plan has port channels to a peer. */
int weiri_plan_has_port(const weiri_plan_context *context, int peer);
/* Starts the proxy and connects to the peers that the context has ports to, as far as that has not
 * been done yet, and creates a semaphore for each port channel in sems, by channel; the caller owns
 * them. Collective, blocking; the status is not agreed. */
weir_status weiri_plan_ports_connect(weir_executor *executor, const weiri_plan_context *context,
                                     weiri_plan_ports *ports, weir_sem **sems);
/* Closes the proxy and the connections. The channels and semaphores must have been freed. */
void weiri_plan_ports_close(const weir_executor *executor, weiri_plan_ports *ports);

#endif
