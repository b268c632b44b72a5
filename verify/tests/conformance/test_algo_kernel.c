/*
 * Proves that kernels compiled at run time are compiled once and launched, that compile errors are
 * reported with their line on every rank, and that the cache returns only what was stored in it,
 * from a folder that only the user can write.
 */
#define _GNU_SOURCE
#include "verify/tests/support/algo_files.h"

#include "algo/cache.h"
#include "algo/nvrtc.h"
#include "algo/process.h"
#include <weir/algo.h>
#include <weir/kernel.h>

#include <dirent.h>

static const char part[] = "#define FACTOR 10\n";
static const char source[] =
    "#include \"weir/kernel.h\"\n"
    "#include \"part.h\"\n"
    "typedef struct add_args { uint64_t *to; int32_t more; } add_args;\n"
    "WEIR_KERNEL(add, add_args, args)\n"
    "{\n"
    "    if (weir_tid() == 0 && weir_block() == 0)\n"
    "        *args.to += (uint64_t)args.more * FACTOR * weir_nthreads() * weir_nblocks();\n"
    "}\n"
    "typedef struct shared_args { unsigned char *to; } shared_args;\n"
    "WEIR_KERNEL(share, shared_args, args)\n"
    "{\n"
    "    WEIR_SHARED(room);\n"
    "    room[99] = 7;\n"
    "    *args.to = (unsigned char)room[99];\n"
    "}\n"
    "typedef struct fail_args { const weir_guard *guard; int64_t status; } fail_args;\n"
    "WEIR_KERNEL(give_up, fail_args, args)\n"
    "{\n"
    "    weir_kernel_fail(args.guard, (int)args.status);\n"
    "}\n";

static weir_status add(weir_kernel *kernel, uint64_t *to, int more)
{
    weir_params params;
    weir_params_clear(&params);
    weir_params_pointer(&params, to);
    weir_params_int32(&params, more);
    return weir_kernel_launch(kernel, 16, 256, 0, NULL, &params);
}

/* A communicator of this rank, and a test on it. */
typedef int (*on_comm)(weir_comm *comm, void *argument);
typedef struct job {
    on_comm run;
    void *argument;
} job;

static int with_comm(weir_boot *boot, void *argument)
{
    const job *what = argument;
    weir_comm *comm = open_comm(boot);
    if (!comm)
        return NO_COMM;
    int failures = what->run(comm, what->argument);
    weir_comm_destroy(comm);
    return failures;
}

static void run_on(int nranks, on_comm run, void *argument)
{
    job what = {run, argument};
    run_ranks(nranks, with_comm, &what);
}

/* ----------------------------------------------------------------- launching */

static int compile_and_launch(weir_comm *comm, void *argument)
{
    weir_kernel *kernel = NULL, *again = NULL, *share = NULL;
    char path[512];
    uint64_t sum = 1;
    unsigned char shared = 0;
    int failures = 0;
    weir_params params;
    (void)argument;
    EXPECT_OK(&failures, weir_kernel_compile(comm, algo_path(path, "a.cu"), "add", &kernel));
    EXPECT_OK(&failures, weir_kernel_compile(comm, path, "add", &again));
    EXPECT_OK(&failures, weir_kernel_compile(comm, path, "share", &share));
    if (failures)
        return failures;
    EXPECT(&failures, weir_comm_local_rank(comm) || !weir_kernel_is_cached(kernel));
    EXPECT(&failures, weir_kernel_is_cached(again) && weir_kernel_is_cached(share));
    EXPECT(&failures, strcmp(weir_kernel_name(kernel), "add") == 0);
    EXPECT_OK(&failures, add(kernel, &sum, 4));
    EXPECT_OK(&failures, add(again, &sum, -1));
    EXPECT(&failures, sum == 31); /* one block of one thread */
    weir_params_clear(&params);
    weir_params_pointer(&params, &shared);
    EXPECT_OK(&failures, weir_kernel_launch(share, 1, 1, 100, NULL, &params));
    EXPECT(&failures, shared == 7);
    EXPECT(&failures, weir_kernel_launch(share, 0, 1, 0, NULL, &params) == WEIR_ERR_INVALID);
    EXPECT(&failures, weir_kernel_launch(share, 1, 1, 0, &sum, &params) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("takes no stream"));
    weir_params_int32(&params, 1);
    EXPECT(&failures, weir_kernel_launch(share, 1, 1, 0, NULL, &params) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("a parameter of 8 bytes, not 16"));
    weir_params_bytes(&params, path, WEIR_PARAMS_BYTES, 1);
    EXPECT(&failures, weir_kernel_launch(share, 1, 1, 0, NULL, &params) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("not packed"));
    weir_kernel_free(share);
    weir_kernel_free(again);
    weir_kernel_free(kernel);
    weir_kernel_free(NULL);
    return failures;
}

