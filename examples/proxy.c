/*
 * proxy: two forked ranks exchange data over port channels. A thread, the proxy, moves the data
 * while the rank computes. Port channels also work between nodes, over InfiniBand or TCP.
 *
 *     cc proxy.c -o proxy $(pkg-config --cflags --libs weir)
 *     ./proxy
 *
 * Each rank has one registered buffer of two halves: it writes the first half, the peer the second.
 * In every round it requests a put with a signal, waits for the peer's signal, and reads. The flush
 * says that its own put is complete, so that it may write its first half again; a second signal,
 * without data, says that it has read the second half.
 */
#include <weir/port_device.h>
#include <weir/weir.h>

#include <stdio.h>
#include <stdlib.h>

enum { NRANKS = 2, ROUNDS = 200, WORDS = 1024, BYTES = WORDS * sizeof(int) };
enum { LIFETIME_MS = 60000 }; /* then the ranks are killed; 0: never */

/* Ends this rank if a call failed. The waits of the other rank notice that it has ended. */
static void need(int status)
{
    if (status != WEIR_OK) {
        fprintf(stderr, "proxy: %s: %s\n", weir_status_name(status), weir_last_error());
        exit(weir_status_exit_code(status));
    }
}

static void exchange(weir_portchan_dev *chan, int *buffer, int rank, int round)
{
    for (int i = 0; i < WORDS; i++)
        buffer[i] = round * NRANKS + rank + i;
    need(weir_port_put_with_signal(chan, BYTES, 0, BYTES)); /* returns at once */
    need(weir_port_wait(chan));                             /* the peer's data has arrived */
    for (int i = 0; i < WORDS; i++)
        if (buffer[WORDS + i] != round * NRANKS + (1 - rank) + i)
            need(WEIR_ERR_INTERNAL);
    need(weir_port_flush(chan));  /* this rank's data has arrived at the peer */
    need(weir_port_signal(chan)); /* this rank has read the peer's data */
    need(weir_port_wait(chan));   /* the peer has, too */
}

/* The program of one rank. */
static int rank_main(weir_boot *boot, void *argument)
{
    (void)argument;
    const int rank = weir_boot_rank(boot), peer = 1 - rank;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    weir_comm *comm = NULL;
    weir_mem *mem = NULL, *mems[NRANKS];
    weir_conn *conn = NULL;
    weir_sem *sem = NULL;
    weir_proxy *proxy = NULL;
    weir_portchan *chan = NULL;
    need(weir_comm_create(boot, &config, &comm));
    need(weir_mem_alloc(comm, 2 * BYTES, &mem));
    need(weir_connect(comm, peer, 0, WEIR_TRANSPORT_AUTO, &conn)); /* before memory is exported */
    need(weir_mem_exchange(comm, mem, mems));
    need(weir_sem_create(conn, &sem));
    need(weir_proxy_create(comm, NULL, &proxy));
    need(weir_portchan_create(proxy, sem, mems[peer], mem, &chan));
    need(weir_proxy_start(proxy));
    for (int round = 0; round < ROUNDS; round++)
        exchange(weir_portchan_device(chan), weir_mem_pointer(mem), rank, round);
    need(weir_proxy_stop(proxy));
    need(weir_comm_barrier(comm)); /* the peer uses neither memory nor semaphore any more */
    printf("rank %d: %d rounds of %zu bytes over %s\n", rank, ROUNDS, (size_t)BYTES,
           weir_transport_name(weir_conn_transport(conn)));
    weir_portchan_free(chan);
    weir_proxy_free(proxy);
    weir_sem_free(sem);
    weir_conn_free(conn);
    weir_mem_free(mems[peer]);
    weir_mem_free(mem);
    need(weir_comm_destroy(comm));
    return 0;
}

int main(void)
{
    int codes[NRANKS];
    need(weir_boot_fork_run(NRANKS, rank_main, NULL, LIFETIME_MS, codes));
    return codes[0] > codes[1] ? codes[0] : codes[1];
}
