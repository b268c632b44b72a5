/*
 * What monitoring and other files of the library do in unusual processes: fractions in a locale
 * with a decimal comma, permissions with a umask of 0, and more communicators than there is room
 * for; the numbers of metrics; and what it reads of other processes.
 */
#define _GNU_SOURCE /* open_memstream */
#include "base/c_locale.h"
#include "base/error.h"
#include "base/links.h"
#include "comm/monitor/metrics.h"
#include "comm/monitor/ras.h"
#include "comm/monitor/settings.h"
#include "comm/monitor/status.h"
#include "plan/cost/model.h"
#include "transport/net/rdma_port.h"
#include "verify/tests/support/comma_locale.h"
#include <weir/weir.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 20, LIMIT_MS = 60000 };

static char folder[] = "/tmp/weir-monitor-XXXXXX";

/* The first file of a folder whose name ends so, read as text; "" if there is none. */
static char *read_file(const char *below, const char *end)
{
    static char text[TEXT_BYTES];
    char path[512];
    *text = '\0';
    snprintf(path, sizeof path, "%s/%s", folder, below);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *one; !*text && (one = readdir(dir));) {
        const size_t length = strlen(one->d_name), tail = strlen(end);
        if (length < tail || strcmp(one->d_name + length - tail, end) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s/%s", folder, below, one->d_name);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    closedir(dir);
    return text;
}

/* Fractions with a comma: a digit, a comma, a digit, and no quotes around it. */
static int has_comma_fraction(const char *text)
{
    for (const char *at = text; (at = strchr(at, ',')); at++)
        if (at > text && at[-1] >= '0' && at[-1] <= '9' && at[1] >= '0' && at[1] <= '9')
            return 1;
    return 0;
}

static void write_metrics_to(const char *below, const char *formats)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, below);
    setenv("WEIR_METRICS", formats, 1);
    setenv("WEIR_METRICS_DIR", path, 1);
    setenv("WEIR_METRICS_MIN_BYTES", "0", 1);
}

static void write_no_metrics(void)
{
    unsetenv("WEIR_METRICS");
    unsetenv("WEIR_METRICS_DIR");
    unsetenv("WEIR_METRICS_MIN_BYTES");
    unsetenv("WEIR_METRICS_INTERVAL_MS");
}

static int call_often(weir_boot *boot, void *argument)
{
    weir_comm *comm = NULL;
    double value = 1;
    (void)argument;
    weir_status status = weir_comm_create(boot, NULL, &comm);
    for (int i = 0; i < 64 && status == WEIR_OK; i++)
        status = weir_allreduce(comm, &value, &value, 1, WEIR_DOUBLE, WEIR_SUM, NULL);
    if (status != WEIR_OK)
        printf("# %s\n", weir_last_error());
    weir_comm_destroy(comm);
    return status != WEIR_OK;
}

static void run_two_ranks(void)
{
    int codes[2] = {1, 1};
    assert_int_equal(weir_boot_fork_run(2, call_often, NULL, LIMIT_MS, codes), WEIR_OK);
    assert_int_equal(codes[0] + codes[1], 0);
}

/* -------------------------------------------------------------------- locales */

static int has_comma_locale(void)
{
    char text[8];
    if (!comma_locale_set(folder))
        return 0;
    snprintf(text, sizeof text, "%.1f", 1.5);
    return strcmp(text, "1,5") == 0;
}

static void end_comma_locale(void)
{
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
}

TEST(files_of_links_and_models_are_read_and_written_in_any_locale)
{
    char path[512];
    weiri_links *links = NULL;
    weiri_plan_model model;
    weiri_rdma_port *ports = NULL;
    int nports = 0;
    if (!has_comma_locale())
        skip();
    test_file_write(folder, "links",
                    "weir-links 1\nmachine m\nbackend host\nendpoints 2\n"
                    "pair 0 1 12.5 1.25\npair 1 0 2.5 0.5\n"
                    "together 4096 1.5\n");
    snprintf(path, sizeof path, "%s/links", folder);
    assert_int_equal(weiri_links_read(path, &links), WEIR_OK);
    assert_true(links->gbs[1] == 12.5 && links->us[2] == 0.5 && links->together_gbs[0] == 1.5);
    snprintf(path, sizeof path, "%s/links2", folder);
    FILE *file = fopen(path, "w");
    weiri_links_write(links, file);
    fclose(file);
    char text[256];
    assert_int_equal(weiri_links_asymmetry(links, text, sizeof text), 1);
    assert_non_null(strstr(text, " 12.5 GB/s"));
    weiri_links_free(links);
    assert_int_equal(weiri_links_read(path, &links), WEIR_OK);
    assert_true(links->gbs[1] == 12.5 && links->us[1] == 1.25);
    weiri_links_free(links);
    test_file_write(folder, "model", "base = host\nop_us = 0.75\n");
    snprintf(path, sizeof path, "%s/model", folder);
    assert_int_equal(weiri_plan_model_read(path, &model), WEIR_OK);
    assert_true(model.op_us == 0.75);
    test_file_write(folder, "class/infiniband/mlx5_0/ports/1/rate", "2.5 Gb/sec (1X SDR)\n");
    assert_int_equal(weiri_rdma_ports(folder, &ports, &nports), WEIR_OK);
    assert_true(nports == 1 && ports[0].gbits == 2.5);
    free(ports);
    weiri_fail(WEIR_ERR_INVALID, "%.1f", 2.5);
    assert_string_equal(weir_last_error(), "2.5");
    snprintf(text, sizeof text, "%.1f", 2.5); /* the program's own numbers stay as they were */
    assert_string_equal(text, "2,5");
    end_comma_locale();
}