static void test_a_kernel_is_compiled_once_and_launched(void **state)
{
    (void)state;
    algo_write("part.h", part);
    algo_write("a.cu", source);
    run_on(2, compile_and_launch, NULL);
}

/* What add makes of a number, and whether it came from the cache; failures. */
static int compile_and_add(weir_comm *comm, int number, uint64_t *sum, int *is_cached)
{
    weir_kernel *kernel = NULL;
    char path[512];
    int failures = 0;
    EXPECT_OK(&failures, weir_kernel_compile(comm, algo_path(path, "a.cu"), "add", &kernel));
    if (failures)
        return failures;
    *is_cached = weir_kernel_is_cached(kernel);
    EXPECT_OK(&failures, add(kernel, sum, number));
    weir_kernel_free(kernel);
    return failures;
}

static int expect_sum(weir_comm *comm, void *argument)
{
    uint64_t sum = 0;
    int is_cached = 0, failures = compile_and_add(comm, 1, &sum, &is_cached);
    EXPECT(&failures, sum == *(const uint64_t *)argument);
    return failures;
}

static void test_a_changed_header_is_seen(void **state)
{
    uint64_t factor = 12;
    (void)state;
    algo_write("part.h", "#define FACTOR 12\n");
    run_on(1, expect_sum, &factor);
    algo_write("part.h", part);
    factor = 10;
    run_on(1, expect_sum, &factor);
}

/* A kernel of a source whose includes are not all known is compiled anew each time. */
static int expect_uncached(weir_comm *comm, void *argument)
{
    uint64_t sum = 0;
    int is_cached = 1, failures = compile_and_add(comm, 1, &sum, &is_cached);
    EXPECT(&failures, sum == *(const uint64_t *)argument && !is_cached);
    return failures;
}

static void test_a_changed_header_of_a_macro_is_seen(void **state)
{
    char text[2048];
    uint64_t factor = 10;
    const char *at = strstr(source, "#include \"part.h\"\n");
    (void)state;
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s#define PART \"part.h\"\n#include PART\n%s",
             (int)(at - source), source, strchr(at, '\n') + 1);
    algo_write("a.cu", text);
    run_on(1, expect_uncached, &factor);
    algo_write("part.h", "#define FACTOR 12\n");
    factor = 12;
    run_on(1, expect_uncached, &factor);
    algo_write("part.h", part);
    algo_write("a.cu", source);
}

static int fails(weir_comm *comm, void *argument)
{
    weir_kernel *kernel = NULL;
    char path[512];
    weir_guard guard;
    weir_params params;
    int failures = 0;
    (void)argument;
    memset(&guard, 0, sizeof guard);
    EXPECT_OK(&failures, weir_kernel_compile(comm, algo_path(path, "a.cu"), "give_up", &kernel));
    if (failures)
        return failures;
    weir_params_clear(&params);
    weir_params_pointer(&params, &guard);
    weir_params_int64(&params, 0);
    EXPECT_OK(&failures, weir_kernel_launch(kernel, 1, 1, 0, NULL, &params));
    weir_params_clear(&params);
    weir_params_pointer(&params, &guard);
    weir_params_int64(&params, WEIR_ERR_INVALID);
    EXPECT(&failures, weir_kernel_launch(kernel, 1, 1, 0, NULL, &params) == WEIR_ERR_INVALID);
    EXPECT(&failures, boot_last_error_has("kernel give_up of"));
    EXPECT(&failures, weir_comm_check(comm) == WEIR_ERR_ABORTED);
    weir_kernel_free(kernel);
    return failures;
}

