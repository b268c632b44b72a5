/*
 * channels: two forked ranks exchange data over a memory channel, with one-sided puts and signals.
 *
 *     cc channels.c -o channels $(pkg-config --cflags --libs weir)
 *     ./channels
 *
 * Each rank has one registered buffer of two halves. In every round it writes into its own first
 * half, puts that into the second half of the peer's buffer, signals, waits for the peer's signal,
 * and reads its own second half. A second signal says that the data has been read, so that the peer
 * may overwrite it.
 */
#include <weir/device.h>
#include <weir/weir.h>

#include <stdio.h>

enum { NRANKS = 2, ROUNDS = 1000, WORDS = 256, BYTES = WORDS * sizeof(int) };
enum { LIFETIME_MS = 60000 }; /* then the ranks are killed; 0: never */

/* One round; returns a weir_status. */
static int exchange(weir_memchan_dev *chan, int *buffer, int rank, int round)
{
    for (int i = 0; i < WORDS; i++)
        buffer[i] = round * NRANKS + rank + i;
    weir_put(chan, BYTES, 0, BYTES, 0, 1);
    weir_signal(chan);
    int status = weir_wait(chan); /* the peer's data has arrived */
    for (int i = 0; i < WORDS && !status; i++)
        if (buffer[WORDS + i] != round * NRANKS + (1 - rank) + i)
            status = WEIR_ERR_INTERNAL;
    if (status)
        return status;
    weir_signal(chan);
    return weir_wait(chan); /* the peer has read this rank's data */
}

/* Connects to the peer, runs all rounds, and releases everything in reverse order. */
static weir_status run_rounds(weir_comm *comm, weir_mem *mem)
{
    const int rank = weir_comm_rank(comm), peer = 1 - rank;
    weir_mem *mems[NRANKS] = {NULL};
    weir_conn *conn = NULL;
    weir_sem *sem = NULL;
    weir_memchan *chan = NULL;
    weir_status status = weir_mem_exchange(comm, mem, mems);
    if (status == WEIR_OK)
        status = weir_connect(comm, peer, 0, WEIR_TRANSPORT_AUTO, &conn);
    if (status == WEIR_OK)
        status = weir_sem_create(conn, &sem);
    if (status == WEIR_OK)
        status = weir_memchan_create(sem, mems[peer], mem, NULL, &chan);
    for (int round = 0; round < ROUNDS && status == WEIR_OK; round++)
        status =
            (weir_status)exchange(weir_memchan_device(chan), weir_mem_pointer(mem), rank, round);
    if (status == WEIR_OK)
        status = weir_comm_barrier(comm); /* the peer uses neither memory nor semaphore any more */
    weir_memchan_free(chan);
    weir_sem_free(sem);
    weir_conn_free(conn);
    weir_mem_free(mems[peer]);
    return status;
}

/* The program of one rank. */
static int rank_main(weir_boot *boot, void *argument)
{
    (void)argument;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    weir_comm *comm = NULL;
    weir_mem *mem = NULL;
    weir_status status = weir_comm_create(boot, &config, &comm);
    if (status == WEIR_OK)
        status = weir_mem_alloc(comm, 2 * BYTES, &mem);
    if (status == WEIR_OK)
        status = run_rounds(comm, mem);
    if (status == WEIR_OK)
        printf("rank %d: %d rounds of %zu bytes\n", weir_comm_rank(comm), ROUNDS, (size_t)BYTES);
    else
        weir_comm_abort(comm); /* so that the peer ends, too */
    weir_mem_free(mem);
    if (status == WEIR_OK)
        status = weir_comm_destroy(comm);
    if (status != WEIR_OK)
        fprintf(stderr, "%s: %s\n", weir_status_name(status), weir_last_error());
    return weir_status_exit_code(status);
}

int main(void)
{
    int codes[NRANKS];
    weir_status status = weir_boot_fork_run(NRANKS, rank_main, NULL, LIFETIME_MS, codes);
    if (status != WEIR_OK)
        fprintf(stderr, "%s\n", weir_last_error());
    return status != WEIR_OK     ? weir_status_exit_code(status)
           : codes[0] > codes[1] ? codes[0]
                                 : codes[1];
}
