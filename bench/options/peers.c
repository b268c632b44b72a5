/* The words of --peer: see peers.h. */
#include "bench/options/peers.h"

#include <stdio.h>
#include <string.h>

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
};
enum { ROWS = sizeof rows / sizeof rows[0] };

bench_peer bench_peer_of(const char *text)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(rows[i].word, text) == 0)
            return (bench_peer){text, NULL, rows[i].kind, rows[i].needs, rows[i].modes};
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
