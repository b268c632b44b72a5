/*
 * lib/programs: the start of a program, colours and progress, strict numbers, the table of options
 * (parsing, defaults, --help, the comparison of ranks, and the record of results), and files that
 * are replaced at once.
 */
#define _GNU_SOURCE /* terminals */
#include "base/json.h"
#include "programs/numbers.h"
#include "programs/options.h"
#include "programs/program.h"
#include "programs/terminal.h"
#include "base/write_file.h"
#include "verify/tests/support/entries.h"
#include "verify/tests/support/test_files.h"

#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

/* ------------------------------------------------------------------ terminal */

static double fake_s;

static double fake_clock(void)
{
    return fake_s;
}

/* Shows a job of 100 s every second, and returns what it wrote to the stream of a pipe. */
static char *progress_of(int quiet, int has_end)
{
    static char text[4096];
    weiri_progress progress;
    memset(text, 0, sizeof text);
    FILE *to = fmemopen(text, sizeof text - 1, "w");
    assert_non_null(to);
    fake_s = 1000;
    weiri_progress_begin(&progress, to, "prog", quiet);
    progress.now_s = fake_clock;
    progress.began_s = fake_s;
    for (int second = 1; second <= 100; second++) {
        fake_s += 1;
        weiri_progress_show(&progress, "8 B", has_end ? second / 100. : 0);
    }
    weiri_progress_clear(&progress);
    fclose(to);
    return text;
}

TEST(progress_writes_a_line_every_ten_seconds_to_a_file)
{
    const char *text = progress_of(0, 1);
    int lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, 10);
    static const char first[] = "prog: 8 B: 10%, 1 min 30 s left\n"
                                "prog: 8 B: 20%, 1 min 20 s left\n";
    assert_int_equal(strncmp(text, first, sizeof first - 1), 0);
    assert_null(strchr(text, '\033'));
    assert_null(strchr(text, '\r'));
    assert_non_null(strstr(progress_of(0, 0), "prog: 8 B: 10 s so far\n"));
}

TEST(quiet_progress_writes_nothing)
{
    assert_string_equal(progress_of(1, 1), "");
    weiri_progress_show(NULL, "x", 0.5); /* as with quiet callers */
}

/* Opens a terminal, of which *control is the other side. */
static FILE *open_terminal(int *control)
{
    *control = posix_openpt(O_RDWR | O_NOCTTY);
    if (*control < 0 || grantpt(*control) != 0 || unlockpt(*control) != 0)
        return NULL;
    int fd = open(ptsname(*control), O_RDWR | O_NOCTTY);
    return fd >= 0 ? fdopen(fd, "w") : NULL;
}