/* Metrics, and the line "cost" of a tuning file, which both ranks refuse if they cannot read it. */
TEST(metrics_and_tuning_files_have_points_in_any_locale)
{
    char path[512];
    if (!has_comma_locale())
        skip();
    test_file_write(folder, "tuning", "cost 1.5 0.25 12.5 2.5 80.5\n");
    snprintf(path, sizeof path, "%s/tuning", folder);
    setenv("WEIR_TUNING", path, 1);
    write_metrics_to("locale", "prom,json");
    run_two_ranks();
    unsetenv("WEIR_TUNING");
    write_no_metrics();
    end_comma_locale();
    const char *prom = read_file("locale", ".prom");
    assert_non_null(strstr(prom, "nccl_"));
    assert_non_null(strstr(prom, "."));
    for (const char *line = prom; (line = strchr(line, '}')); line++)
        assert_false(has_comma_fraction(strndup(line, strcspn(line, "\n"))));
    assert_non_null(strstr(read_file("locale", ".log"), "\"coll_exec_time_us\""));
    assert_false(has_comma_fraction(read_file("locale", ".log")));
}

static char *status_of(const weiri_view *view, void (*print)(const weiri_view *view, FILE *to))
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    const locale_t before = weiri_c_locale_begin();
    print(view, file);
    weiri_c_locale_end(before);
    fclose(file);
    return text;
}

TEST(a_status_has_points_in_any_locale)
{
    weiri_view view = {.took_ns = 1500000000};
    if (!has_comma_locale())
        skip();
    char *text = status_of(&view, weiri_status_json);
    assert_non_null(strstr(text, "\"collection_time_sec\": 1.5"));
    free(text);
    text = status_of(&view, weiri_status_text);
    assert_non_null(strstr(text, "(1.50s)"));
    free(text);
    end_comma_locale();
}

/* ---------------------------------------------------------------- permissions */

TEST(others_may_not_write_metrics_with_a_umask_of_0)
{
    const mode_t before = umask(0);
    write_metrics_to("mask/deep", "prom,json");
    run_two_ranks();
    write_no_metrics();
    umask(before);
    char command[512];
    snprintf(command, sizeof command,
             "test -s %s/mask/deep/*0.prom && ! find %s/mask -perm -o=w | grep .", folder, folder);
    assert_int_equal(system(command), 0);
}

/* -------------------------------------------------------------------- growth */

enum { ENDED = 40 };

/* Communicators that follow each other; no thread runs between them. */
static int create_often(weir_boot *boot, void *count)
{
    for (int i = 0; i < *(int *)count; i++) {
        weir_comm *comm = NULL;
        double value = 1;
        if (weir_comm_create(boot, NULL, &comm) != WEIR_OK ||
            weir_allreduce(comm, &value, &value, 1, WEIR_DOUBLE, WEIR_SUM, NULL) != WEIR_OK ||
            weir_comm_destroy(comm) != WEIR_OK)
            return 1;
        usleep(3000);
    }
    return 0;
}

/* A file of another process that had, or in another container has, this process's number. */
static int create_beside_foreign_file(weir_boot *boot, void *below)
{
    char host[64], path[512], text[64] = "";
    struct stat own;
    int count = 2;
    gethostname(host, sizeof host);
    snprintf(path, sizeof path, "%s/%s/%s-pid%d.log", folder, (char *)below, host, (int)getpid());
    FILE *file = fopen(path, "w");
    if (!file || fputs("foreign\n", file) < 0 || fclose(file) != 0)
        return 2;
    if (create_often(boot, &count) != 0)
        return 1;
    file = fopen(path, "r");
    if (!file || !fgets(text, sizeof text, file) || strcmp(text, "foreign\n") != 0 ||
        fgetc(file) != EOF || fclose(file) != 0)
        return 3;
    snprintf(path + strlen(path) - strlen(".log"), 8, ".1.log");
    if (stat(path, &own) != 0 || own.st_size == 0)
        return 4;
    snprintf(path + strlen(path) - strlen(".1.log"), 8, ".2.log");
    return stat(path, &own) == 0 ? 5 : 0;
}

/* The limit comes after the communicator, whose shared memory it counts, too. */
static int create_with_short_files(weir_boot *boot, void *argument)
{
    const struct rlimit limit = {16, RLIM_INFINITY};
    weir_comm *comm = NULL;
    double value = 1;
    (void)argument;
    signal(SIGXFSZ, SIG_DFL);
    return weir_comm_create(boot, NULL, &comm) != WEIR_OK ||
           weir_allreduce(comm, &value, &value, 1, WEIR_DOUBLE, WEIR_SUM, NULL) != WEIR_OK ||
           setrlimit(RLIMIT_FSIZE, &limit) != 0 || weir_comm_destroy(comm) != WEIR_OK;
}

TEST(metrics_beyond_the_limit_of_file_sizes_end_no_program)
{
    int codes[2] = {1, 1};
    write_metrics_to("short", "prom,json");
    assert_int_equal(weir_boot_fork_run(2, create_with_short_files, NULL, LIMIT_MS, codes),
                     WEIR_OK);
    write_no_metrics();
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 0);
}