static void test_a_kernel_that_fails_aborts_the_communicator(void **state)
{
    (void)state;
    run_on(1, fails, NULL);
}

static void test_parameters_are_laid_out_as_structs(void **state)
{
    struct mixed {
        float a;
        double b;
        int32_t c;
        void *d;
        uint32_t e;
        uint64_t f;
        int64_t g;
        char h[3];
    } expected;
    weir_params params;
    (void)state;
    memset(&expected, 0, sizeof expected);
    expected = (struct mixed){1.5f, -2.25, -3, &params, 4, 5, -6, {7, 8, 9}};
    weir_params_clear(&params);
    weir_params_float(&params, 1.5f);
    weir_params_double(&params, -2.25);
    weir_params_int32(&params, -3);
    weir_params_pointer(&params, &params);
    weir_params_uint32(&params, 4);
    weir_params_uint64(&params, 5);
    weir_params_int64(&params, -6);
    weir_params_bytes(&params, expected.h, 3, 1);
    assert_int_equal(params.failed, 0);
    assert_int_equal(params.used_bytes, offsetof(struct mixed, h) + 3);
    struct mixed packed;
    memcpy(&packed, params.bytes, sizeof packed);
    assert_true(packed.a == expected.a && packed.b == expected.b && packed.c == expected.c &&
                packed.d == expected.d && packed.e == expected.e && packed.f == expected.f &&
                packed.g == expected.g && memcmp(packed.h, expected.h, 3) == 0);
    weir_params_bytes(&params, &expected, 8, 3);
    assert_int_equal(params.failed, 1);
}

/* -------------------------------------------------------------- bad sources */

/* A kernel to compile, and the error on every rank. */
typedef struct refusal {
    const char *file, *other_file; /* rank 1's, if another one */
    const char *name;
    weir_status status;
    const char *words[2];
} refusal;

static int is_refused(weir_comm *comm, void *argument)
{
    const refusal *what = argument;
    char path[512];
    weir_kernel *kernel = NULL;
    int failures = 0;
    const char *file = weir_comm_rank(comm) && what->other_file ? what->other_file : what->file;
    EXPECT(&failures, weir_kernel_compile(comm, file ? algo_path(path, file) : NULL, what->name,
                                          &kernel) == what->status);
    for (int i = 0; i < 2; i++)
        EXPECT(&failures, !what->words[i] || boot_last_error_has(what->words[i]));
    EXPECT(&failures, kernel == NULL);
    EXPECT_OK(&failures, weir_comm_barrier(comm));
    return failures;
}

/* Sources that include more files, or a longer one, than are read. */
static void write_beyond_limits(void)
{
    char name[32], many[8192] = "#include \"weir/kernel.h\"\n", path[512];
    for (int i = 0; i < 130; i++) {
        snprintf(name, sizeof name, "part%d.h", i);
        algo_write(name, "\n");
        snprintf(many + strlen(many), sizeof many - strlen(many), "#include \"%s\"\n", name);
    }
    algo_write("many.cu", many);
    algo_write("large.h", "\n");
    assert_int_equal(truncate(algo_path(path, "large.h"), (16 << 20) + 1), 0);
    algo_write("large.cu", "#include \"large.h\"\n");
}

