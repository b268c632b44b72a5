/*
 * NCCL's descriptions of machines, its graphs, and maps of virtual machines are arbitrary bytes;
 * the first one selects which. A reader accepts its input or reports a line with the file's name; a
 * machine that was accepted can be printed, drawn and written for NCCL, and what was written is the
 * machine again.
 */
#define _GNU_SOURCE
#include "verify/tests/support/fuzz_input.h"

#include "topo/nccl_export.h"
#include "topo/topo.h"

#include <sys/mman.h>
#include <unistd.h>

/* A file in memory, and its path. */
static int file_of(const void *data, size_t bytes, char path[32])
{
    const int fd = memfd_create("input", 0);
    FUZZ_DEMAND(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes);
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

static void expect_line(weir_status status, const char *path)
{
    FUZZ_DEMAND(status == WEIR_ERR_INVALID);
    FUZZ_DEMAND(strncmp(weir_last_error(), path, strlen(path)) == 0);
    FUZZ_DEMAND(!strchr(weir_last_error(), '\n'));
}

/* Written and read, the machine has the devices and links that it had. */
static void expect_again(const weiri_topo *topo, FILE *nowhere)
{
    weiri_topo *again = NULL;
    int found = 0;
    if (weiri_topo_nccl_view(topo, &again) != WEIR_OK) {
        fprintf(stderr, "%s\n", weir_last_error());
        FUZZ_DEMAND(!"what was written is read");
    }
    FUZZ_DEMAND(weiri_topo_diff(topo, "a", again, "b", nowhere, &found) == WEIR_OK);
    weiri_topo_counts a, b;
    weiri_topo_count(topo, &a);
    weiri_topo_count(again, &b);
    FUZZ_DEMAND(a.gpus == b.gpus && a.nics == b.nics);
    for (int i = 0; i < a.gpus * a.gpus; i++)
        FUZZ_DEMAND(weiri_topo_nvlink_gbs(topo, i / a.gpus, i % a.gpus) ==
                    weiri_topo_nvlink_gbs(again, i / a.gpus, i % a.gpus));
    weiri_topo_destroy(again);
}

static void read_machine(const char *path, FILE *nowhere)
{
    weiri_topo *topo = NULL;
    const weir_status status = weiri_topo_load_nccl(path, &topo);
    if (status) {
        expect_line(status, path);
        return;
    }
    weiri_topo_print_text(topo, "input", 3, nowhere);
    weiri_topo_print_json(topo, "input", 3, nowhere);
    weiri_topo_print_svg(topo, nowhere);
    expect_again(topo, nowhere);
    weiri_topo_destroy(topo);
}

void fuzz_input(const uint8_t *data, size_t bytes)
{
    static FILE *nowhere;
    static weiri_topo *machine;
    static topo_guest guest;
    char path[32];
    if (!nowhere) {
        nowhere = fopen("/dev/null", "we");
        FUZZ_DEMAND(nowhere);
        FUZZ_DEMAND(weiri_topo_load("topo/machines/8-gpu-8-nic.xml", &machine) == WEIR_OK);
    }
    if (bytes == 0)
        return;
    const int fd = file_of(data + 1, bytes - 1, path);
    if (data[0] == 'g') {
        const weir_status status =
            weiri_topo_print_graphs(machine, path, (weiri_graph_form)(bytes % 3), nowhere);
        if (status)
            expect_line(status, path);
    } else if (data[0] == 'm') {
        const weir_status status = weiri_guest_read(path, machine, &guest);
        if (status) {
            expect_line(status, path);
        } else {
            weiri_nccl_export(machine, &guest, nowhere);
            weiri_guest_free(&guest);
        }
    } else {
        read_machine(path, nowhere);
    }
    close(fd);
}