static int create_with_log(weir_boot *boot, void *path)
{
    int count = 2;
    return !freopen(path, "a", stderr) || create_often(boot, &count) != 0;
}

/* Other processes of the host have the names of all Prometheus files. */
TEST(a_process_without_a_free_file_says_so_once)
{
    enum { FILES = 1024 };
    struct rlimit limit;
    char command[512], host[64], path[512];
    int codes[2] = {1, 1}, locked[FILES];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    if (limit.rlim_max < FILES + 200 || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        skip();
    snprintf(command, sizeof command, "mkdir -p %s/taken", folder);
    assert_int_equal(system(command), 0);
    gethostname(host, sizeof host);
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/taken/.nccl_inspector_%s_%d.lock", folder, host, i);
        locked[i] = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0664);
        assert_int_equal(flock(locked[i], LOCK_EX | LOCK_NB), 0);
    }
    write_metrics_to("taken", "prom");
    snprintf(path, sizeof path, "%s/taken/log", folder);
    assert_int_equal(weir_boot_fork_run(2, create_with_log, path, LIMIT_MS, codes), WEIR_OK);
    write_no_metrics();
    for (int i = 0; i < FILES; i++)
        close(locked[i]);
    assert_int_equal(codes[0] + codes[1], 0);
    snprintf(command, sizeof command,
             "test $(grep -c 'have all 1024 Prometheus files' %s/taken/log) = 2", folder);
    assert_int_equal(system(command), 0);
}

TEST(a_file_of_another_process_is_not_written_to)
{
    int codes[2] = {1, 1};
    char command[512];
    snprintf(command, sizeof command, "mkdir -p %s/foreign", folder);
    assert_int_equal(system(command), 0);
    write_metrics_to("foreign", "json");
    assert_int_equal(
        weir_boot_fork_run(2, create_beside_foreign_file, (void *)"foreign", LIMIT_MS, codes),
        WEIR_OK);
    write_no_metrics();
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], 0);
}

static int count_of(const char *text, const char *words)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, words)); at++)
        count++;
    return count;
}

static int communicators_in_file(const char *below, int count)
{
    int codes[2] = {1, 1};
    assert_int_equal(weir_boot_fork_run(2, create_often, &count, LIMIT_MS, codes), WEIR_OK);
    assert_int_equal(codes[0] + codes[1], 0);
    return count_of(read_file(below, ".prom"), "\nweir_calls_total{");
}

TEST(metrics_forget_communicators_that_ended_before_the_interval)
{
    write_metrics_to("forget", "prom");
    setenv("WEIR_METRICS_INTERVAL_MS", "1", 1);
    const int found = communicators_in_file("forget", ENDED);
    assert_in_range(found, 1, 4);
    setenv("WEIR_METRICS_INTERVAL_MS", "60000", 1);
    assert_int_equal(communicators_in_file("forget", ENDED), ENDED);
    unsetenv("WEIR_METRICS_INTERVAL_MS"); /* written when a communicator ends: all stay */
    assert_int_equal(communicators_in_file("forget", ENDED), ENDED);
    write_no_metrics();
}

TEST(metrics_keep_the_latest_256_communicators_that_ended)
{
    enum { KEPT = 256, MORE = KEPT + 9 };
    write_metrics_to("many", "prom");
    setenv("WEIR_METRICS_INTERVAL_MS", "600000", 1);
    /* and the one that is about to end when it writes the file */
    assert_int_equal(communicators_in_file("many", MORE), KEPT + 1);
    write_no_metrics();
}

/* Communicators that end in the order in which they were created. */
static int end_in_order(weir_boot *boot, void *argument)
{
    enum { COMMS = 3 };
    weir_comm *comms[COMMS];
    double value = 1;
    int failed = 0;
    (void)argument;
    for (int i = 0; i < COMMS; i++)
        if (weir_comm_create(boot, NULL, &comms[i]) != WEIR_OK)
            return 1;
    for (int i = 0; i < COMMS && !failed; i++) {
        for (int j = i; j < COMMS; j++)
            failed |= weir_allreduce(comms[j], &value, &value, 1, WEIR_DOUBLE, WEIR_MAX, NULL);
        failed |= weir_comm_destroy(comms[i]);
    }
    return failed;
}

TEST(communicators_end_in_any_order)
{
    int codes[2] = {1, 1};
    write_metrics_to("order", "prom");
    assert_int_equal(weir_boot_fork_run(2, end_in_order, NULL, LIMIT_MS, codes), WEIR_OK);
    assert_int_equal(codes[0] + codes[1], 0);
    assert_int_equal(count_of(read_file("order", ".prom"), "\nweir_calls_total{"), 3);
    write_no_metrics();
}

/* A view of so many communicators of this process. */
static void fill_view(weiri_view *view, int count)
{
    for (int i = 0; i < count; i++) {
        weiri_view_comm *comm = weiri_view_comm_of(view, 0xffffffffffff0000u + (uint64_t)i, 1);
        if (comm)
            comm->is_own = 1;
    }
}

