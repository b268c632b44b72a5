/* The plans of --plan-dir, which --tune measures beside algorithms: see candidates.h. */
#include "bench/candidate/candidates.h"

#include "bench/job/exchange.h"
#include "bench/sizes/shape.h"
#include <weir/plan.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 256, PATH_BYTES = 4096, FILES_MAX = 1024, TABLE_PATH_MAX = 180 };

/* What a rank finds in a file; the largest value of all ranks counts. */
enum { PLAN_USABLE, PLAN_OTHER, PLAN_BAD };

static int is_plan_file(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 5 && length < NAME_BYTES && strcmp(entry->d_name + length - 5, ".json") == 0;
}

/* Lists the folder on rank 0, sorted, and gives every rank the names. -1: it cannot be read. */
static int list_files(const bench_job *job, const char *folder, char (*names)[NAME_BYTES])
{
    struct dirent **entries = NULL;
    int count = job->rank == 0 ? scandir(folder, &entries, is_plan_file, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        if (i < FILES_MAX)
            snprintf(names[i], NAME_BYTES, "%s", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    count = count < FILES_MAX ? count : FILES_MAX;
    bench_exchange_broadcast(job, &count, sizeof count, 0);
    if (count > 0)
        bench_exchange_broadcast(job, names, (size_t)count * NAME_BYTES, 0);
    return count;
}

/* Whether a tuning table can name the file. */
static int fits_table(const char *path)
{
    char *whole = realpath(path, NULL);
    int fits = whole && strlen(whole) <= TABLE_PATH_MAX && !strpbrk(whole, " \t#");
    free(whole);
    return fits;
}

/* Whether the plan is proved and has the root of the run. The note says why not. */
static int prove_listed(bench_job *job, const bench_options *options, weir_collective collective,
                        const weir_plan *plan, const char *path)
{
    weir_plan_report *report = malloc(sizeof *report);
    int found = PLAN_USABLE;
    if (!report || weir_plan_check(plan, report) != WEIR_OK) {
        bench_job_note(job, WEIR_ERR_INVALID, "%s", weir_last_error());
        found = PLAN_BAD;
    } else if (bench_collective_has_root(collective) && report->root != options->root) {
        found = PLAN_OTHER;
    }
    if (found == PLAN_USABLE && !report->all_lengths) {
        bench_job_note(job, WEIR_ERR_INVALID,
                       "%s: it is proved only for chunks of up to %llu bytes; --plan measures it",
                       path, (unsigned long long)report->max_chunk_bytes);
        found = PLAN_BAD;
    }
    free(report);
    if (found == PLAN_USABLE && !fits_table(path)) {
        bench_job_note(job, WEIR_ERR_INVALID,
                       "%s: the whole path of a plan in a tuning table has at most %d characters, "
                       "and neither blanks nor #",
                       path, TABLE_PATH_MAX);
        found = PLAN_BAD;
    }
    return found;
}

/* Reads and proves a file. *plan becomes the plan, NULL if it cannot be read. */
static int examine_file(bench_job *job, const bench_options *options, weir_collective collective,
                        const char *path, weir_plan **plan)
{
    if (weir_plan_read(path, plan) != WEIR_OK) {
        bench_job_note(job, WEIR_ERR_INVALID, "%s", weir_last_error());
        return PLAN_BAD;
    }
    int found = PLAN_OTHER;
    if (bench_plan_is_for(*plan, collective) && weir_plan_nranks(*plan) == job->group_nranks)
        found = prove_listed(job, options, collective, *plan, path);
    return found;
}

/* Adds a plan that every rank can use, if it runs here; the plan becomes the candidate's. */
static weir_status add_plan(bench_job *job, const bench_options *options,
                            weir_collective collective, const char *path, weir_plan *plan,
                            bench_candidates *candidates)
{
    bench_candidate *made = NULL;
    weir_status status = bench_candidate_plan_open(job, path, plan, &made);
    if (status != WEIR_OK)
        return status;
    status = bench_candidate_plan_try(made, options, collective);
    if (status == WEIR_OK) {
        candidates->list[candidates->count++] = made;
        return WEIR_OK;
    }
    if (status != WEIR_ERR_UNSUPPORTED && status != WEIR_ERR_INVALID)
        bench_job_note(job, status, "--plan-dir: %s: %s", path, weir_last_error());
    else if (job->rank == 0)
        bench_job_say(job, "--plan-dir: not measured: %s", weir_last_error());
    made->ops->close(made);
    return status == WEIR_ERR_UNSUPPORTED || status == WEIR_ERR_INVALID ? WEIR_OK : status;
}

/* Adds a file if every rank can use it; a plan for another job is no fault. */
static weir_status add_file(bench_job *job, const bench_options *options,
                            weir_collective collective, const char *name,
                            bench_candidates *candidates)
{
    char path[PATH_BYTES];
    weir_plan *plan = NULL;
    snprintf(path, sizeof path, "%s/%s", options->plan_dir, name);
    const int own = examine_file(job, options, collective, path, &plan);
    const int found = (int)bench_exchange_fold(job, BENCH_FOLD_MAX, own);
    if (found == PLAN_BAD && own == PLAN_BAD && job->rank == 0)
        bench_job_say(job, "--plan-dir: not measured: %s", job->note.text);
    if (found == PLAN_USABLE && candidates->count < BENCH_CANDIDATES_MAX)
        return add_plan(job, options, collective, path, plan, candidates);
    weir_plan_free(plan);
    if (found != PLAN_USABLE)
        return WEIR_OK;
    return bench_job_note(job, WEIR_ERR_INVALID,
                          "--plan-dir %s: more than %d algorithms and plans; move some away",
                          options->plan_dir, BENCH_CANDIDATES_MAX);
}

weir_status bench_plan_dir_open(bench_job *job, const bench_options *options,
                                weir_collective collective, bench_candidates *candidates)
{
    if (job->gpu && job->nnodes > 1)
        return bench_job_note(job, WEIR_ERR_INVALID,
                              "--plan-dir %s: plans serve GPUs of one node, and these are on %d; "
                              "add --backend host, or leave it out",
                              options->plan_dir, job->nnodes);
    if (job->gpu && options->buffers == BENCH_BUFFERS_PLAIN)
        return bench_job_note(job, WEIR_ERR_INVALID,
                              "--plan-dir %s: long calls of plans that access peers' buffers are "
                              "served in symmetric memory only; leave --buffers unregistered out",
                              options->plan_dir);
    char(*names)[NAME_BYTES] = calloc(FILES_MAX, NAME_BYTES);
    weir_status status = WEIR_OK;
    if (!names)
        status = bench_job_note(job, WEIR_ERR_NO_MEMORY, "no memory for a list of plans");
    status = bench_job_agree(job, status, "plans");
    int count = status == WEIR_OK ? list_files(job, options->plan_dir, names) : 0;
    if (count < 0)
        status = bench_job_note(job, WEIR_ERR_INVALID, "--plan-dir %s: it cannot be read: %s",
                                options->plan_dir, strerror(errno));
    for (int i = 0; i < count && status == WEIR_OK; i++)
        status = add_file(job, options, collective, names[i], candidates);
    free(names);
    return status;
}
