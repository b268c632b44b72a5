/*
 * Plans that a tuning table names serve ordinary calls: the data are right at every length, on
 * ranks in place, out of place and some of each; calls that the plan is not proved for, or cannot
 * serve, go to built-in algorithms; a communicator with plans can be destroyed and created again.
 * Runs on forked ranks.
 */
#include "verify/tests/support/comm_ranks.h"
#include "verify/tests/support/plan_right.h"
#include "verify/tests/support/unit_test.h"

enum { RANKS = 2, BYTES_MOST = 8192 };

static char folder[] = "/tmp/weir-tuned-XXXXXX";
static uint64_t limit_bytes; /* of a block, up to which the plan is proved; 0: any */
static unsigned turns_most;  /* of a pipeline, likewise */

static void write_file(const char *name, const char *text, size_t bytes)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* Writes a plan, and a table that names it for its collective. */
static void write_table(const char *text, const char *collective)
{
    static weir_plan_report report;
    char row[128], *json = NULL;
    size_t bytes = 0;
    weir_plan *plan = plan_of(text);
    assert_int_equal(weir_plan_check(plan, &report), WEIR_OK);
    limit_bytes = report.max_chunk_bytes;
    turns_most = report.max_turns;
    assert_int_equal(weir_plan_print(plan, &json, &bytes), WEIR_OK);
    write_file("plan.json", json, bytes);
    free(json);
    weir_plan_free(plan);
    snprintf(row, sizeof row, "%s %d any - plan:plan.json\n", collective, RANKS);
    write_file("table", row, strlen(row));
    snprintf(row, sizeof row, "%s/table", folder);
    setenv("WEIR_TUNING", row, 1);
}

static uint8_t byte_of(int rank, size_t i)
{
    return (uint8_t)(rank * 91 + (int)(i * 7 + i / 256));
}

/* An allgather of blocks of so many bytes; returns whether its result is right. */
static int gather(weir_comm *comm, size_t bytes, int in_place)
{
    static uint8_t in[BYTES_MOST], out[RANKS * BYTES_MOST];
    const int rank = weir_comm_rank(comm);
    uint8_t *from = in_place ? out + (size_t)rank * bytes : in;
    memset(out, 0xee, sizeof out);
    for (size_t i = 0; i < bytes; i++)
        from[i] = byte_of(rank, i);
    if (weir_allgather(comm, from, out, bytes, WEIR_UINT8, NULL) != WEIR_OK) {
        fprintf(stderr, "# %s\n", weir_last_error());
        return 0;
    }
    int right = 1;
    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; i < bytes; i++)
            right &= out[(size_t)r * bytes + i] == byte_of(r, i);
    return right;
}

static int serves(size_t bytes)
{
    return limit_bytes == 0 || (bytes + 15) / 16 * 16 <= limit_bytes;
}

static int lengths_body(weir_boot *boot, void *argument)
{
    static const size_t lengths[] = {1, 15, 16, 17, 63, 256, 1000, 1024, 1999, 4096, BYTES_MOST};
    int failures = 0, served[2] = {0};
    for (int round = 0; round < 2; round++) { /* two communicators in sequence */
        weir_comm *comm = open_comm(boot);
        if (!comm)
            return NO_COMM;
        for (size_t i = 0; i < 3 * sizeof lengths / sizeof *lengths; i++) {
            size_t bytes = lengths[i / 3];
            int in_place = i % 3 == 1 || (i % 3 == 2 && weir_comm_rank(comm) == 0);
            EXPECT(&failures, gather(comm, bytes, in_place));
            int by_plan = strcmp(weir_comm_last_algo(comm), "plan:test") == 0;
            EXPECT(&failures, by_plan == serves(bytes));
            served[by_plan]++;
        }
        EXPECT_OK(&failures, weir_comm_destroy(comm));
    }
    EXPECT(&failures, served[1] && (served[0] != 0) == *(int *)argument);
    return failures;
}

static int put_up(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int take_down(void **state)
{
    char path[64];
    (void)state;
    unsetenv("WEIR_TUNING");
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i ? "table" : "plan.json");
        unlink(path);
    }
    rmdir(folder);
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    return 0;
}

TEST_WITH(a_plan_serves_every_length, put_up, take_down)
{
    write_table(MIXED, "allgather");
    assert_int_equal(limit_bytes, 0);
    assert_int_equal(turns_most, 0);
    run_ranks(RANKS, lengths_body, &(int){0});
}

/* A pipeline whose first block may be many turns ahead: proved for a number of turns only. */
TEST_WITH(a_plan_serves_only_lengths_for_which_it_is_proved, put_up, take_down)
{
    char text[1024] = "allgather 2 i1 o2 s1\nsem 0 33\n";
    for (int rank = 0; rank < RANKS; rank++)
        sprintf(text + strlen(text),
                "%d.0; rlxsignal @m%d; nop; rlxwait @m%d; copy i0+1 > o%d+1; "
                "pipeline 16*1; sem_acquire $0; nop; put s0+1 > %d:o%d+1 @m%d; nop; "
                "sem_release $1; end; signal @m%d; nop; wait @m%d; nop\n"
                "%d.1; pipeline 16*1; sem_acquire $1; nop; copy i0+1 > s0+1; nop; "
                "sem_release $0; end\n",
                rank, 1 - rank, 1 - rank, rank, 1 - rank, rank, 1 - rank, 1 - rank, 1 - rank, rank);
    write_table(text, "allgather");
    assert_true(limit_bytes > 0 && limit_bytes < BYTES_MOST);
    assert_int_equal(turns_most, limit_bytes / 16);
    run_ranks(RANKS, lengths_body, &(int){1});
}

int main(void)
{
    return run_all_tests("plan_tuned");
}