TEST(a_question_between_processes_fits_in_a_line)
{
    weiri_view view = {.ncomms = 0};
    char *text = NULL;
    size_t length = 0;
    fill_view(&view, WEIRI_VIEW_COMMS);
    FILE *file = open_memstream(&text, &length);
    weiri_gather_ask(&view, 1, file);
    fclose(file);
    assert_in_range(length, 17 * WEIRI_RECORDS_KNOWN, WEIRI_SERVER_LINE_BYTES - 1);
    assert_int_equal(count_of(text, " ffff"), WEIRI_RECORDS_KNOWN);
    free(text);
    file = open_memstream(&text, &length);
    weiri_gather_ask(&view, 0, file); /* another node's process sees none of these */
    fclose(file);
    assert_string_equal(text, "WEIR RECORDS\n");
    free(text);
    weiri_view_free(&view);
}

TEST(a_status_says_that_communicators_are_left_out)
{
    weiri_view view = {.ncomms = 0};
    fill_view(&view, WEIRI_VIEW_COMMS);
    char *text = status_of(&view, weiri_status_json);
    assert_null(strstr(text, "communicators_omitted"));
    free(text);
    fill_view(&view, WEIRI_VIEW_COMMS + 1);
    assert_int_equal(view.ncomms, WEIRI_VIEW_COMMS);
    text = status_of(&view, weiri_status_json);
    assert_non_null(strstr(text, "\"communicators_omitted\": true"));
    free(text);
    text = status_of(&view, weiri_status_text);
    assert_non_null(
        strstr(text, "There are more than 1024 communicators; the others are not shown"));
    free(text);
    weiri_view_free(&view);
}

/* A communicator whose ranks are processes of two nodes, the first of which has all but one. */
static void add_spread_comm(weiri_view *view, uint64_t hash, int nranks, int ngpus)
{
    weiri_view_comm *comm = weiri_view_comm_of(view, hash, nranks);
    comm->nnodes = 2;
    for (int rank = 0; rank < nranks; rank++) {
        comm->ranks[rank].peer = (weiri_monitor_peer){.host = rank < nranks - 1 ? 0xa : 0xb,
                                                      .pid = rank < nranks - 1 ? 10 + rank : 10};
        comm->ranks[rank].device = rank < ngpus ? rank : -1;
        comm->ranks[rank].seen = WEIRI_SEEN_RUNNING;
    }
}

/* Whether a text has a line with these words. */
static int has_words(const char *text, const char *words)
{
    char line[256];
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        size_t length = 0;
        for (const char *c = at; *c && *c != '\n' && length < sizeof line - 2; c++)
            if (*c != ' ' || (length && line[length - 1] != ' '))
                line[length++] = *c;
        line[length] = '\0';
        if (strncmp(line, words, strlen(words)) == 0)
            return 1;
    }
    return 0;
}

TEST(a_status_counts_nodes_processes_gpus_and_ranks_of_groups)
{
    weiri_view view = {.ncomms = 0};
    /* The smallest first: groups are sorted. */
    add_spread_comm(&view, 0x30, 2, 0);
    view.comms[0].nnodes = 1;
    add_spread_comm(&view, 0x20, 2, 0);
    for (int i = 0; i < 3; i++)
        add_spread_comm(&view, 0x10u + (uint64_t)i, 5, 3);
    char *text = status_of(&view, weiri_status_text);
    /* Nodes, processes per node, GPUs per process, processes, GPUs. */
    if (!has_words(text, "2 4 1 5 3\n") && !has_words(text, "2 4 1 5 3"))
        fail_msg("no line of 2 nodes and 5 processes in\n%s", text);
    /* Group, communicators, nodes, ranks per node, per communicator, in the group. */
    if (!has_words(text, "0 3 2 2-3 5 15 ") || !has_words(text, "1 1 2 1 2 2 ") ||
        !has_words(text, "2 1 1 "))
        fail_msg("no groups of 15, 2 and 2 ranks in this order in\n%s", text);
    free(text);
    weiri_view_free(&view);
}

/* ------------------------------------------------------- records of other processes */

#define COUNTS " 1 2 3 4 5 6 7 8 9 10"

/* Reads records into a view of one communicator of two ranks. */
static weiri_view view_of(const char *records)
{
    weiri_view view = {.ncomms = 0};
    char *text = strdup(records);
    (void)weiri_view_comm_of(&view, 0xa, 2);
    weiri_records_read(&view, text);
    free(text);
    return view;
}

/* Expects a rank to be in this state after records of it alone. */
static void expect_seen(weiri_seen seen, int rank, const char *line)
{
    char records[512];
    snprintf(records, sizeof records, "comm a 2 1 name\n%s\nend\n", line);
    weiri_view view = view_of(records);
    if (view.comms[0].ranks[rank].seen != seen)
        fail_msg("'%s': %d, expected %d", line, (int)view.comms[0].ranks[rank].seen, (int)seen);
    weiri_view_free(&view);
}

