/*
 * unique_id: ranks without MPI and without a launcher. Rank 0 creates a unique id and passes it to
 * the other ranks in a file; any other way of copying its bytes will do.
 *
 *     cc unique_id.c -o unique_id $(pkg-config --cflags --libs weir)
 *     for rank in 0 1 2 3; do ./unique_id id.bin $rank 4 & done; wait
 *
 * On several nodes, start the ranks on them and put the file in a folder that they share.
 */
#include <weir/weir.h>

#include <stdio.h>
#include <stdlib.h>
#include <threads.h>

/* Ends this rank if a call failed. The waits of the other ranks notice that it has ended. */
static void need(weir_status status)
{
    if (status != WEIR_OK) {
        fprintf(stderr, "unique_id: %s\n", weir_last_error());
        exit(weir_status_exit_code(status));
    }
}

/* Creates the id, and the file in one step, so that no rank reads a part of it. */
static void id_write(const char *path, weir_unique_id *id)
{
    char part[4096];
    snprintf(part, sizeof part, "%s.part", path);
    need(weir_unique_id_create(id));
    FILE *file = fopen(part, "wb");
    if (!file || fwrite(id, sizeof *id, 1, file) != 1 || fclose(file) || rename(part, path)) {
        perror(path);
        exit(3);
    }
}

/* Waits at most ten seconds for the file. */
static void id_read(const char *path, weir_unique_id *id)
{
    FILE *file = NULL;
    for (int tries = 0; tries < 1000 && !(file = fopen(path, "rb")); tries++)
        thrd_sleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    if (!file || fread(id, sizeof *id, 1, file) != 1) {
        perror(path);
        exit(3);
    }
    fclose(file);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: unique_id FILE RANK RANKS\n");
        return 2;
    }
    const int rank = atoi(argv[2]), nranks = atoi(argv[3]);
    int sum = 0;
    weir_unique_id id;
    weir_boot *boot = NULL;
    weir_comm *comm = NULL;
    weir_comm_config config = WEIR_COMM_CONFIG_INIT;
    config.backend = WEIR_BACKEND_HOST; /* rank and sum are memory of the process */

    if (rank == 0)
        id_write(argv[1], &id);
    else
        id_read(argv[1], &id);
    need(weir_boot_tcp_create(&id, rank, nranks, &boot)); /* blocks until all ranks have joined */
    if (rank == 0)
        remove(argv[1]); /* an id serves one job */
    need(weir_comm_create(boot, &config, &comm));
    need(weir_allreduce(comm, &rank, &sum, 1, WEIR_INT32, WEIR_SUM, NULL));
    printf("rank %d of %d: the ranks add up to %d\n", rank, nranks, sum);
    need(weir_comm_destroy(comm));
    weir_boot_destroy(boot);
    return 0;
}
