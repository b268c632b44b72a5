/* A build without CUDA: no GPU can be used. */
#include "bench/gpu/gpu.h"

#include "base/absent.h"

#include <string.h>

static weir_status gpu_none_refuse(bench_note *note)
{
    return bench_note_write(note, WEIR_ERR_UNSUPPORTED, "this build has no CUDA backend");
}

int bench_gpu_built(void)
{
    return 0;
}

weir_status bench_gpu_probe(bench_note *note)
{
    return gpu_none_refuse(note);
}

int bench_gpu_serves(const weir_comm *comm)
{
    (void)comm;
    return 0;
}

weir_status bench_gpu_open(weir_comm *comm, bench_note *note, bench_gpu **gpu)
{
    (void)comm, (void)gpu;
    return gpu_none_refuse(note);
}

void bench_gpu_close(bench_gpu *gpu)
{
    (void)gpu;
}

void bench_gpu_describe(const bench_gpu *gpu, bench_gpu_info *info)
{
    (void)gpu;
    memset(info, 0, sizeof *info);
}

weir_stream bench_gpu_stream(const bench_gpu *gpu)
{
    (void)gpu;
    return NULL;
}

weir_stream bench_gpu_lane(const bench_gpu *gpu, int lane)
{
    (void)gpu, (void)lane;
    return NULL;
}

void bench_gpu_forget(bench_gpu_graph *graph)
{
    (void)graph;
}

WEIRI_ABSENT(bench_gpu_enter);
WEIRI_ABSENT(bench_gpu_add_lanes);
WEIRI_ABSENT(bench_gpu_fork);
WEIRI_ABSENT(bench_gpu_join);
WEIRI_ABSENT(bench_gpu_compute);
WEIRI_ABSENT(bench_gpu_alloc);
WEIRI_ABSENT(bench_gpu_free);
WEIRI_ABSENT(bench_gpu_export);
WEIRI_ABSENT(bench_gpu_mirror_alloc);
WEIRI_ABSENT(bench_gpu_mirror_free);
WEIRI_ABSENT(bench_gpu_push);
WEIRI_ABSENT(bench_gpu_pull);
WEIRI_ABSENT(bench_gpu_sync);
WEIRI_ABSENT(bench_gpu_copy);
WEIRI_ABSENT(bench_gpu_hold);
WEIRI_ABSENT(bench_gpu_let_go);
WEIRI_ABSENT(bench_gpu_mark_start);
WEIRI_ABSENT(bench_gpu_mark_end);
WEIRI_ABSENT(bench_gpu_marked_us);
WEIRI_ABSENT(bench_gpu_record);
WEIRI_ABSENT(bench_gpu_replay);