TEST(records_of_ranks_are_read_or_ignored_as_a_whole)
{
    assert_int_equal(WEIRI_MONITOR_COUNTS, count_of(COUNTS, " "));
    expect_seen(WEIRI_SEEN_RUNNING, 1, "rank 1 1 b 7 - h -1 0 0 -1 0 0" COUNTS);
    expect_seen(WEIRI_SEEN_RUNNING, 0, "rank 0 1 b 7 - h -1 0 0 -1 0 0" COUNTS);
    expect_seen(WEIRI_SEEN_DEAD, 1, "rank 1 4 b 7 - h -1 0 0 -1 0 0" COUNTS);
    expect_seen(WEIRI_SEEN_NOT, 1, "rank 1 5 b 7 - h -1 0 0 -1 0 0" COUNTS);
    expect_seen(WEIRI_SEEN_NOT, 1, "rank 1 1 b 7 - h -1 0 0 -1 0 0 1 2 3");
    expect_seen(WEIRI_SEEN_NOT, 1, "rank 1 1 b 7 - h -1 0 0 -1");
    expect_seen(WEIRI_SEEN_NOT, 1, "rank 2 1 b 7 - h -1 0 0 -1 0 0" COUNTS);
    expect_seen(WEIRI_SEEN_NOT, 1, "rank -1 1 b 7 - h -1 0 0 -1 0 0" COUNTS);
    expect_seen(WEIRI_SEEN_NOT, 1, "comm a 3 1 other\nrank 1 1 b 7 - h -1 0 0 -1 0 0" COUNTS);
    expect_seen(WEIRI_SEEN_NOT, 1, "end\nrank 1 1 b 7 - h -1 0 0 -1 0 0" COUNTS);
    /* Only silent ranks are described again. */
    expect_seen(WEIRI_SEEN_STOPPED, 1,
                "rank 1 2 b 7 - h -1 0 0 -1 0 0" COUNTS "\nrank 1 1 b 7 - h -1 0 0 -1 0 0" COUNTS);
    expect_seen(WEIRI_SEEN_RUNNING, 1,
                "rank 1 3 b 7 - h -1 0 0 -1 0 0" COUNTS "\nrank 1 1 b 7 - h -1 0 0 -1 0 0" COUNTS);
}

TEST(records_of_ranks_have_all_fields)
{
    weiri_view view = view_of("comm a 2 5 name of it\n"
                              "rank 1 1 b 7 10.0.0.4:50 host 3 1 1 1 99 640" COUNTS "\n"
                              "phase step\ntimed 4 5 6\ntimed 7 8\ntimed 9 10 11\nend\n");
    const weiri_view_comm *comm = &view.comms[0];
    const weiri_view_rank *rank = &comm->ranks[1];
    assert_true(comm->nnodes == 5 && strcmp(comm->name, "name of it") == 0);
    assert_true(rank->peer.host == 0xb && rank->peer.pid == 7 && rank->peer.address.port == 50);
    assert_true(strcmp(rank->host, "host") == 0 && rank->device == 3);
    assert_true(rank->is_aborted && rank->is_finished && rank->awaited == 1);
    assert_true(rank->awaited_ns == 99 && rank->call == 640 && rank->counts[9] == 10);
    assert_string_equal(rank->phase, "step");
    assert_true(rank->ncalls == 2 && rank->calls[0].duration_ns == 6 &&
                rank->calls[1].number == 9 && rank->calls[1].begin_ns == 10);
    weiri_view_free(&view);
    view = view_of("comm a 2 1 n\nrank 0 1 b 7 - h -1 0 0 2 0 0" COUNTS "\nend\n");
    assert_int_equal(view.comms[0].ranks[0].awaited, -1); /* no such rank */
    weiri_view_free(&view);
}

/* A text of so many letters. */
static const char *letters(int count)
{
    static char text[256];
    memset(text, 'n', (size_t)count);
    text[count] = '\0';
    return text;
}

TEST(texts_of_records_are_cut_and_cleaned)
{
    char records[1024];
    for (int more = -1; more <= 1; more++) {
        snprintf(records, sizeof records, "comm a 2 1 %s\n",
                 letters(WEIRI_MONITOR_NAME_BYTES + more));
        size_t used = strlen(records);
        snprintf(records + used, sizeof records - used,
                 "rank 1 1 b 7 - h -1 0 0 -1 0 0" COUNTS "\nphase %s\nend\n",
                 letters(WEIRI_TEXT_BYTES + 1 + more));
        weiri_view view = view_of(records);
        const weiri_view_comm *comm = &view.comms[0];
        assert_non_null(memchr(comm->name, '\0', sizeof comm->name));
        assert_non_null(memchr(comm->ranks[1].phase, '\0', sizeof comm->ranks[1].phase));
        assert_int_equal(strlen(comm->name), WEIRI_MONITOR_NAME_BYTES - 1);
        assert_int_equal(strlen(comm->ranks[1].phase), WEIRI_TEXT_BYTES);
        weiri_view_free(&view);
    }
    weiri_view view = view_of("comm a 2 1 \"a\\ ~\t\x7f\x80z\nend\n");
    assert_string_equal(view.comms[0].name, "?a? ~???z");
    weiri_view_free(&view);
}

TEST(timed_calls_beyond_the_room_are_left_out)
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    fprintf(file, "comm a 2 1 n\nrank 1 1 b 7 - h -1 0 0 -1 0 0" COUNTS "\n");
    for (int i = 0; i < WEIRI_MONITOR_CALLS + 1; i++)
        fprintf(file, "timed %d 1 1\n", i);
    fprintf(file, "end\n");
    fclose(file);
    weiri_view view = view_of(text);
    assert_int_equal(view.comms[0].ranks[1].ncalls, WEIRI_MONITOR_CALLS);
    weiri_view_free(&view);
    free(text);
}

/* A process that answers every question with two pieces, the second one later. It repeats the
 * second one `repeats` times. */