TEST(progress_rewrites_one_line_of_a_terminal)
{
    char text[1024] = "";
    int control;
    weiri_progress progress;
    static const char *const launchers[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                            "SLURM_PROCID", "NO_COLOR"};
    FILE *terminal = open_terminal(&control);
    if (!terminal)
        skip();
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        unsetenv(launchers[i]);
    setenv("TERM", "xterm", 1);
    weiri_terminal_detect();
    fake_s = 1;
    weiri_progress_begin(&progress, terminal, "prog", 0);
    progress.now_s = fake_clock;
    progress.began_s = fake_s;
    for (int i = 0; i < 34; i++, fake_s += 0.1) /* from second 0 to 3.3: one line */
        weiri_progress_show(&progress, "8 B", 0.5);
    weiri_progress_clear(&progress);
    fclose(terminal);
    size_t length = 0; /* everything that was written, which may come in parts */
    for (ssize_t got; (got = read(control, text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)got;
    assert_string_equal(text, "\r\033[Kprog: 8 B: 50%, 3 s left\r\r\033[K");
    close(control);
}

TEST(only_terminals_have_colours_and_no_color_is_respected)
{
    int control;
    FILE *terminal = open_terminal(&control), *file = tmpfile();
    if (!terminal || !file)
        skip();
    unsetenv("NO_COLOR");
    unsetenv("OMPI_COMM_WORLD_RANK");
    weiri_terminal_detect();
    setenv("TERM", "xterm", 1);
    assert_string_equal(weiri_terminal_colour(terminal, WEIRI_COLOUR_BAD), "\033[31m");
    assert_string_equal(weiri_terminal_colour(terminal, WEIRI_COLOUR_NONE), "\033[0m");
    assert_string_equal(weiri_terminal_colour(file, WEIRI_COLOUR_BAD), "");
    setenv("NO_COLOR", "1", 1);
    assert_string_equal(weiri_terminal_colour(terminal, WEIRI_COLOUR_GOOD), "");
    setenv("NO_COLOR", "", 1); /* as if unset, by no-color.org */
    assert_string_equal(weiri_terminal_colour(terminal, WEIRI_COLOUR_GOOD), "\033[32m");
    setenv("TERM", "dumb", 1);
    assert_string_equal(weiri_terminal_colour(terminal, WEIRI_COLOUR_GOOD), "");
    setenv("TERM", "xterm", 1);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1); /* mpirun gives ranks a separate terminal */
    weiri_terminal_detect();
    assert_string_equal(weiri_terminal_colour(terminal, WEIRI_COLOUR_GOOD), "");
    unsetenv("OMPI_COMM_WORLD_RANK");
    weiri_terminal_detect();
    fclose(terminal);
    fclose(file);
    close(control);
}

/* ------------------------------------------------------------------ numbers */

TEST(whole_numbers_are_digits_within_bounds)
{
    long long number = 7;
    assert_int_equal(weiri_whole_read("9", 1, 9, &number), 0);
    assert_int_equal(number, 9);
    assert_int_equal(weiri_whole_read("-1", -1, 9, &number), 0);
    assert_int_equal(number, -1);
    static const char *const wrong[] = {"",    "0",   "10", "+5",  " 5",
                                        "5 ",  "-5",  "5x", "x",   "0x5",
                                        "1e0", "5.0", "-",  "\t5", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (weiri_whole_read(wrong[i], 1, 9, &number) == 0)
            fail_msg("'%s' was read as %lld", wrong[i], number);
    assert_int_equal(number, -1);
}

TEST(sizes_have_the_units_of_nccl_tests)
{
    static const struct {
        const char *text;
        size_t bytes;
    } right[] = {{"0", 0},           {"8", 8},
                 {"1K", 1024},       {"1k", 1024},
                 {"1KB", 1024},      {"1kb", 1024},
                 {"1KiB", 1024},     {"1 KiB", 1024},
                 {"1.5K", 1536},     {".5M", 524288},
                 {"0.001K", 1},      {"2M", 2 << 20},
                 {"1GB", 1 << 30},   {"1 G", 1 << 30},
                 {"1t", 1ull << 40}, {"1TiB", 1ull << 40},
                 {"0K", 0},          {"1.1G", 1181116006}};
    static const char *const wrong[] = {"",
                                        "1.5",
                                        "0.4",
                                        ".",
                                        "+5",
                                        " 5",
                                        "-8",
                                        "0x400",
                                        "1e3",
                                        "1e3K",
                                        "1KK",
                                        "1Kx",
                                        "1 ",
                                        "1  K",
                                        "K",
                                        "1B",
                                        "8 B",
                                        "1P",
                                        "1.2.3K",
                                        "0.0001K",
                                        "nan",
                                        "inf",
                                        "1,5K",
                                        "1Kb1",
                                        "4611686018427387905",
                                        "99999999999999999999",
                                        "9999999T"};
    size_t bytes = 7;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        if (weiri_bytes_read(right[i].text, &bytes) != 0 || bytes != right[i].bytes)
            fail_msg("'%s' was read as %zu", right[i].text, bytes);
    bytes = 7;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (weiri_bytes_read(wrong[i], &bytes) == 0 || bytes != 7)
            fail_msg("'%s' was read as %zu", wrong[i], bytes);
}

TEST(decimal_numbers_have_no_sign_and_no_blanks)
{
    double value = 7;
    assert_int_equal(weiri_decimal_read("12.5", &value), 0);
    assert_true(value == 12.5);
    assert_int_equal(weiri_decimal_read(".5", &value), 0);
    assert_int_equal(weiri_decimal_read("1e3", &value), 0);
    assert_true(value == 1000);
    assert_int_equal(weiri_decimal_read("350", &value), 0);
    static const char *const wrong[] = {"",   ".",  "1e", "e3",  "1e999", "0x10", "+5",
                                        "-1", " 1", "1 ", "nan", "1.2.3", "1,5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (weiri_decimal_read(wrong[i], &value) == 0)
            fail_msg("'%s' was read as %g", wrong[i], value);
    assert_true(value == 350);
}

TEST(percentages_of_options_have_one_spelling)
{
    static const struct {
        const char *text;
        double percent, part; /* by the two kinds; -1: refused */
    } cases[] = {
        {"2%", 0.02, 0.02},    {"0.00001%", 1e-7, 1e-7},
        {".5", 0.005, 0.5},    {"2", 0.02, -1},
        {"1e-1%", 1e-3, 1e-3}, {"50%", 0.5, 0.5},
        {"51%", -1, -1},       {"0%", -1, 0},
        {"0", -1, 0},          {"1", 0.01, -1},
        {"-1%", -1, -1},       {"+1%", -1, -1},
        {" 1%", -1, -1},       {"1 %", -1, -1},
        {"2%%", -1, -1},       {"2x", -1, -1},
        {"%", -1, -1},         {"", -1, -1},
        {".", -1, -1},         {"0x1%", -1, -1},
        {"nan%", -1, -1},      {"1e999%", -1, -1},
        {"inf", -1, -1},       {"1.2.3%", -1, -1},
        {"1e%", -1, -1},
    };
    char expected[128];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double percent = -1, part = -1;
        weiri_percent_read(cases[i].text, WEIRI_PERCENT, 0.5, &percent, expected, sizeof expected);
        weiri_percent_read(cases[i].text, WEIRI_PERCENT_OR_PART, 0.5, &part, expected,
                           sizeof expected);
        if (fabs(percent - cases[i].percent) > 1e-15 || fabs(part - cases[i].part) > 1e-15)
            fail_msg("'%s': read as %g and %g", cases[i].text, percent, part);
    }
    double kept = 7;
    assert_int_not_equal(
        weiri_percent_read("1", WEIRI_PERCENT_OR_PART, 10, &kept, expected, sizeof expected), 0);
    assert_string_equal(expected,
                        "a percentage such as 3%, or a number below 1 such as 0.03; at most 1000%");
    assert_int_not_equal(
        weiri_percent_read("x", WEIRI_PERCENT, 1, &kept, expected, sizeof expected), 0);
    assert_string_equal(expected, "a percentage such as 2%, above 0% and at most 100%");
    assert_true(kept == 7);
}

/* ------------------------------------------------------------------ options */

typedef struct chosen_options {
    int action; /* so that no other member has the offset 0 */
    int quiet, ranks, ranks_given, mode, memory;
    size_t bytes, seed;
    double floor, share;
    const char *file;
} chosen_options;

#define OPTION(letter, name, value, type, member)                                                  \
    letter, name, value, &weiri_option_##type, offsetof(chosen_options, member)
static const weiri_option option_rows[] = {
    {OPTION(0, "quiet", NULL, flags, quiet), .flags = WEIRI_OPTION_SAME, .help = "no progress"},
    {OPTION('n', "ranks", "N", int, ranks), .low = 1, .high = 9, .initial = "-1",
     .given = offsetof(chosen_options, ranks_given),
     .flags = WEIRI_OPTION_SAME | WEIRI_OPTION_EXPLAINED, .manifest = "ranks",
     .commands = "make show", .help = "number of ranks"},
    {OPTION(0, "file", "FILE", text, file), .flags = WEIRI_OPTION_SAME_USE, .help = "a file"},
    {OPTION('b', "bytes", "SIZE", bytes, bytes), .low = 1, .initial = "1K",
     .flags = WEIRI_OPTION_SAME, .manifest = "bytes", .help = "a size"},
    {OPTION(0, "seed", "N", whole, seed), .high = LONG_MAX, .manifest = "seed", .help = "a seed"},
    {OPTION(0, "mode", "fast|exact", words, mode), .initial = "exact", .flags = WEIRI_OPTION_SAME,
     .manifest = "mode", .help = "the mode"},
    {OPTION(0, "memory", "registered|unregistered", words, memory), .recorded = "weir|plain",
     .flags = WEIRI_OPTION_SAME, .manifest = "memory",
     .help = "the kind of memory, with a text of more words than one line of --help can have"},
    {OPTION(0, "floor", "GB/S", decimal, floor), .manifest = "floor", .help = "a floor"},
    {OPTION(0, "share", "PERCENT", percent, share), .high = 50, .flags = WEIRI_OPTION_SAME,
     .help = "a share"},
    {OPTION('h', "help", NULL, flags, action), .high = 3, .help = "this help"},
};
static const weiri_options option_table = {option_rows, sizeof option_rows / sizeof *option_rows};

/* Parses up to three words after a command; NULL: none was named. */
static weir_status take_words(const char *command, const char *first, const char *second,
                              const char *third, chosen_options *chosen)
{
    static char texts[3][64];
    char *argv[5] = {texts[0]};
    const char *const words[] = {first, second, third};
    weir_status status = WEIR_OK;
    int argc = 1;
    *chosen = (chosen_options){.quiet = 0};
    weiri_options_set_defaults(&option_table, chosen);
    for (int i = 0; i < 3 && words[i]; i++) {
        snprintf(texts[i], sizeof texts[i], "%s", words[i]);
        argv[argc++] = texts[i];
    }
    for (int i = 1; i < argc && status == WEIR_OK; i++)
        status = weiri_option_take(&option_table, command, argc, argv, &i, chosen);
    return status;
}

TEST(options_are_parsed_by_their_table)
{
    chosen_options chosen;
    assert_int_equal(take_words(NULL, "--quiet", "--file=a=b", NULL, &chosen), WEIR_OK);
    assert_int_equal(chosen.quiet, 1);
    assert_string_equal(chosen.file, "a=b");
    assert_int_equal(take_words("make", "-n", "8", "--quiet", &chosen), WEIR_OK);
    assert_true(chosen.quiet == 1 && chosen.ranks == 8 && chosen.ranks_given == 1);
    assert_int_equal(take_words("show", "--ranks", "8", NULL, &chosen), WEIR_OK);
    assert_int_equal(take_words("show", "-n8", "--fi", "x", &chosen), WEIR_OK);
    assert_int_equal(chosen.ranks, 8);
    assert_string_equal(chosen.file, "x");
    assert_int_equal(take_words(NULL, "-hb", "2K", "--mode=fast", &chosen), WEIR_OK);
    assert_true(chosen.action == 3 && chosen.bytes == 2048 && chosen.mode == 0);
    assert_int_equal(take_words(NULL, "--memory", "plain", "--share=5", &chosen), WEIR_OK);
    assert_true(chosen.memory == 1 && fabs(chosen.share - 0.05) < 1e-9);
    assert_int_equal(take_words(NULL, "--memory=unregistered", "--floor", "1.5", &chosen), WEIR_OK);
    assert_true(chosen.memory == 1 && chosen.floor == 1.5);
}

TEST(options_are_rejected_in_one_line)
{
    chosen_options chosen;
    static const struct {
        const char *command, *first, *second, *message;
    } wrong[] = {
        {NULL, "--quick", NULL, "unknown option --quick; --help lists the options"},
        {NULL, "--quiet=1", NULL, "--quiet takes no value"},
        {NULL, "--ranks", "8", "unknown option --ranks; --help lists the options"},
        {"cost", "-n", "8", "cost: unknown option -n; --help lists the options"},
        {"mak", "-n", "8", "mak: unknown option -n; --help lists the options"},
        {NULL, "-hx", NULL, "unknown option -x; --help lists the options"},
        {NULL, "--m", "fast", "unknown option --m; --help lists the options"},
        {NULL, "--", NULL, "unknown option --; --help lists the options"},
        {NULL, "--file", NULL, "--file needs a value: FILE"},
        {NULL, "-b", NULL, "-b (--bytes) needs a value: SIZE"},
        {NULL, "--file=", NULL, "--file '': expected FILE, not an empty word"},
        {"make", "-n", "0", "-n (--ranks) 0: expected a whole number from 1 to 9"},
        {NULL, "-b", "0",
         "-b (--bytes) 0: expected a size of 1 or more: whole bytes, or a number with a unit "
         "(K, M, G, T), such as 8, 64K, 1.5M or 1GB"},
        {NULL, "--mode", "exac", "--mode exac: expected one of fast|exact"},
        {NULL, "--mode", "", "--mode '': expected one of fast|exact"},
        {NULL, "--mode", "fast|exact", "--mode fast|exact: expected one of fast|exact"},
        {NULL, "--share", "51",
         "--share 51: expected a percentage such as 2%, above 0% and at most 50%"},
        {NULL, "--floor", "-1", "--floor -1: expected a number of 0 or more such as 350 or 12.5"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const weir_status status =
            take_words(wrong[i].command, wrong[i].first, wrong[i].second, NULL, &chosen);
        assert_int_equal(status, WEIR_ERR_INVALID);
        assert_string_equal(weir_last_error(), wrong[i].message);
    }
}

TEST(a_program_of_options_takes_no_other_words)
{
    char quiet[] = "--quiet", word[] = "file", program[] = "program";
    char *argv[] = {program, quiet, word};
    chosen_options chosen = {.quiet = 0};
    assert_int_equal(weiri_options_take_all(&option_table, 2, argv, &chosen), WEIR_OK);
    assert_int_equal(weiri_options_take_all(&option_table, 3, argv, &chosen), WEIR_ERR_INVALID);
    assert_string_equal(weir_last_error(),
                        "unexpected word file: options start with -, --help lists them");
}

TEST(defaults_are_those_of_the_table)
{
    chosen_options chosen;
    take_words(NULL, NULL, NULL, NULL, &chosen);
    assert_true(chosen.ranks == -1 && chosen.bytes == 1024 && chosen.mode == 1);
    assert_true(chosen.ranks_given == 0 && chosen.file == NULL);
}

/* Returns what `write` writes, static. */
static const char *written(void (*write)(const chosen_options *chosen, FILE *to),
                           const chosen_options *chosen)
{
    static char text[2048];
    memset(text, 0, sizeof text);
    FILE *to = fmemopen(text, sizeof text, "w");
    assert_non_null(to);
    write(chosen, to);
    fclose(to);
    return text;
}

static void write_same(const chosen_options *chosen, FILE *to)
{
    weiri_options_write_same(&option_table, chosen, to);
}

TEST(options_that_ranks_must_share_are_lines)
{
    chosen_options chosen;
    take_words(NULL, NULL, NULL, NULL, &chosen);
    assert_string_equal(written(write_same, &chosen), "no --quiet\nno -n\nno --file\n-b 1024\n"
                                                      "--mode exact\n--memory weir\nno --share\n");
    take_words("make", "-n4", "--file=/a", "--quiet", &chosen);
    chosen.share = 0.02;
    assert_string_equal(written(write_same, &chosen), "--quiet\n-n 4\n--file\n-b 1024\n"
                                                      "--mode exact\n--memory weir\n--share 2%\n");
}

static void write_record(const chosen_options *chosen, FILE *to)
{
    weiri_json_writer json = {.file = to, .layout = WEIRI_JSON_INLINE};
    weiri_json_open_object(&json);
    weiri_options_put(&option_table, chosen, &json);
    weiri_json_close_object(&json);
}

TEST(recorded_options_have_keys_and_types)
{
    chosen_options chosen;
    take_words(NULL, "--memory=unregistered", "--seed=5", "--floor=1.5", &chosen);
    assert_string_equal(written(write_record, &chosen),
                        "{\"ranks\": -1, \"bytes\": 1024, \"seed\": 5, \"mode\": \"exact\", "
                        "\"memory\": \"plain\", \"floor\": 1.5}");
}

static void write_help(const chosen_options *chosen, FILE *to)
{
    (void)chosen;
    weiri_options_print(&option_table, to);
}

TEST(help_is_made_from_the_table)
{
    assert_string_equal(
        written(write_help, NULL),
        "      --quiet            no progress\n"
        "  -n, --ranks N          make, show: number of ranks\n"
        "      --file FILE        a file\n"
        "  -b, --bytes SIZE       a size (default: 1K)\n"
        "      --seed N           a seed\n"
        "      --mode fast|exact  the mode (default: exact)\n"
        "      --memory registered|unregistered\n"
        "                         the kind of memory, with a text of more words than one\n"
        "                         line of --help can have\n"
        "      --floor GB/S       a floor\n"
        "      --share PERCENT    a share\n"
        "  -h, --help             this help\n");
}

/* -------------------------------------------------------------------- start */

/* Runs in a child, whose state it may change. Each returns 0 if the start of a program brought the
 * state into its usual form. */
static int start_opens_descriptors(void)
{
    char byte = 'x';
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    weiri_program_begin();
    const int next = open("/dev/null", O_RDONLY);
    return next != 3 || read(0, &byte, 1) != 0 || write(1, &byte, 1) != -1 ||
           write(2, &byte, 1) != 1;
}

static int start_keeps_open_descriptors(void)
{
    struct stat before, after;
    int ends[2];
    if (pipe(ends) != 0 || dup2(ends[1], 1) != 1 || fstat(1, &before) != 0)
        return 1;
    fcntl(1, F_SETFL, O_NONBLOCK);
    weiri_program_begin();
    return fstat(1, &after) != 0 || before.st_ino != after.st_ino ||
           (fcntl(1, F_GETFL) & O_NONBLOCK) != 0;
}

static int start_waits_for_children(void)
{
    struct sigaction ignored = {.sa_handler = SIG_IGN, .sa_flags = SA_NOCLDWAIT};
    sigaction(SIGCHLD, &ignored, NULL);
    weiri_program_begin();
    const pid_t child = fork();
    int status;
    if (child == 0)
        _exit(7);
    return waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7;
}

static int start_resets_signals(void)
{
    static const int reset[] = {SIGALRM, SIGUSR1, SIGUSR2, SIGSEGV, SIGABRT, SIGURG};
    static const int kept[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    struct sigaction action;
    sigset_t all, now;
    int failed = 0;
    for (size_t i = 0; i < sizeof reset / sizeof *reset; i++)
        signal(reset[i], SIG_IGN);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        signal(kept[i], SIG_IGN);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    weiri_program_begin();
    for (size_t i = 0; i < sizeof reset / sizeof *reset; i++)
        failed |= sigaction(reset[i], NULL, &action) != 0 || action.sa_handler != SIG_DFL;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        failed |= sigaction(kept[i], NULL, &action) != 0 || action.sa_handler != SIG_IGN;
    sigprocmask(SIG_SETMASK, NULL, &now);
    for (int number = 1; number < NSIG; number++)
        failed |= sigismember(&now, number) == 1;
    return failed;
}

static int start_makes_writes_fail(void)
{
    int ends[2];
    signal(SIGPIPE, SIG_DFL);
    weiri_program_begin();
    if (pipe(ends) != 0)
        return 1;
    close(ends[0]);
    return write(ends[1], "x", 1) != -1 || errno != EPIPE;
}

static int start_sets_umask(void)
{
    umask(0);
    weiri_program_begin();
    const mode_t open_to_all = umask(0777);
    weiri_program_begin();
    const mode_t closed_to_owner = umask(0);
    return open_to_all != S_IWOTH || closed_to_owner != 0077;
}

static int start_rounds_to_nearest(void)
{
    volatile float tiny = 1e-39f;
    fesetround(FE_UPWARD);
#ifdef __SSE__
    _mm_setcsr(_mm_getcsr() | 0x8040); /* flush to zero, denormals are zero */
#endif
    weiri_program_begin();
    return fegetround() != FE_TONEAREST || !(tiny * 0.5f > 0);
}

TEST(a_program_starts_in_the_same_state_whatever_it_inherits)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } cases[] = {{"closed descriptors", start_opens_descriptors},
                 {"open descriptors", start_keeps_open_descriptors},
                 {"SIGCHLD", start_waits_for_children},
                 {"ignored and blocked signals", start_resets_signals},
                 {"SIGPIPE", start_makes_writes_fail},
                 {"umask", start_sets_umask},
                 {"floating point", start_rounds_to_nearest}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pid_t child = fork();
        int status = -1;
        if (child == 0)
            _exit(cases[i].run());
        if (waitpid(child, &status, 0) != child || status != 0)
            fail_msg("%s: status %x", cases[i].name, (unsigned)status);
    }
}

/* -------------------------------------------------------------------- files */

static void form_text(const void *context, FILE *to)
{
    fputs(context, to);
}

/* More than RLIMIT_FSIZE allows. */
static void form_too_much(const void *context, FILE *to)
{
    for (int i = 0; i < 4096; i++)
        fputs(context, to);
}

static int write_beyond_the_limit(const char *path)
{
    const struct rlimit limit = {1024, 1024};
    signal(SIGXFSZ, SIG_DFL);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 2;
    return weiri_write_file(path, form_too_much, "text") != -1 || errno != EFBIG ||
           weiri_write_refuses_path(EFBIG);
}

/* Whether new files have a name, as on a file system that has no others: the linker replaces
 * access(2). */
static int has_no_proc;

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
    return has_no_proc && strcmp(path, "/proc/self/fd") == 0 ? -1 : __real_access(path, mode);
}

static void replace_file(void)
{
    char folder[] = "/tmp/weir-programs-XXXXXX", path[64], text[64] = "";
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    struct stat what;
    const mode_t before = umask(0);
    assert_int_equal(weiri_write_file(path, form_text, "before"), 0);
    umask(before);
    assert_int_equal(stat(path, &what), 0);
    assert_int_equal(what.st_mode & 0777, 0664); /* others may not write it */
    chmod(path, 0640);
    const pid_t child = fork();
    int status = -1;
    if (child == 0)
        _exit(write_beyond_the_limit(path));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    FILE *file = fopen(path, "r");
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "before");
    assert_int_equal(weiri_write_file(path, form_text, "after"), 0);
    assert_int_equal(stat(path, &what), 0);
    assert_int_equal(what.st_mode & 0777, 0640);
    assert_int_equal(what.st_size, 5);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(weiri_write_file("/nonexistent/file", form_text, ""), -1);
    assert_true(weiri_write_refuses_path(errno));
    assert_int_equal(rmdir(folder), 0); /* nothing else is left in it */
}

