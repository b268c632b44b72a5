/*
 * What the simulation of collectives (sim.c) needs of SimGrid, in C: each rank is an actor, which
 * sends messages to other ranks' mailboxes. A message takes the time that SimGrid's model of the
 * platform gives it; it starts when it is sent and shares links with all others. A rank receives
 * messages in the order in which they were sent to it.
 */
#ifndef VERIFY_SIM_SIM_NET_H
#define VERIFY_SIM_SIM_NET_H

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a platform file. Every rank has the hosts of these two names, in printf's form: for
 * messages between nodes, and for those within a node. */
typedef struct sim_platform {
    const char *file;
    void (*host_of)(int rank, char name[32]);       /* the port to the network */
    void (*inner_host_of)(int rank, char name[32]); /* the port within the node */
} sim_platform;

/* Runs body as nranks actors, until all have returned. Once per process. */
void sim_run(const sim_platform *platform, int nranks, int ranks_per_node, void (*body)(int rank));

/* Of the actor that calls. */
int sim_self(void);
double sim_now_s(void);
void sim_sleep(double seconds);
/* Sends a message of so many bytes, without waiting. */
void sim_send(int to, void *message, double bytes);
/* Waits for the next message. */
void *sim_receive(void);
/* Sends so many bytes to a rank of the node, and waits until they are there. */
void sim_move_in_node(int to, double bytes);
/* Waits for the ranks of the node, or for all ranks. */
void sim_node_barrier(void);
void sim_barrier(void);

#ifdef __cplusplus
}
#endif

#endif