typedef struct answering {
    int listener, asked, repeats;
    const char *pieces[2];
    char address[64], question[64];
    pthread_t thread;
} answering;

static void *answer_all(void *argument)
{
    answering *one = argument;
    for (int fd; (fd = accept(one->listener, NULL, NULL)) >= 0; close(fd)) {
        one->asked++;
        const ssize_t got = recv(fd, one->question, sizeof one->question - 1, 0);
        one->question[got > 0 ? got : 0] = '\0';
        ssize_t sent = send(fd, one->pieces[0], strlen(one->pieces[0]), MSG_NOSIGNAL);
        usleep(20000);
        for (int i = 0; i < one->repeats && sent >= 0; i++)
            sent = send(fd, one->pieces[1], strlen(one->pieces[1]), MSG_NOSIGNAL);
    }
    return NULL;
}

static void answering_begin(answering *one, const char *first, const char *second, int repeats)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    *one = (answering){.pieces = {first, second}, .repeats = repeats};
    one->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(one->listener, (struct sockaddr *)&name, length), 0);
    assert_int_equal(listen(one->listener, 8), 0);
    assert_int_equal(getsockname(one->listener, (struct sockaddr *)&name, &length), 0);
    snprintf(one->address, sizeof one->address, "127.0.0.1:%d", ntohs(name.sin_port));
    assert_int_equal(pthread_create(&one->thread, NULL, answer_all, one), 0);
}

static void answering_end(answering *one)
{
    shutdown(one->listener, SHUT_RDWR);
    pthread_join(one->thread, NULL);
    close(one->listener);
}

/* Makes a process known that has both ranks of the communicator. */
static weiri_view view_with(const answering *one)
{
    weiri_view view = {.ncomms = 0};
    weiri_view_comm *comm = weiri_view_comm_of(&view, 0xa, 2);
    weiri_named_address named;
    assert_int_equal(weiri_named_address_parse(one->address, &named), WEIR_OK);
    for (int rank = 0; rank < 2; rank++)
        comm->ranks[rank].peer = (weiri_monitor_peer){0xb, 7, named.address};
    return view;
}

static void gather_into(weiri_view *view, int is_stopped)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    if (is_stopped)
        assert_int_equal(write(ends[1], "", 1), 1);
    weiri_gather(view, ends[0], 30);
    close(ends[0]);
    close(ends[1]);
}

static void expect_gathered(const weiri_view *view, int timeouts, weiri_seen first,
                            weiri_seen second)
{
    assert_int_equal(view->timeouts, timeouts);
    assert_int_equal(view->comms[0].ranks[0].seen, first);
    assert_int_equal(view->comms[0].ranks[1].seen, second);
}

#define RANK_OF(rank, address) "rank " #rank " 1 c 8 " address " h -1 0 0 -1 0 0" COUNTS "\n"

TEST(answers_in_pieces_are_read_to_their_end)
{
    answering one;
    answering_begin(&one, "comm a 2 1 n\n" RANK_OF(0, "-"), RANK_OF(1, "-") "end\n", 1);
    weiri_view view = view_with(&one);
    gather_into(&view, 0);
    expect_gathered(&view, 0, WEIRI_SEEN_RUNNING, WEIRI_SEEN_RUNNING);
    answering_end(&one);
    assert_int_equal(one.asked, 1); /* one process, not two ranks */
    assert_string_equal(one.question, "WEIR RECORDS\n");
    weiri_view_free(&view);
}

TEST(long_answers_are_read_to_a_limit)
{
    enum { LINE_BYTES = 1000, ENOUGH = 200, TOO_MANY = 20000 };
    static char line[LINE_BYTES + 1];
    memset(line, 'x', LINE_BYTES);
    line[LINE_BYTES - 1] = '\n';
    for (int count = ENOUGH; count <= TOO_MANY; count += TOO_MANY - ENOUGH) {
        answering one;
        answering_begin(&one, "comm a 2 1 n\n" RANK_OF(0, "-"), line, count);
        weiri_view view = view_with(&one);
        gather_into(&view, 0);
        /* No answer of these has an end; the ranks in it are read. */
        expect_gathered(&view, 1, WEIRI_SEEN_RUNNING, WEIRI_SEEN_SILENT);
        answering_end(&one);
        weiri_view_free(&view);
    }
}

TEST(processes_that_answers_name_are_asked_next)
{
    char first[256];
    answering one, other;
    answering_begin(&other, "comm a 2 1 n\n", "rank 1 1 c 8 - h -1 0 0 -1 0 0" COUNTS "\nend\n", 1);
    snprintf(first, sizeof first, "comm a 2 1 n\nrank 0 1 c 9 %s h -1 0 0 -1 0 0" COUNTS "\n",
             other.address);
    answering_begin(&one, first, "end\n", 1);
    weiri_view view = view_with(&one);
    gather_into(&view, 0);
    expect_gathered(&view, 0, WEIRI_SEEN_RUNNING, WEIRI_SEEN_RUNNING);
    answering_end(&one);
    answering_end(&other);
    assert_int_equal(one.asked, 1);
    assert_int_equal(other.asked, 1);
    weiri_view_free(&view);
}