static void test_bad_sources_are_refused_on_every_rank(void **state)
{
    (void)state;
    static refusal refusals[] = {
        {"broken.cu", NULL, "k", WEIR_ERR_INVALID, {"broken.cu:3:", "nonsense"}},
        {"a.cu",
         NULL,
         "subtract",
         WEIR_ERR_INVALID,
         {"no kernel 'subtract'", "add, share, give_up"}},
        {"undefined.cu", NULL, "k", WEIR_ERR_INVALID, {"undefined.cu", "does_not_exist"}},
        {"absent.cu", NULL, "k", WEIR_ERR_INVALID, {"absent.cu", "No such file"}},
        {".", NULL, "k", WEIR_ERR_INVALID, {"not a regular file", NULL}},
        {"a.cu", "absent.cu", "add", WEIR_ERR_INVALID, {"rank 1 failed", "absent.cu"}},
        {"a.cu", "undefined.cu", "add", WEIR_ERR_MISMATCH, {"not the same on all ranks", "rank 1"}},
        {"many.cu", NULL, "k", WEIR_ERR_INVALID, {"more than 128 files are included", NULL}},
        {"large.cu", NULL, "k", WEIR_ERR_INVALID, {"large.h", NULL}},
        {NULL, NULL, "add", WEIR_ERR_INVALID, {"are required", NULL}},
        {"a.cu", NULL, "", WEIR_ERR_INVALID, {"are required", NULL}},
    };
    algo_write("broken.cu", "#include \"weir/kernel.h\"\nWEIR_KERNEL(k, int32_t, args)\n"
                            "{ nonsense }\n");
    algo_write("undefined.cu", "#include \"weir/kernel.h\"\nint does_not_exist(int);\n"
                               "WEIR_KERNEL(k, int32_t, args)\n{ does_not_exist(args); }\n");
    write_beyond_limits();
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        run_on(2, is_refused, &refusals[i]);
}

static int compile_here(weir_comm *comm, void *argument)
{
    weir_kernel *kernel = NULL;
    int failures = 0;
    if (chdir(work_folder) != 0)
        return 1;
    EXPECT_OK(&failures, weir_kernel_compile(comm, argument, "add", &kernel));
    weir_kernel_free(kernel);
    return failures;
}

static void test_names_of_files_are_only_names(void **state)
{
    static char *const names[] = {"-o x 'q' \"d\" $(touch ran) `touch ran`;touch ran|.cu",
                                  "@options.cu"};
    char path[512];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[sizeof source + 32]; /* another text: it is not found in the cache */
        snprintf(text, sizeof text, "%s/* %zu */\n", source, i);
        algo_write(names[i], text);
        run_on(1, compile_here, names[i]);
    }
    assert_int_not_equal(access(algo_path(path, "ran"), F_OK), 0);
    assert_int_not_equal(access(algo_path(path, "a.out"), F_OK), 0);
}

static int compile_expecting(weir_comm *comm, void *argument)
{
    const refusal *what = argument;
    char path[512];
    weir_kernel *kernel = NULL;
    int failures = 0;
    EXPECT(&failures,
           weir_kernel_compile(comm, algo_path(path, "a.cu"), "add", &kernel) == what->status);
    EXPECT(&failures, !what->words[0] || boot_last_error_has(what->words[0]));
    weir_kernel_free(kernel);
    return failures;
}

static void test_missing_compiler_and_headers_are_reported(void **state)
{
    static refusal refusals[] = {
        {.status = WEIR_ERR_SYSTEM, .words = {"no command /absent/cc", NULL}},
        {.status = WEIR_ERR_SYSTEM, .words = {"WEIR_INCLUDE=/absent", NULL}},
    };
    (void)state;
    setenv("WEIR_CC", "/absent/cc", 1);
    run_on(1, compile_expecting, &refusals[0]);
    unsetenv("WEIR_CC");
    setenv("WEIR_INCLUDE", "/absent", 1);
    run_on(1, compile_expecting, &refusals[1]);
    unsetenv("WEIR_INCLUDE");
}

/* -------------------------------------------------------------------- cache */

/* The one entry of an otherwise empty folder; 0 if there is not exactly one. */
static int find_entry(char *path)
{
    char folder[512];
    int count = 0;
    DIR *opened = opendir(algo_path(folder, "weir"));
    for (const struct dirent *at; opened && (at = readdir(opened));)
        if (at->d_name[0] != '.' && ++count)
            snprintf(path, 1024, "%s/%s", folder, at->d_name);
    if (opened)
        closedir(opened);
    return count == 1;
}

static int cached_is(weir_comm *comm, void *argument)
{
    uint64_t sum = 0;
    int is_cached = -1, failures = compile_and_add(comm, 2, &sum, &is_cached);
    EXPECT(&failures, is_cached == *(int *)argument);
    EXPECT(&failures, sum == 20);
    return failures;
}

