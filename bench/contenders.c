/* Who takes part. */
#include "bench/contenders.h"

#include <string.h>

static weir_status add_weir(bench_job *job, const char *algo, bench_contenders *contenders)
{
    if (contenders->count == BENCH_CONTENDERS_MAX)
        return bench_job_note(job, WEIR_ERR_UNSUPPORTED, "more than %d contenders",
                              BENCH_CONTENDERS_MAX);
    weir_status status = bench_contender_weir_open(job, algo, &contenders->list[contenders->count]);
    contenders->count += status == WEIR_OK;
    return status;
}

static weir_status add_algorithms(bench_job *job, weir_collective collective,
                                  bench_contenders *contenders)
{
    size_t count = 0;
    const char *backend = weir_backend_name(weir_comm_backend(job->comm));
    const weir_algo_info *table = weir_algo_list(&count);
    for (size_t i = 0; i < count; i++) {
        if (table[i].collective != collective || job->nranks < table[i].min_ranks ||
            job->nranks > table[i].max_ranks || strcmp(table[i].backend, backend) != 0)
            continue;
        weir_status status = add_weir(job, table[i].name, contenders);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

weir_status bench_contenders_open(bench_job *job, const bench_options *options,
                                  weir_collective collective, const bench_buffers *buffers,
                                  bench_contenders *contenders)
{
    (void)buffers;
    int all = strcmp(options->algo, "all") == 0;
    contenders->count = 0;
    weir_status status = add_weir(job, all ? "auto" : options->algo, contenders);
    if (status == WEIR_OK && all)
        status = add_algorithms(job, collective, contenders);
    for (int i = 0; i < options->npeers && status == WEIR_OK; i++) {
        if (contenders->count == BENCH_CONTENDERS_MAX)
            break;
        status = bench_contender_mpi_open(job, &contenders->list[contenders->count]);
        contenders->count += status == WEIR_OK;
    }
    return bench_job_agree(job, status, "contenders");
}

void bench_contenders_close(bench_contenders *contenders)
{
    for (int i = 0; i < contenders->count; i++)
        contenders->list[i]->ops->close(contenders->list[i]);
    contenders->count = 0;
}
