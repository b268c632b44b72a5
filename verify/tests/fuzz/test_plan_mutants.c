/*
 * No accepted plan gives wrong data: random changes (plan_changes.h) are made to the library's
 * plans and to those of a folder, and every mutant that the checker accepts is run on the host, at
 * lengths that divide evenly and that do not, with every element compared.
 *
 * Environment: COUNT, the number of mutants; PLANS, a folder of plan files to mutate too; SEED.
 * With PLANS, the outcome of each file is printed as well.
 */
#include "verify/tests/support/plan_changes.h"
#include "verify/tests/support/plan_ranks.h"
#include "verify/tests/support/plan_right.h"
#include "verify/tests/support/unit_test.h"

#include "plan/examples/examples.h"
#include "plan/format/layout.h"

#include <dirent.h>
#include <sys/mman.h>

enum { BASES_MAX = 1024, MUTANTS_MAX = 100000, MEMORY_BYTES = 1 << 16, RANKS_MOST = 8 };

typedef struct base {
    weir_plan *(*make)(const struct base *of);
    const weiri_plan_example *example;
    int nranks;
    const char *text;
    char file[512];
} base;

static base bases[BASES_MAX];
static int nbases;

/* ------------------------------------------------------------------ plans to mutate */

static weir_plan *base_of_example(const base *of)
{
    const weiri_plan_example_options with = {.nranks = of->nranks, .unit_bytes = 64};
    weir_plan *plan = NULL;
    return weiri_plan_example_make(of->example, &with, &plan) == WEIR_OK ? plan : NULL;
}

static weir_plan *base_of_text(const base *of)
{
    return plan_of(of->text);
}

static weir_plan *base_of_file(const base *of)
{
    weir_plan *plan = NULL;
    return weir_plan_read(of->file, &plan) == WEIR_OK ? plan : NULL;
}

/* Adds a plan that can be run and checked. */
static void add_base(base one)
{
    weir_plan *plan = nbases < BASES_MAX ? one.make(&one) : NULL;
    if (plan && plan->nranks <= RANKS_MOST && plan_collective(plan) >= 0) {
        one.nranks = plan->nranks;
        bases[nbases++] = one;
    }
    weir_plan_free(plan);
}

static void print_outcome(const char *file)
{
    static weir_plan_report report;
    weir_plan *plan = NULL;
    weir_status status = weir_plan_read(file, &plan);
    if (status == WEIR_OK)
        status = weir_plan_check(plan, &report);
    print_message("# %s: %s\n", strrchr(file, '/') + 1,
                  status == WEIR_OK ? "accepted" : weir_last_error());
    weir_plan_free(plan);
}

static void add_folder(const char *folder)
{
    struct dirent **list;
    const int count = scandir(folder, &list, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        base one = {.make = base_of_file};
        const size_t length = strlen(list[i]->d_name);
        if (length > 5 && strcmp(list[i]->d_name + length - 5, ".json") == 0) {
            snprintf(one.file, sizeof one.file, "%s/%s", folder, list[i]->d_name);
            print_outcome(one.file);
            add_base(one);
        }
        free(list[i]);
    }
    if (count >= 0)
        free(list);
}

static void list_bases(void)
{
    size_t count;
    const weiri_plan_example *examples = weiri_plan_examples(&count);
    for (size_t i = 0; i < count; i++)
        for (int nranks = 2; nranks <= 4; nranks++)
            add_base((base){.make = base_of_example, .example = &examples[i], .nranks = nranks});
    for (int i = 0; i < RIGHT_PLANS; i++)
        add_base((base){.make = base_of_text, .text = right_plans[i]});
    for (int i = 0; i < UNSTRICT_PLANS; i++)
        add_base((base){.make = base_of_text, .text = unstrict_plans[i]});
    if (getenv("PLANS"))
        add_folder(getenv("PLANS"));
}

/* -------------------------------------------------------------------------- mutants */

typedef struct mutant {
    int base;
    uint64_t seed;
    uint64_t max_chunk_bytes; /* 0: any */
} mutant;

static mutant accepted[MUTANTS_MAX];
static int naccepted;