TEST(a_file_is_replaced_at_once_or_not_at_all)
{
    replace_file();
    has_no_proc = 1;
    replace_file();
    has_no_proc = 0;
}

static void form_and_wait(const void *context, FILE *to)
{
    fputs("part", to);
    fflush(to);
    raise(SIGKILL);
    (void)context;
}

/* What is left of a writer that is killed, and what another process, or one of another container
 * with the same number, left under the name that follows from the number. */
TEST(a_killed_writer_leaves_nothing_and_no_name_is_shared)
{
    char folder[] = "/tmp/weir-programs-XXXXXX", path[64], foreign[96], kept[64];
    struct stat what;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(kept, sizeof kept, "%s/kept", folder);
    snprintf(foreign, sizeof foreign, "%s.%ld", path, (long)getpid());
    assert_int_equal(weiri_write_file(kept, form_text, "kept"), 0);
    assert_int_equal(symlink(kept, foreign), 0);
    assert_int_equal(weiri_write_file(path, form_text, "text of the file"), 0);
    assert_int_equal(stat(kept, &what), 0);
    assert_int_equal(what.st_size, 4);
    assert_int_equal(lstat(path, &what), 0);
    assert_true(S_ISREG(what.st_mode));
    const int before = count_entries(folder);
    const pid_t child = fork();
    int status = 0;
    if (child == 0)
        _exit(weiri_write_file(path, form_and_wait, NULL));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(count_entries(folder), before);
    unlink(path);
    unlink(foreign);
    unlink(kept);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    return run_all_tests("programs");
}
