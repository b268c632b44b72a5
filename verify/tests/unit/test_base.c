/*
 * lib/base: status names and exit codes, the last error and its contexts, names of types and
 * operations, the environment table, the log, files of measured links, the limit of open files,
 * names of jobs.
 */
#include "base/config.h"
#include "base/env.h"
#include "base/env_check.h"
#include "base/error.h"
#include "base/job_identity.h"
#include "base/json.h"
#include "base/links.h"
#include "base/log.h"
#include "base/open_files.h"
#include "base/text.h"
#include "base/transports.h"
#include "base/words.h"
#include "verify/tests/support/test_files.h"
#include <weir/target.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* --------------------------------------------------------------------- text */

TEST(lengths_of_utf8_characters)
{
    static const struct {
        const char *text;
        size_t length; /* 0: no character */
    } rows[] = {{"a", 1},
                {"\xc3\xa4", 2},
                {"\xe2\x82\xac", 3},
                {"\xf0\x9f\x98\x80", 4},
                {"\xf0\x9f\x98", 0},
                {"\xf0\x80\x80\x80", 0},
                {"\xe0\x80\x80", 0},
                {"\xed\xa0\x80", 0},
                {"\xf4\x90\x80\x80", 0},
                {"\xf5\x80\x80\x80", 0},
                {"\xc1\x80", 0},
                {"\xc3", 0},
                {"\x80", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(weiri_utf8_length(rows[i].text), rows[i].length);
}

/* ------------------------------------------------------------------- errors */

TEST(every_status_has_name_text_and_exit_code)
{
    for (int status = WEIR_OK; status >= WEIR_ERR_INTERNAL; status--) {
        const int exit_code = weir_status_exit_code((weir_status)status);
        assert_string_not_equal(weir_status_name((weir_status)status), "WEIR_ERR_UNKNOWN");
        assert_string_not_equal(weir_status_text((weir_status)status), "unknown status");
        assert_true(exit_code >= 0 && exit_code <= 4 && exit_code != 1);
        assert_int_equal(exit_code == 0, status == WEIR_OK);
    }
    assert_string_equal(weir_status_name(WEIR_ERR_TIMEOUT), "WEIR_ERR_TIMEOUT");
    assert_string_equal(weir_status_text(WEIR_ERR_TIMEOUT), "a deadline passed");
    assert_int_equal(weir_status_exit_code(WEIR_ERR_TIMEOUT), 4);
    assert_string_equal(weir_status_name((weir_status)1), "WEIR_ERR_UNKNOWN");
    assert_string_equal(weir_status_name((weir_status)-99), "WEIR_ERR_UNKNOWN");
    assert_string_equal(weir_status_text((weir_status)-99), "unknown status");
    assert_int_equal(weir_status_exit_code((weir_status)-99), 3);
}

static void *error_of_new_thread(void *first)
{
    snprintf(first, 64, "%s", weir_last_error());
    weiri_fail(WEIR_ERR_INVALID, "of the other thread");
    return NULL;
}

TEST(last_error_belongs_to_its_thread)
{
    char seen[64];
    pthread_t thread;
    assert_int_equal(weiri_fail(WEIR_ERR_PEER, "rank %d is gone", 3), WEIR_ERR_PEER);
    assert_int_equal(pthread_create(&thread, NULL, error_of_new_thread, seen), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(seen, "no error");
    assert_string_equal(weir_last_error(), "rank 3 is gone");
}

TEST(errors_carry_contexts_and_the_text_of_errno)
{
    assert_int_equal(weiri_fail_errno(WEIR_ERR_SYSTEM, ENOENT, "open %s", "x"), WEIR_ERR_SYSTEM);
    assert_string_equal(weir_last_error(), "open x: No such file or directory");
    assert_int_equal(weiri_fail_context(WEIR_ERR_SYSTEM, "rank %d", 2), WEIR_ERR_SYSTEM);
    assert_string_equal(weir_last_error(), "rank 2: open x: No such file or directory");
}

TEST(long_error_messages_are_truncated)
{
    char text[2000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    weiri_fail(WEIR_ERR_INVALID, "%s", text);
    size_t cut = strlen(weir_last_error());
    assert_in_range(cut, 200, 1000);
    weiri_fail_context(WEIR_ERR_INVALID, "rank 0");
    assert_int_equal(strncmp(weir_last_error(), "rank 0: aaa", 11), 0);
    assert_true(strlen(weir_last_error()) <= cut);
    weiri_fail_context(WEIR_ERR_INVALID, "%s", text);
    weiri_fail_errno(WEIR_ERR_INVALID, ENOENT, "%s", text);
    assert_true(strlen(weir_last_error()) <= cut);
}

/* -------------------------------------------------------------------- types */

TEST(names_of_types_and_operations_parse_to_the_same_value)
{
    static const size_t bytes[WEIR_DTYPE_COUNT] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    for (int i = 0; i < WEIR_DTYPE_COUNT; i++) {
        weir_dtype dtype = WEIR_DTYPE_COUNT;
        assert_int_equal(weir_dtype_parse(weir_dtype_name((weir_dtype)i), &dtype), WEIR_OK);
        assert_int_equal(dtype, i);
        assert_int_equal(weir_dtype_bytes(dtype), bytes[i]);
    }
    for (int i = 0; i < WEIR_OP_COUNT; i++) {
        weir_op op = WEIR_OP_COUNT;
        assert_int_equal(weir_op_parse(weir_op_name((weir_op)i), &op), WEIR_OK);
        assert_int_equal(op, i);
    }
}

TEST(unknown_names_are_rejected_with_a_list_of_known_names)
{
    weir_dtype dtype = WEIR_FLOAT;
    weir_op op = WEIR_SUM;
    assert_int_equal(weir_dtype_parse("floa", &dtype), WEIR_ERR_INVALID);
    assert_non_null(strstr(weir_last_error(), "'floa'"));
    for (int i = 0; i < WEIR_DTYPE_COUNT; i++)
        assert_non_null(strstr(weir_last_error(), weir_dtype_name((weir_dtype)i)));
    assert_int_equal(weir_op_parse(NULL, &op), WEIR_ERR_INVALID);
    for (int i = 0; i < WEIR_OP_COUNT; i++)
        assert_non_null(strstr(weir_last_error(), weir_op_name((weir_op)i)));
    assert_int_equal(dtype, WEIR_FLOAT);
    assert_int_equal(op, WEIR_SUM);
}

TEST(values_out_of_range_have_no_name)
{
    assert_null(weir_dtype_name(WEIR_DTYPE_COUNT));
    assert_null(weir_dtype_name((weir_dtype)-1));
    assert_int_equal(weir_dtype_bytes(WEIR_DTYPE_COUNT), 0);
    assert_null(weir_op_name(WEIR_OP_COUNT));
    assert_null(weir_collective_name(WEIR_COLL_COUNT));
    assert_string_equal(weir_collective_name(WEIR_COLL_SENDRECV), "sendrecv");
    assert_null(weir_transport_name((weir_transport)(WEIR_TRANSPORT_TCP + 1)));
    assert_string_equal(weir_transport_name(WEIR_TRANSPORT_TCP), "tcp");
    assert_int_equal(strncmp(weir_version_string(), "weir " WEIR_VERSION " (", 12), 0);
}

/* -------------------------------------------------------------- environment */

TEST(numbers_in_the_environment_are_range_checked)
{
    static const char *const bad[] = {"x", "5x", "0", "101", "99999999999999999999", "1 2"};
    long value = -7;
    unsetenv("WEIR_IB_GID_INDEX");
    assert_int_equal(weiri_env_long(WEIRI_ENV_IB_GID_INDEX, 1, 100, 42, &value), WEIR_OK);
    assert_int_equal(value, 42);
    setenv("WEIR_IB_GID_INDEX", "", 1); /* empty counts as unset */
    assert_int_equal(weiri_env_long(WEIRI_ENV_IB_GID_INDEX, 1, 100, 43, &value), WEIR_OK);
    assert_int_equal(value, 43);
    setenv("WEIR_IB_GID_INDEX", "100", 1);
    assert_int_equal(weiri_env_long(WEIRI_ENV_IB_GID_INDEX, 1, 100, 42, &value), WEIR_OK);
    assert_int_equal(value, 100);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("WEIR_IB_GID_INDEX", bad[i], 1);
        assert_int_equal(weiri_env_long(WEIRI_ENV_IB_GID_INDEX, 1, 100, 42, &value),
                         WEIR_ERR_INVALID);
        assert_non_null(strstr(weir_last_error(), "WEIR_IB_GID_INDEX"));
        assert_non_null(strstr(weir_last_error(), "from 1 to 100"));
        assert_int_equal(value, 100);
    }
    unsetenv("WEIR_IB_GID_INDEX");
}

TEST(numbers_in_the_environment_are_digits)
{
    static const char *const bad[] = {"+5", " 5", "5 ", "0x5", "5e0", "5.0", "-", "- 5"};
    long value = -7;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("WEIR_IB_GID_INDEX", bad[i], 1);
        if (weiri_env_long(WEIRI_ENV_IB_GID_INDEX, -9, 100, 42, &value) == WEIR_OK)
            fail_msg("'%s' was read as %ld", bad[i], value);
    }
    setenv("WEIR_IB_GID_INDEX", "-5", 1);
    assert_int_equal(weiri_env_long(WEIRI_ENV_IB_GID_INDEX, -9, 100, 42, &value), WEIR_OK);
    assert_int_equal(value, -5);
    unsetenv("WEIR_IB_GID_INDEX");
}

TEST(every_variable_with_a_bad_value_is_rejected)
{
    static const struct {
        const char *name, *bad[3], *good[4];
    } rows[] = {{"WEIR_LOG", {"nonsense", "warn,info"}, {"debug", "error"}},
                {"WEIR_BACKEND", {"gpu", "host cuda"}, {"host", "auto"}},
                {"WEIR_TRANSPORT", {"ud", "tc"}, {"tcp", "cuda_ipc"}},
                {"WEIR_TIMEOUT_MS", {"600 s", "0", "86400001"}, {"600", "86400000"}},
                {"WEIR_SOCKET_STREAMS", {"0", "9", "x"}, {"8"}},
                {"WEIR_CONNECT", {"never"}, {"first-use"}},
                {"WEIR_BOOT_PORT", {"0", "65536", "x"}, {"65535"}},
                {"WEIR_LAUNCHER", {"lsf"}, {"slurm", "none"}},
                {"WEIR_IB_GID_INDEX", {"-1", "x"}, {"0", "3"}},
                {"WEIR_CMA", {"2", "off"}, {"0", "1"}},
                {"WEIR_CHECK", {"2", "on"}, {"0", "1"}},
                {"WEIR_XPMEM", {"yes"}, {"0"}},
                {"WEIR_ALLOW_SHARED_GPU", {"true"}, {"1"}},
                {"WEIR_RAS", {"yes", "host", "host:"}, {"0", "1", "localhost:28028", "[::1]:5"}},
                {"WEIR_METRICS", {"csv", "prom,csv", "prom,"}, {"prom", "json,prom", "0"}},
                {"WEIR_METRICS_INTERVAL_MS", {"-2", "1s"}, {"-1", "50"}},
                {"WEIR_METRICS_MIN_BYTES", {"-1", "8K"}, {"0"}},
                {"WEIR_MONITOR_CALLS", {"1", "129"}, {"2", "128"}}};
    assert_int_equal(weiri_env_check(), WEIR_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int j = 0; j < 3 && rows[i].bad[j]; j++) {
            setenv(rows[i].name, rows[i].bad[j], 1);
            if (weiri_env_check() != WEIR_ERR_INVALID || !strstr(weir_last_error(), rows[i].name) ||
                !strstr(weir_last_error(), ": expected "))
                fail_msg("%s=%s: %s", rows[i].name, rows[i].bad[j], weir_last_error());
        }
        for (int j = 0; j < 4 && rows[i].good[j]; j++) {
            setenv(rows[i].name, rows[i].good[j], 1);
            if (weiri_env_check() != WEIR_OK)
                fail_msg("%s=%s: %s", rows[i].name, rows[i].good[j], weir_last_error());
        }
        setenv(rows[i].name, "", 1); /* empty counts as unset */
        assert_int_equal(weiri_env_check(), WEIR_OK);
        unsetenv(rows[i].name);
    }
}

TEST(unknown_names_have_a_closest_one)
{
    static const struct {
        const char *variable;
        int is_unknown;
        const char *closest;
    } rows[] = {{"WEIR_TIMOUT_MS=5", 1, "WEIR_TIMEOUT_MS"},
                {"WEIR_TIMEOUT=5", 1, "WEIR_TIMEOUT_MS"},
                {"WEIR_LOGG=debug", 1, "WEIR_LOG"},
                {"WEIR_TRANSPROT=tcp", 1, "WEIR_TRANSPORT"},
                {"WEIR_CAM=0", 1, "WEIR_CMA"},
                {"WEIR_BOOT_SECRT=x", 1, "WEIR_BOOT_SECRET"},
                {"WEIR_SOMETHING_ELSE=1", 1, NULL},
                {"WEIR_=1", 1, NULL},
                {"WEIR_LOG=debug", 0, NULL},
                {"WEIR_PYTHON_NATIVE=0", 0, NULL},
                {"NCCL_ALGO=Ring", 0, NULL},
                {"WEIRD=1", 0, NULL},
                {"", 0, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *closest;
        assert_int_equal(weiri_env_is_unknown(rows[i].variable, &closest), rows[i].is_unknown);
        if (rows[i].closest)
            assert_string_equal(closest, rows[i].closest);
        else if (closest)
            fail_msg("%s resembles %s", rows[i].variable, closest);
    }
}

TEST(timeout_has_a_default)
{
    setenv("WEIR_TIMEOUT_MS", "250", 1);
    assert_int_equal(weiri_config_timeout_ms(), 250);
    unsetenv("WEIR_TIMEOUT_MS");
    assert_int_equal(weiri_config_timeout_ms(), 30000);
}

TEST(help_lists_every_environment_variable)
{
    int length = weir_env_help(NULL, 0);
    char *text = malloc((size_t)length + 1);
    assert_int_equal(weir_env_help(text, (size_t)length + 1), length);
    assert_int_equal(strlen(text), length);
    for (int key = 0; key < WEIRI_ENV_COUNT; key++)
        assert_non_null(strstr(text, weiri_env_name((weiri_env_key)key)));
    char cut[20];
    memset(cut, 'x', sizeof cut);
    assert_int_equal(weir_env_help(cut, sizeof cut), length);
    assert_int_equal(strncmp(cut, text, sizeof cut - 1), 0);
    assert_int_equal(cut[sizeof cut - 1], '\0');
    free(text);
}

/* ---------------------------------------------------------------------- log */

/* Logs at every level; runs in a child, whose standard error is read. */
static void log_levels(void)
{
    weiri_log(WEIRI_LOG_ERROR, "one %d", 1);
    weiri_log(WEIRI_LOG_WARN, "two");
    weiri_log(WEIRI_LOG_INFO, "three");
    weiri_log(WEIRI_LOG_DEBUG, "%02000d", 4);
}

static void read_bad_timeout(void)
{
    setenv("WEIR_TIMEOUT_MS", "soon", 1);
    for (int i = 0; i < 3; i++)
        weiri_config_timeout_ms();
}

static void log_of(void (*writes)(void), const char *level, int rank, char *text, size_t bytes)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        setenv("WEIR_LOG", level, 1);
        if (rank >= 0)
            weiri_log_set_rank(rank);
        writes();
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while ((got = read(ends[0], text + used, bytes - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void log_of_child(const char *level, int rank, char *text, size_t bytes)
{
    log_of(log_levels, level, rank, text, bytes);
}

TEST(invalid_timeout_is_logged_once)
{
    char text[4096];
    log_of(read_bad_timeout, "warn", -1, text, sizeof text);
    assert_non_null(strstr(text, "WEIR_TIMEOUT_MS=soon"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void warn_of_names(void)
{
    setenv("WEIR_TIMOUT_MS", "5", 1);
    setenv("WEIR_UNHEARD_OF", "5", 1);
    for (int i = 0; i < 2; i++)
        weiri_env_warn_unknown();
}

TEST(unknown_names_are_logged_once)
{
    char text[4096];
    log_of(warn_of_names, "warn", -1, text, sizeof text);
    assert_non_null(strstr(text, "WEIR_TIMOUT_MS is no variable of weir and has no effect; did you "
                                 "mean WEIR_TIMEOUT_MS?\n"));
    assert_non_null(strstr(text, "WEIR_UNHEARD_OF is no variable of weir"));
    int lines = 0;
    for (const char *at = text; (at = strstr(at, "is no variable of weir")); at++)
        lines++;
    assert_int_equal(lines, 2);
}

TEST(log_is_filtered_by_level)
{
    char text[4096];
    log_of_child("warn", -1, text, sizeof text);
    assert_string_equal(text, "weir error: one 1\nweir warn: two\n");
    log_of_child("error", 5, text, sizeof text);
    assert_string_equal(text, "weir[5] error: one 1\n");
    log_of_child("nonsense", -1, text, sizeof text);
    assert_string_equal(text, "weir warn: WEIR_LOG=nonsense: expected error, warn, info or debug; "
                              "using warn\nweir error: one 1\nweir warn: two\n");
}

TEST(long_log_lines_end_in_a_newline)
{
    char text[4096];
    log_of_child("debug", -1, text, sizeof text);
    size_t length = strlen(text);
    assert_non_null(strstr(text, "weir debug: 0000"));
    assert_int_equal(text[length - 1], '\n');
    assert_true(length < 1200);
}

/* ------------------------------------------------------------ clock, atomics */

TEST(clock_advances)
{
    uint64_t start = weir_clock_ns();
    usleep(2000);
    assert_true(weir_clock_ns() - start >= 2000000);
}

static uint64_t flag, payload;

static void *publish(void *argument)
{
    (void)argument;
    payload = 42;
    weir_store_release(&flag, 1);
    return NULL;
}

TEST(release_is_seen_by_acquire)
{
    pthread_t thread;
    weir_store_relaxed(&flag, 0);
    assert_int_equal(pthread_create(&thread, NULL, publish, NULL), 0);
    while (weir_load_acquire(&flag) == 0)
        weir_pause();
    assert_int_equal(payload, 42);
    assert_int_equal(weir_load_relaxed(&flag), 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Reads links from a file with the text. */
static weir_status read_links(const char *text, weiri_links **links)
{
    char path[32];
    test_file_temporary(text, strlen(text), path);
    weir_status status = weiri_links_read(path, links);
    unlink(path);
    return status;
}

#define LINKS "weir-links 1\nmachine abc # its structure\nbackend host\nendpoints 3\n"

/* The floor is the smallest latency plus the transfer time; the bandwidth is interpolated over the
 * logarithm of the size. */
TEST(link_files_give_the_shortest_possible_time)
{
    weiri_links *links = NULL, *again = NULL;
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(read_links(LINKS "pair 0 1 8 0.5\npair 2 1 8 0.25\n\ntogether 1000 1\n"
                                      "together 4000 3\ntogether 32000 0.0031\n",
                                &links),
                     WEIR_OK);
    assert_float_equal(weiri_links_floor_us(links, 500), 0.25 + 0.5, 1e-9);
    assert_float_equal(weiri_links_floor_us(links, 2000), 0.25 + 1, 1e-9);
    assert_float_equal(weiri_links_floor_us(links, 3.1e6), 0.25 + 1e6, 1e-3);
    FILE *file = open_memstream(&text, &bytes);
    weiri_links_write(links, file);
    fclose(file);
    assert_int_equal(read_links(text, &again), WEIR_OK);
    assert_string_equal(again->machine, "abc");
    assert_int_equal(again->endpoints, 3);
    assert_float_equal(again->us[2 * 3 + 1], 0.25, 1e-9);
    assert_float_equal(again->together_gbs[1], 3, 1e-9);
    assert_float_equal(again->together_gbs[2], 0.0031, 1e-9);
    free(text);
    weiri_links_free(links);
    weiri_links_free(again);
}

/* As many endpoints and sizes as there is room for, and one more of each. */
TEST(link_files_are_read_up_to_their_limits)
{
    weiri_links *links = NULL;
    char text[8192];
    for (int more = 0; more < 2; more++) {
        int length = snprintf(text, sizeof text, "weir-links 1\nbackend host\nendpoints %d\n",
                              WEIRI_LINKS_ENDPOINTS_MAX);
        length += snprintf(text + length, sizeof text - (size_t)length, "pair 255 254 1 0.5\n");
        for (int i = 0; i < WEIRI_LINKS_SIZES_MAX + more; i++)
            length += snprintf(text + length, sizeof text - (size_t)length, "together %d %d\n",
                               1000 * (i + 1), i + 1);
        assert_int_equal(read_links(text, &links), more ? WEIR_ERR_INVALID : WEIR_OK);
        if (more) {
            assert_non_null(strstr(weir_last_error(), ":37: "));
            continue;
        }
        assert_float_equal(links->us[255 * 256 + 254], 0.5, 1e-9);
        assert_float_equal(weiri_links_floor_us(links, 64000), 0.5 + 2, 1e-9);
        weiri_links_free(links);
        links = NULL;
    }
    assert_int_equal(read_links("weir-links 1\nendpoints 257\n", &links), WEIR_ERR_INVALID);
}

TEST(wrong_link_files_are_rejected_with_the_line_number)
{
    static const struct {
        const char *text, *line;
    } bad[] = {
        {"", ":0: "},
        {"schema,run_id\n", ":1: "},
        {"weir-links 2\n", ":1: "},
        {LINKS, ":4: expected an endpoints line"},
        {"weir-links 1\nendpoints 0\n", ":2: "},
        {"weir-links 1\nendpoints 999\n", ":2: "},
        {LINKS "endpoints 3\n", ":5: "},
        {LINKS "pair 0 3 1 1\n", ":5: "},
        {LINKS "pair 0 1 nan 1\n", ":5: "},
        {LINKS "pair 0 1 -1 1\n", ":5: "},
        {LINKS "pair 0 1 1\n", ":5: "},
        {LINKS "pair 0 1 1 1 1\n", ":5: "},
        {LINKS "together 8 1\ntogether 8 1\n", ":6: "},
        {LINKS "together 8 0\n", ":5: "},
        {LINKS "novel 8\n", ":5: "},
        {"weir-links 1\ntogether 8 1\n", ":2: "},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weiri_links *links = NULL;
        assert_int_equal(read_links(bad[i].text, &links), WEIR_ERR_INVALID);
        assert_non_null(strstr(weir_last_error(), bad[i].line));
        assert_null(links);
    }
}

TEST(links_that_differ_by_direction_are_found)
{
    weiri_links *links = NULL;
    char text[160];
    assert_int_equal(read_links(LINKS "pair 0 1 10 1\npair 1 0 9 1\npair 1 2 10 1\n"
                                      "pair 2 1 8 1\ntogether 8 1\n",
                                &links),
                     WEIR_OK);
    assert_int_equal(weiri_links_asymmetry(links, text, sizeof text), 0);
    weiri_links_free(links);
    assert_int_equal(read_links(LINKS "pair 0 1 10 1\npair 1 0 7 1\npair 1 2 10 1\n"
                                      "pair 2 1 4 1\ntogether 8 1\n",
                                &links),
                     WEIR_OK);
    assert_int_equal(weiri_links_asymmetry(links, text, sizeof text), 1);
    assert_string_equal(text, "the link from 2 to 1 has 4 GB/s, the one from 1 to 2 10 GB/s");
    weiri_links_free(links);
    /* A direction that was not measured says nothing. */
    assert_int_equal(read_links(LINKS "pair 0 1 10 1\ntogether 8 1\n", &links), WEIR_OK);
    assert_int_equal(weiri_links_asymmetry(links, text, sizeof text), 0);
    weiri_links_free(links);
}

/* --------------------------------------------------------------------- words */

/* The help of WEIR_TRANSPORT is text, so it could lack a transport. */
TEST(transports_have_rows_and_are_in_the_help)
{
    int seen[WEIRI_NETWORKS] = {0};
    char names[256] = "";
    for (int i = 0; i < WEIRI_TRANSPORTS; i++) {
        const weiri_transport_row *row = weiri_transport_row_of(i);
        assert_string_equal(weir_transport_name((weir_transport)i), row->name);
        assert_int_equal(weiri_transport_find(row->name), i);
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : ": ",
                 row->name);
        if (row->network < 0)
            continue;
        assert_int_equal(seen[row->network]++, 0);
        assert_int_equal(weiri_transport_at(row->network), i);
        assert_true(row->cost.latency_us > 0 && row->cost.network_gbs > 0);
    }
    assert_non_null(strstr(weiri_env_meaning(WEIRI_ENV_TRANSPORT), names));
    assert_null(weiri_transport_row_of(WEIRI_TRANSPORTS));
    assert_null(weiri_transport_row_of(-1));
    assert_int_equal(weiri_transport_find("infiniband"), -1);
}

TEST(one_thing_is_singular)
{
    assert_string_equal(weiri_s(1), "");
    assert_string_equal(weiri_s(0), "s");
    assert_string_equal(weiri_s(2), "s");
}

/* ------------------------------------------------------------ open files */

/* In a child, because a hard limit can be raised again by root only. */
static int open_files_child(void)
{
    struct rlimit limit = {.rlim_cur = 32, .rlim_max = 64}, now;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1;
    int failed = weiri_open_files_allow(20, "3 ranks") != WEIR_OK;
    failed |= getrlimit(RLIMIT_NOFILE, &now) != 0 || now.rlim_cur != 32;
    failed |= weiri_open_files_allow(48, "3 ranks") != WEIR_OK;
    failed |= getrlimit(RLIMIT_NOFILE, &now) != 0 || now.rlim_cur != 48 || now.rlim_max != 64;
    failed |= weiri_open_files_allow(65, "3 ranks") != WEIR_ERR_SYSTEM;
    failed |= !strstr(weir_last_error(), "3 ranks need 65 open files, 64 are allowed; "
                                         "raise 'ulimit -Hn'");
    failed |= getrlimit(RLIMIT_NOFILE, &now) != 0 || now.rlim_cur != 48;
    return failed;
}

TEST(the_limit_of_open_files_is_raised_as_far_as_needed_and_allowed)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(open_files_child());
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST(control_characters_are_escaped_where_text_is_shown)
{
    static const struct {
        const char *text, *shown, *escaped;
    } cases[] = {
        {"plain", "plain", "plain"},
        {"", "", ""},
        {"\x1b[31mX", "\\x1b[31mX", "\\x1b[31mX"},
        {"a\rb\bc\x7f", "a\\x0db\\x08c\\x7f", "a\\x0db\\x08c\\x7f"},
        {"two\n\tlines", "two\\x0a\\x09lines", "two\n\tlines"},
        {"\xc2\x9b"
         "31m",
         "\\xc2\\x9b31m", "\\xc2\\x9b31m"},
        {"gr\xc3\xb6\xc3\x9f"
         "er",
         "gr\xc3\xb6\xc3\x9f"
         "er",
         "gr\xc3\xb6\xc3\x9f"
         "er"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char shown[64], text[64];
        snprintf(text, sizeof text, "%s", cases[i].text);
        assert_string_equal(weiri_text_shown(text, shown, sizeof shown), cases[i].shown);
        assert_int_equal(weiri_text_escape(text, sizeof text), strlen(cases[i].escaped));
        assert_string_equal(text, cases[i].escaped);
    }
    char small[8] = "ab\x1b\x1b\x1b";
    assert_int_equal(weiri_text_escape(small, sizeof small), 6);
    assert_string_equal(small, "ab\\x1b");
    assert_string_equal(weiri_text_shown("abc\x1b", small, 7), "abc");
}

TEST(messages_have_no_control_characters)
{
    weiri_fail(WEIR_ERR_INVALID, "plan %s", "\x1b[2J");
    assert_string_equal(weir_last_error(), "plan \\x1b[2J");
    weiri_fail_context(WEIR_ERR_INVALID, "file \x07%d", 1);
    assert_string_equal(weir_last_error(), "file \\x071: plan \\x1b[2J");
}

TEST(a_list_that_is_too_long_is_cut_visibly)
{
    static const struct {
        const char *list, *shortened;
    } lists[] = {{"", ""},
                 {"0-3,8", "0-3,8"},
                 {"0-127,256", "0-127,256"},
                 {"0-127,2561", "0-127,..."},
                 {"0,2,4,6,8,10", "0,2,4,..."},
                 {"1024-2047,3", "..."}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char text[10];
        weiri_text_shorten_list(lists[i].list, text, sizeof text);
        assert_string_equal(text, lists[i].shortened);
    }
}

/* The name of a job whose launcher is not visible, and which the launcher's variables identify. */
static void name_of_job(const char *purpose, int number, char name[WEIRI_JOB_NAME_BYTES])
{
    static const weiri_launcher_row row = {.rank = "WEIR_TEST_NO_RANK"};
    weiri_job_identity identity;
    weiri_job_identity_find(&row, &identity);
    assert_int_equal(identity.launcher, 0);
    weiri_job_identity_name(&identity, purpose, number, name);
}

/* Counts how many of so many names are equal to another one. */
static int equal_names(char (*names)[WEIRI_JOB_NAME_BYTES], int count)
{
    int equal = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            equal += strcmp(names[i], names[j]) == 0;
    return equal;
}

/* In a process of its own, as it changes its user and variables. Returns 0 if all hold. */
static int names_tell_jobs_apart(void)
{
    static const char *const variables[] = {"OMPI_MCA_orte_precondition_transports",
                                            "PMIX_SERVER_URI3",
                                            "PMIX_SERVER_URI4",
                                            "PMIX_SERVER_URI41",
                                            "PMIX_NAMESPACE",
                                            "OMPI_MCA_ess_base_jobid",
                                            "PMI_JOBID",
                                            "MPIRUN_ID",
                                            "SLURM_JOB_ID",
                                            "SLURM_STEP_ID",
                                            "MASTER_PORT",
                                            "TORCHELASTIC_RUN_ID"};
    enum { VARIABLES = sizeof variables / sizeof *variables, OTHERS = 5, ALL = VARIABLES + OTHERS };
    char names[ALL][WEIRI_JOB_NAME_BYTES], again[WEIRI_JOB_NAME_BYTES];
    for (int i = 0; i < VARIABLES; i++)
        unsetenv(variables[i]);
    setenv("PMIX_SERVER_URI2", "one", 1);
    name_of_job("boot", 0, names[0]);
    name_of_job("boot", 0, again);
    if (strcmp(names[0], again) != 0)
        return 2;
    name_of_job("boot", 1, names[1]);
    name_of_job("guard", 0, names[2]);
    setenv("PMIX_SERVER_URI2", "two", 1);
    name_of_job("boot", 0, names[3]);
    setenv("PMIX_SERVER_URI2", "one", 1);
    for (int i = 0; i < VARIABLES; i++) { /* one at a time, each to the same value */
        setenv(variables[i], "5", 1);
        name_of_job("boot", 0, names[OTHERS + i]);
        unsetenv(variables[i]);
    }
    if (geteuid() != 0 || seteuid(65534) != 0)
        strcpy(names[4], "only root can become another user");
    else
        name_of_job("boot", 0, names[4]);
    return equal_names(names, ALL) ? 1 : 0;
}

TEST(names_of_jobs_tell_users_and_launchers_apart)
{
    int ended = 0;
    const pid_t child = fork();
    if (child == 0)
        _exit(names_tell_jobs_apart());
    assert_true(child > 0 && waitpid(child, &ended, 0) == child);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
}

int main(void)
{
    return run_all_tests("base");
}