/* The mutant's plan; NULL if its structure is not valid. */
static weir_plan *plan_of_mutant(const mutant *one)
{
    weir_plan *plan = bases[one->base].make(&bases[one->base]);
    change_generator = change_mix(one->seed);
    for (uint32_t changes = 1 + change_below(2); changes; changes--)
        change_plan(plan);
    if (weiri_plan_validate(plan) == WEIR_OK)
        return plan;
    weir_plan_free(plan);
    return NULL;
}

/* Checks so many valid mutants, without accepted ones of other roots than 0; returns how many. */
static int check_mutants(int count, uint64_t first)
{
    static weir_plan_report report;
    int tried = 0, rejected = 0;
    for (uint64_t seed = first; seed < first + 4 * (uint64_t)count; seed++) {
        tried = rejected + naccepted;
        if (tried == count)
            break;
        mutant one = {(int)(seed % (uint64_t)nbases), seed, 0};
        weir_plan *plan = plan_of_mutant(&one);
        if (!plan)
            continue;
        if (weir_plan_check(plan, &report) != WEIR_OK) {
            rejected++;
        } else if (report.root == 0 && naccepted < MUTANTS_MAX) { /* plan_call expects root 0 */
            one.max_chunk_bytes = report.max_chunk_bytes;
            accepted[naccepted++] = one;
        }
        weir_plan_free(plan);
    }
    return tried;
}

/* Runs a mutant with blocks of about these bytes; returns the failures. */
static int run_mutant(plan_rank *with, const weir_plan *plan, const mutant *one, size_t bytes)
{
    const int collective = plan_collective(plan);
    const plan_use use = {.plan = plan, .block_bytes = bytes, .dtype = WEIR_INT32, .op = WEIR_SUM};
    const uint64_t blocks = weiri_plan_blocks(
        plan, collective == WEIR_COLL_ALLGATHER ? WEIR_PLAN_OUTPUT : WEIR_PLAN_INPUT);
    const uint64_t chunk = bytes / weiri_plan_block_chunks(plan) + plan->alignment;
    if (blocks * bytes < plan->min_bytes || blocks * bytes > plan->max_bytes ||
        (one->max_chunk_bytes && chunk > one->max_chunk_bytes))
        return 0;
    int failures = 0;
    for (int round = 0; round < 3; round++)
        failures += plan_call(with, &use, round);
    return failures;
}

typedef struct session {
    int nranks;
    int *runs; /* shared */
} session;

static int session_body(weir_boot *boot, void *argument)
{
    static const size_t lengths[] = {4, 52, 1024, 2060};
    const session *of = argument;
    plan_rank with = {0};
    int failures = 0, runs = 0;
    EXPECT_OK(&failures, plan_rank_open(&with, boot, MEMORY_BYTES));
    for (int i = 0; i < naccepted && !failures; i++) {
        if (bases[accepted[i].base].nranks != of->nranks)
            continue;
        weir_plan *plan = plan_of_mutant(&accepted[i]);
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths && !failures; l++)
            failures += run_mutant(&with, plan, &accepted[i], lengths[l]);
        runs++;
        if (failures)
            fprintf(stderr, "# mutant of plan %d, seed %llu\n", accepted[i].base,
                    (unsigned long long)accepted[i].seed);
        weir_plan_free(plan);
    }
    if (with.rank == 0)
        *of->runs += runs;
    plan_rank_close(&with);
    return failures;
}

TEST(accepted_mutants_give_right_results)
{
    const int count = getenv("COUNT") ? atoi(getenv("COUNT")) : 300;
    const uint64_t first = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : 1;
    int *runs = mmap(NULL, sizeof *runs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(runs != MAP_FAILED);
    list_bases();
    const int tried = check_mutants(count, first);
    for (int nranks = 1; nranks <= RANKS_MOST; nranks++)
        for (int i = 0; i < naccepted; i++)
            if (bases[accepted[i].base].nranks == nranks) {
                run_ranks_within(600000, nranks, session_body, &(session){nranks, runs});
                break;
            }
    print_message("# %d mutants of %d plans: %d accepted, of which %d were run; 0 wrong\n", tried,
                  nbases, naccepted, *runs);
    assert_int_equal(*runs, naccepted);
    assert_true(tried >= count && naccepted > 0 && naccepted < tried);
    munmap(runs, sizeof *runs);
}

int main(void)
{
    return run_all_tests("plan_mutants");
}