TEST(dead_and_stopped_ranks_are_not_asked)
{
    answering one;
    answering_begin(&one, "end\n", "", 1);
    weiri_view view = view_with(&one);
    view.comms[0].ranks[0].seen = WEIRI_SEEN_DEAD;
    view.comms[0].ranks[1].seen = WEIRI_SEEN_STOPPED;
    gather_into(&view, 0);
    expect_gathered(&view, 0, WEIRI_SEEN_DEAD, WEIRI_SEEN_STOPPED);
    answering_end(&one);
    assert_int_equal(one.asked, 0);
    weiri_view_free(&view);
}

TEST(processes_that_are_gone_or_slower_than_the_end_are_silent)
{
    answering one;
    answering_begin(&one, "comm a 2 1 n\n", RANK_OF(0, "-") "end\n", 1);
    weiri_view view = view_with(&one);
    gather_into(&view, 1);
    expect_gathered(&view, 1, WEIRI_SEEN_SILENT, WEIRI_SEEN_SILENT);
    answering_end(&one);
    weiri_view_free(&view);
    view = view_with(&one);
    gather_into(&view, 0);
    expect_gathered(&view, 1, WEIRI_SEEN_SILENT, WEIRI_SEEN_SILENT);
    weiri_view_free(&view);
}

/* Silent processes, more than are asked: all are counted. */
TEST(more_processes_than_are_asked_count_as_silent)
{
    answering one;
    weiri_named_address named;
    answering_begin(&one, "end\n", "", 1);
    assert_int_equal(weiri_named_address_parse(one.address, &named), WEIR_OK);
    answering_end(&one); /* its connections are refused */
    weiri_view view = {.ncomms = 0};
    for (int i = 0; i < 2; i++) {
        const int nranks = i ? 100 : WEIR_RANKS_MAX;
        weiri_view_comm *comm = weiri_view_comm_of(&view, 0xa + (uint64_t)i, nranks);
        for (int rank = 0; rank < nranks; rank++)
            comm->ranks[rank].peer =
                (weiri_monitor_peer){0xb, 1 + i * WEIR_RANKS_MAX + rank, named.address};
    }
    gather_into(&view, 0);
    expect_gathered(&view, WEIR_RANKS_MAX + 100, WEIRI_SEEN_SILENT, WEIRI_SEEN_SILENT);
    weiri_view_free(&view);
}

/* --------------------------------------------------------------- numbers of metrics */

TEST(ranges_of_sizes_begin_at_their_lower_end)
{
    static const struct {
        uint64_t bytes, least;
        const char *text;
    } rows[] = {{0, 0, "0B"},
                {1, 1, "1-2B"},
                {1023, 1023, "1023-1024B"},
                {1024, 1024, "1-2KB"},
                {2047, 1024, "1-2KB"},
                {2048, 2048, "2-3KB"},
                {(1 << 20) - 1, 1023 << 10, "1023-1024KB"},
                {1 << 20, 1 << 20, "1-2MB"},
                {(uint64_t)5 << 30, (uint64_t)5 << 30, "5-6GB"},
                {(uint64_t)2000 << 40, (uint64_t)2000 << 40, "2000-2001TB"}};
    char text[32];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(weiri_metrics_range(rows[i].bytes, text) == rows[i].least);
        assert_string_equal(text, rows[i].text);
    }
}

static const weiri_metrics_labels labels = {0xabc, 3, 4, 2, -1, "name"};

/* The line of a call of 8 KiB that took 2 us. */
static char *json_line(int function)
{
    const weiri_metrics_call call = {.call = {.function = function,
                                              .number = 7,
                                              .bytes = 8192,
                                              .traffic_bytes = 16384,
                                              .peer = 1,
                                              .algo = "ring"},
                                     .duration_ns = 2000};
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    weiri_metrics_print_json(&labels, &call, file);
    fclose(file);
    return text;
}

/* Whether a line has all words, which blanks divide. */
static int line_has(const char *line, const char *words)
{
    char copy[512];
    int missing = 0;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *at, *word = strtok_r(copy, " ", &at); word; word = strtok_r(NULL, " ", &at))
        if (!strstr(line, word)) {
            printf("# no %s in %s\n", word, line);
            missing++;
        }
    return missing == 0;
}

