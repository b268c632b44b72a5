/*
 * allreduce_fork: an allreduce between four forked processes, without MPI or a launcher, and a
 * split into two communicators.
 *
 *     cc allreduce_fork.c -o allreduce_fork $(pkg-config --cflags --libs weir)
 *     ./allreduce_fork
 *
 * Memory from weir_mem_alloc is mapped by the peers, so that the collective reads it in place;
 * other buffers work as well, but their data are copied once more.
 */
#include <weir/weir.h>

#include <stdio.h>

enum { NRANKS = 4, COUNT = 1 << 20, LIFETIME_MS = 60000 }; /* then the ranks are killed; 0: never */

/* Fills the buffer, reduces it in place, and checks every element. */
static weir_status sum_ranks(weir_comm *comm, weir_mem *mem)
{
    float *data = weir_mem_pointer(mem);
    const int rank = weir_comm_rank(comm), nranks = weir_comm_nranks(comm);
    for (size_t i = 0; i < COUNT; i++)
        data[i] = (float)rank + (float)(i % 5);
    weir_status status = weir_allreduce(comm, data, data, COUNT, WEIR_FLOAT, WEIR_SUM, NULL);
    if (status != WEIR_OK)
        return status;
    for (size_t i = 0; i < COUNT; i++)
        if (data[i] != (float)(nranks * (nranks - 1) / 2) + (float)nranks * (float)(i % 5)) {
            fprintf(stderr, "rank %d: element %zu is %g\n", rank, i, data[i]);
            return WEIR_ERR_INTERNAL;
        }
    printf("rank %d: sum of %d ranks by \"%s\"\n", rank, nranks, weir_comm_last_algo(comm));
    return WEIR_OK;
}

/* Allocates memory of a communicator and runs the allreduce. */
static weir_status use(weir_comm *comm)
{
    weir_mem *mem = NULL;
    weir_status status = weir_mem_alloc(comm, COUNT * sizeof(float), &mem);
    if (status == WEIR_OK)
        status = sum_ranks(comm, mem);
    weir_mem_free(mem);
    return status;
}

/* The program of one rank. */
static int rank_main(weir_boot *boot, void *argument)
{
    (void)argument;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST;
    weir_comm *comm = NULL, *half = NULL;
    weir_status status = weir_comm_create(boot, &config, &comm);
    if (status == WEIR_OK)
        status = use(comm);
    if (status == WEIR_OK)
        status = weir_comm_split(comm, weir_comm_rank(comm) % 2, 0, &config, &half);
    if (status == WEIR_OK)
        status = use(half);
    if (status != WEIR_OK) {
        fprintf(stderr, "%s\n", weir_last_error());
        weir_comm_abort(comm); /* so that the other ranks end, too */
    }
    const weir_status ended[] = {weir_comm_destroy(half), weir_comm_destroy(comm)};
    for (int i = 0; i < 2 && status == WEIR_OK; i++)
        status = ended[i];
    return weir_status_exit_code(status);
}

int main(void)
{
    int codes[NRANKS], worst = 0;
    weir_status status = weir_boot_fork_run(NRANKS, rank_main, NULL, LIFETIME_MS, codes);
    if (status != WEIR_OK) {
        fprintf(stderr, "%s\n", weir_last_error());
        return weir_status_exit_code(status);
    }
    for (int rank = 0; rank < NRANKS; rank++)
        worst = codes[rank] > worst ? codes[rank] : worst;
    return worst;
}