static void change_byte(const char *path, long at, int whence)
{
    FILE *file = fopen(path, "r+e");
    assert_non_null(file);
    fseek(file, at, whence);
    int byte = fgetc(file);
    fseek(file, at, whence);
    fputc(byte ^ 1, file);
    fclose(file);
}

static void test_a_damaged_entry_is_not_loaded(void **state)
{
    char entry[1024], folder[512];
    int yes = 1, no = 0;
    (void)state;
    setenv("WEIR_LOG", "error", 1);
    algo_remove(algo_path(folder, "weir"));
    run_on(1, cached_is, &no);
    assert_true(find_entry(entry));
    run_on(1, cached_is, &yes);
    change_byte(entry, 5000, SEEK_SET); /* the code */
    run_on(1, cached_is, &no);
    change_byte(entry, -20, SEEK_END); /* the seal */
    run_on(1, cached_is, &no);
    assert_int_equal(truncate(entry, 100), 0);
    run_on(1, cached_is, &no);
    assert_int_equal(truncate(entry, ((off_t)256 << 20) + 1), 0); /* longer than any is read */
    run_on(1, cached_is, &no);
    assert_int_equal(chmod(entry, 0722), 0); /* others may have written it */
    run_on(1, cached_is, &no);
    run_on(1, cached_is, &yes);
    assert_true(find_entry(entry)); /* there are no other files */
    unsetenv("WEIR_LOG");
}

static void test_a_folder_of_others_is_refused(void **state)
{
    static refusal refusals[] = {
        {.status = WEIR_ERR_SYSTEM, .words = {"others can write there (mode 777)", NULL}},
        {.status = WEIR_ERR_SYSTEM, .words = {"is not a folder", NULL}},
        {.status = WEIR_ERR_SYSTEM, .words = {"belongs to user 1", NULL}},
    };
    char folder[512], elsewhere[512];
    (void)state;
    assert_int_equal(chmod(algo_path(folder, "weir"), 0777), 0);
    run_on(1, compile_expecting, &refusals[0]);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(rename(folder, algo_path(elsewhere, "elsewhere")), 0);
    assert_int_equal(symlink(elsewhere, folder), 0);
    run_on(1, compile_expecting, &refusals[1]);
    assert_int_equal(unlink(folder), 0);
    assert_int_equal(rename(elsewhere, folder), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(folder, 1, 1), 0);
        run_on(1, compile_expecting, &refusals[2]);
        assert_int_equal(chown(folder, 0, 0), 0);
    }
}

static void test_without_a_home_a_temporary_folder_serves(void **state)
{
    static refusal differing = {
        "a.cu", "part.cu", "add", WEIR_ERR_MISMATCH, {"not the same", NULL}};
    int no = 0;
    char home[512], temporary[512];
    (void)state;
    snprintf(home, sizeof home, "%s", getenv("HOME") ? getenv("HOME") : "");
    algo_write("part.cu", part);
    mkdir(algo_path(temporary, "tmp"), 0700);
    setenv("TMPDIR", temporary, 1);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "nowhere", 1);
    run_on(1, cached_is, &no);
    run_on(2, is_refused, &differing);
    assert_int_equal(rmdir(temporary), 0); /* and nothing stays there */
    run_on(1, cached_is, &no);             /* nor does a TMPDIR that is not there matter */
    setenv("HOME", home, 1);
    setenv("XDG_CACHE_HOME", work_folder, 1);
    unsetenv("TMPDIR");
}

/* ------------------------------------------------------------------ compilers */

static void test_a_program_ends_at_its_deadline(void **state)
{
    static const char *const sleeps[] = {"sh", "-c", "echo begun; sleep 60 & wait", NULL};
    static const char *const silent[] = {"sh", "-c", "exec >&- 2>&-; sleep 60 & wait", NULL};
    static const char *const speaks[] = {"sh", "-c", "echo '$LANG' >&2; exit 3", NULL};
    static const char *const absent[] = {"/absent/program", NULL};
    char output[64];
    int exit_code = -1;
    double started = now_s();
    (void)state;
    assert_int_equal(weiri_process_run(sleeps, 100, output, sizeof output, &exit_code),
                     WEIR_ERR_TIMEOUT);
    assert_int_equal(weiri_process_run(silent, 100, output, sizeof output, &exit_code),
                     WEIR_ERR_TIMEOUT);
    assert_true(now_s() - started < 30);
    assert_int_equal(weiri_process_run(speaks, 20000, output, sizeof output, &exit_code), WEIR_OK);
    assert_int_equal(exit_code, 3);
    assert_string_equal(output, "$LANG\n");
    assert_int_equal(weiri_process_run(absent, 20000, output, sizeof output, &exit_code),
                     WEIR_ERR_SYSTEM);
}