TEST(lines_of_calls_have_their_kind_and_numbers)
{
    static const struct {
        int function;
        const char *words;
    } rows[] = {
        {WEIR_COLL_ALLREDUCE, "\"coll_perf\" \"coll_sn\":7 \"coll_msg_size_bytes\":8192 "
                              "\"coll_exec_time_us\":2 \"coll_algobw_gbs\":8.192 "
                              "\"coll_busbw_gbs\":12.288 \"coll_algo\":\"ring\" \"rank\":3 "
                              "\"n_ranks\":4 \"collective_cpu\""},
        {WEIR_COLL_ALLTOALLV, "\"coll_perf\" \"coll_busbw_gbs\":6.144"},
        {WEIR_COLL_SENDRECV, "\"p2p_perf\" \"p2p_sn\":7 \"p2p_peer\":1 \"p2p_busbw_gbs\":8.192"},
        {WEIRI_MONITOR_SEND, "\"p2p_perf\" \"p2p\":\"Send\" \"p2p_msg_size_bytes\":8192"},
        {WEIRI_MONITOR_RECV, "\"p2p\":\"Recv\" \"p2p_exec_time_us\":2 \"p2p_busbw_gbs\":8.192"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *line = json_line(rows[i].function), *to = line;
        for (const char *from = line; *from; from++) /* without blanks */
            if (*from != ' ')
                *to++ = *from;
        *to = '\0';
        assert_true(line_has(line, rows[i].words));
        free(line);
    }
}

TEST(buckets_have_mean_times_and_geometric_mean_bandwidths)
{
    weiri_metrics_bucket buckets[] = {
        {WEIR_COLL_ALLREDUCE, 2048, "ring", 4, 2, 10, log(2) + log(8)},
        {WEIR_COLL_SENDRECV, 1024, "", 1, 1, 3, log(5)},
        {WEIRI_MONITOR_SEND, 1, "", 2, 0, 9, 0},
        {WEIR_COLL_REDUCE, 1, "", 0, 0, 0, 0}};
    weiri_metrics_comm comm = {.labels = labels,
                               .straggler = {.rank = 2, .waited_ns = 1500000000},
                               .buckets = buckets,
                               .nbuckets = 4};
    comm.counts[WEIR_COLL_ALLREDUCE] = 5;
    comm.counts[WEIRI_MONITOR_RECV] = 1;
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    weiri_metrics_print_prom(&comm, file);
    fclose(file);
    static const char *const lines[] = {
        "collective=\"AllReduce\",message_size=\"2-3KB\",algo_proto=\"ring\"} 2.5\n",
        "collective=\"AllReduce\",message_size=\"2-3KB\",algo_proto=\"ring\"} 4\n",
        "message_size=\"1-2KB\"} 3\n",
        "message_size=\"1-2KB\"} 5\n",
        "p2p_operation=\"Send\",message_size=\"1-2B\"} 4.5\n",
        "p2p_operation=\"Send\",message_size=\"1-2B\"} 0\n",
        ",function=\"AllReduce\"} 5\n",
        ",function=\"Recv\"} 1\n",
        ",straggler=\"2\"} 1.5\n",
        "gpu=\"none\",comm_name=\"name\",n_nodes=\"2\",nranks=\"4\",comm=\"0x0000000000000abc\","
        "rank=\"3\""};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i]))
            fail_msg("no %s in\n%s", lines[i], text);
    assert_int_equal(count_of(text, "p2p_operation="), 4);
    assert_int_equal(count_of(text, "\nweir_calls_total{"), 2);
    assert_null(strstr(text, "Reduce\",message_size=\"1-2B"));
    free(text);
    comm.straggler.rank = -1;
    comm.labels.device = 0;
    static const char *const jobs[] = {"a-long-number-of-a-job", "7", NULL};
    static const char *const shown[] = {"slurm_job_id=\"a-long-number-of-a-job\"",
                                        "slurm_job_id=\"7\"", "slurm_job_id=\"unknown\""};
    for (int i = 0; i < 3; i++) {
        if (jobs[i])
            setenv("SLURM_JOB_ID", jobs[i], 1);
        else
            unsetenv("SLURM_JOB_ID");
        file = open_memstream(&text, &length);
        weiri_metrics_print_prom(&comm, file);
        fclose(file);
        if (!strstr(text, shown[i]))
            fail_msg("no %s in\n%s", shown[i], text);
        free(text);
    }
    file = open_memstream(&text, &length);
    weiri_metrics_print_prom(&comm, file);
    fclose(file);
    assert_null(strstr(text, "straggler=\""));
    assert_non_null(strstr(text, "gpu=\"GPU0\""));
    free(text);
}

/* What the environment asks for, with one of NCCL's variables. */
static weiri_monitor_settings settings_with(const char *formats, const char *nccl_us)
{
    weiri_monitor_settings settings;
    weiri_monitor_use_nccl("2.28.9");
    setenv("WEIR_METRICS", formats, 1);
    setenv("NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS", nccl_us, 1);
    assert_int_equal(weiri_monitor_settings_read(&settings), 1);
    unsetenv("NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS");
    unsetenv("WEIR_METRICS");
    weiri_monitor_use_nccl(NULL);
    return settings;
}

TEST(settings_have_their_defaults_and_limits)
{
    weiri_monitor_settings settings;
    assert_int_equal(weiri_monitor_settings_read(&settings), 0);
    assert_true(settings.interval_us == -1);
    /* Prometheus files every 30 s at most, but at the end only if nothing else is said. */
    assert_true(settings_with("prom", "0").interval_us == 30000000);
    assert_true(settings_with("prom", "29999999").interval_us == 30000000);
    assert_true(settings_with("prom", "30000001").interval_us == 30000001);
    assert_true(settings_with("json", "0").interval_us == 0);
    settings = settings_with("prom,json", "-1");
    assert_true(settings.interval_us == -1 && settings.writes_prom && settings.writes_json);
    assert_true(settings.least_bytes == 8192 && settings.has_pairs && settings.ncalls == 64);
    setenv("WEIR_METRICS", "json", 1);
    setenv("WEIR_METRICS_INTERVAL_MS", "0", 1);
    assert_int_equal(weiri_monitor_settings_read(&settings), 1);
    assert_true(settings.interval_us == 0 && !settings.writes_prom && settings.writes_json);
    setenv("WEIR_METRICS_INTERVAL_MS", "7", 1);
    weiri_monitor_settings_read(&settings);
    assert_true(settings.interval_us == 7000);
    write_no_metrics();
}

int main(void)
{
    char command[64];
    setenv("WEIR_BACKEND", "host", 1);
    if (!mkdtemp(folder))
        return 1;
    const int failed = run_all_tests("monitor");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || failed;
}
