/*
 * What port channels of plans need on any backend: a proxy and connections, which are the
 * executor's, and semaphores, which are a context's.
 */
#ifndef WEIR_PLAN_EXECUTE_PORTS_H
#define WEIR_PLAN_EXECUTE_PORTS_H

#include "plan/execute/executor.h"

typedef struct weiri_plan_ports {
    weir_proxy *proxy;                      /* NULL before the first context with ports */
    weir_conn *conns[WEIRI_PLAN_RANKS_MAX]; /* NULL where no plan had ports to that rank */
} weiri_plan_ports;

/* Whether a context's plan has port channels to a peer. */
int weiri_plan_has_port(const weiri_plan_context *context, int peer);
/* Starts the proxy, connects to the peers that a context has ports to, where that has not
 * happened yet, and makes a semaphore for each of its port channels (sems, by channel; the
 * caller's). Collective, blocking; the outcome is not agreed. */
weir_status weiri_plan_ports_connect(weir_executor *executor, const weiri_plan_context *context,
                                     weiri_plan_ports *ports, weir_sem **sems);
/* Channels and semaphores are gone. */
void weiri_plan_ports_close(const weir_executor *executor, weiri_plan_ports *ports);

#endif
