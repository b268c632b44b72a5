/* The words of --peer: see peers.h. */
#define _GNU_SOURCE /* memmem */
#include "bench/options/peers.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALL_MODES = (1u << BENCH_NCCL_MODES) - 1 };

static const struct {
    const char *word;
    bench_peer_kind kind;
    unsigned needs, modes;
} rows[] = {
    {"mpi", BENCH_PEER_MPI, BENCH_PEER_NEEDS_MPI, 0},
    {"nccl", BENCH_PEER_VENDOR, BENCH_PEER_NEEDS_GPU, ALL_MODES},
    {"nccl:default", BENCH_PEER_VENDOR, BENCH_PEER_NEEDS_GPU, 1u << BENCH_NCCL_DEFAULT},
    {"nccl:symmetric", BENCH_PEER_VENDOR, BENCH_PEER_NEEDS_GPU, 1u << BENCH_NCCL_SYMMETRIC},
    {"nccl:zero-cta", BENCH_PEER_VENDOR, BENCH_PEER_NEEDS_GPU, 1u << BENCH_NCCL_ZERO_CTA},
    {"copies", BENCH_PEER_COPIES, 0, 0},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

const char *bench_peer_mode(const char *text)
{
    const char *slash = strrchr(text, '/'), *colon = strchr(slash ? slash : text, ':');
    return colon ? colon + 1 : "";
}

void bench_peer_split(const char *text, char *path, size_t path_bytes, char *mode,
                      size_t mode_bytes)
{
    const char *found = bench_peer_mode(text);
    snprintf(path, path_bytes, "%.*s", (int)(strlen(text) - (*found ? strlen(found) + 1 : 0)),
             text);
    snprintf(mode, mode_bytes, "%s", found);
}

/* 1 if the file at the path, without its mode, names the symbol of weir/peer.h. It is not opened as
 * a library, because libraries may crash then. */
static int peer_is_file(const char *text)
{
    static const char symbol[] = "weir_peer_v1"; /* with its zero, as in a table of symbols */
    char path[PATH_MAX], mode[2];
    bench_peer_split(text, path, sizeof path, mode, sizeof mode);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    int is_file = 0;
    if (fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
        const size_t bytes = (size_t)about.st_size;
        void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        is_file = data != MAP_FAILED && memmem(data, bytes, symbol, sizeof symbol) != NULL;
        if (data != MAP_FAILED)
            munmap(data, bytes);
    }
    if (fd >= 0)
        close(fd);
    return is_file;
}

bench_peer bench_peer_of(const char *text)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].word, text) == 0)
            return (bench_peer){text, NULL, rows[i].kind, rows[i].needs, rows[i].modes};
    if (strncmp(text, "py:", 3) == 0 && text[3])
        return (bench_peer){text, text + 3, BENCH_PEER_PYTHON, 0, 0};
    if (strchr(text, '/') && peer_is_file(text))
        return (bench_peer){text, text, BENCH_PEER_FILE, 0, 0};
    if (strchr(text, '/'))
        return (bench_peer){text, text, BENCH_PEER_VENDOR, BENCH_PEER_NEEDS_GPU, ALL_MODES};
    return (bench_peer){.text = text};
}

int bench_peer_is_same(const bench_peer *a, const bench_peer *b)
{
    if (a->path || b->path)
        return strcmp(a->text, b->text) == 0;
    return a->kind == b->kind && (a->modes == b->modes || a->modes & b->modes);
}

void bench_peer_list(char *text, size_t bytes)
{
    size_t used = 0;
    for (int i = 0; i < ROWS && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s, ", rows[i].word);
    if (used < bytes)
        snprintf(text + used, bytes - used, "or a library's path (with a /)");
}