/* The kernel reaps the children of a process that ignores SIGCHLD, and keeps no exit code. */
static void test_a_lost_exit_code_is_no_success(void **state)
{
    static const char *const fails[] = {"sh", "-c", "echo 'error: no'; exit 1", NULL};
    char output[64];
    int exit_code = -1;
    (void)state;
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    const weir_status status = weiri_process_run(fails, 20000, output, sizeof output, &exit_code);
    signal(SIGCHLD, before);
    assert_int_equal(status, WEIR_ERR_SYSTEM);
    assert_int_equal(exit_code, -1);
    assert_non_null(strstr(weir_last_error(), "sh ended, but its exit code is unknown"));
}

/* Compiling for a GPU needs none. */
static void test_nvrtc_compiles_the_same_source(void **state)
{
    static const char wrong[] = "#include \"weir/kernel.h\"\nWEIR_KERNEL(k, int, a)\n{ wrong }\n";
    char headers[WEIRI_PATH_BYTES], include[WEIRI_PATH_BYTES + 2], file[WEIRI_PATH_BYTES + 32];
    static char output[8192];
    char *code = NULL, *text = NULL;
    size_t bytes = 0, length = 0;
    int version = 0;
    (void)state;
    assert_int_equal(weiri_headers_folder(headers), WEIR_OK);
    if (weiri_nvrtc_open(0, &version) != WEIR_OK) {
        print_message("# %s\n", weir_last_error());
        skip();
    }
    snprintf(include, sizeof include, "-I%s", headers);
    snprintf(file, sizeof file, "%s/../algo/examples/allgather.cu", headers);
    const char *const options[] = {"--std=c++17", "-default-device", "--gpu-architecture=sm_90",
                                   include};
    assert_int_equal(weiri_file_read(file, 1 << 20, &text, &length), WEIR_OK);
    assert_int_equal(
        weiri_nvrtc_compile(text, file, options, 4, &code, &bytes, output, sizeof output), WEIR_OK);
    assert_true(bytes > 1000 && memcmp(code, "\177ELF", 4) == 0);
    assert_non_null(memmem(code, bytes, "allgather", 9));
    free(code);
    free(text);
    assert_int_equal(
        weiri_nvrtc_compile(wrong, "wrong.cu", options, 4, &code, &bytes, output, sizeof output),
        WEIR_ERR_INVALID);
    assert_non_null(strstr(output, "wrong.cu(3): error"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_kernel_is_compiled_once_and_launched),
        cmocka_unit_test(test_a_changed_header_is_seen),
        cmocka_unit_test(test_a_changed_header_of_a_macro_is_seen),
        cmocka_unit_test(test_a_kernel_that_fails_aborts_the_communicator),
        cmocka_unit_test(test_parameters_are_laid_out_as_structs),
        cmocka_unit_test(test_bad_sources_are_refused_on_every_rank),
        cmocka_unit_test(test_names_of_files_are_only_names),
        cmocka_unit_test(test_missing_compiler_and_headers_are_reported),
        cmocka_unit_test(test_a_damaged_entry_is_not_loaded),
        cmocka_unit_test(test_a_folder_of_others_is_refused),
        cmocka_unit_test(test_without_a_home_a_temporary_folder_serves),
        cmocka_unit_test(test_a_program_ends_at_its_deadline),
        cmocka_unit_test(test_a_lost_exit_code_is_no_success),
        cmocka_unit_test(test_nvrtc_compiles_the_same_source),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("kernels", tests, algo_folder_open, algo_folder_close);
}
