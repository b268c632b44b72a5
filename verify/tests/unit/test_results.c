/*
 * The readers of results accept the output of every supported tool, reject every kind of invalid
 * input with file and line, write rows as they were read, and survive randomly mutated input.
 */

#include "results/judge/compare.h"
#include "results/read/load.h"
#include "results/output/print.h"
#include "verify/tests/support/long_part.h"
#include "verify/tests/support/unit_test.h"

#include <math.h>
#include <time.h>

#define OLD_HEADER                                                                                 \
    "schema,run_id,utc,host,collective,backend,transport,nranks,nnodes,contender,algo,dtype,"      \
    "redop,root,placement,bytes,count,iters,median_us,min_us,max_us,p99_us,ci_low_us,"             \
    "ci_high_us,algbw_gbs,busbw_gbs,verify,wrong"
#define NEW_HEADER                                                                                 \
    OLD_HEADER ",oracle,special,determinism,gpu_samples,gpu_throttled,throttle_reasons,sm_mhz,"    \
               "memory_mhz,power_w,temperature_c,dist,counts,ceiling_pct"
#define NEWEST_HEADER                                                                              \
    NEW_HEADER ",tokens,hidden,experts,topk,layout,dispatch_dtype,link_bytes,expert_bytes,"        \
               "last_rank,last_share,skew_us,buffers,mode,graph,binding,cores,settings,unjudged,"  \
               "split,group,sms,sms_budget,err_max,err_rms"
#define ROW "1,r1,2026-01-01T00:00:00Z,h,allreduce,host,shm,8,1,weir,ring,float,sum,-1,out,"
#define TIMES ",2,20,10.000,9.000,12.000,11.000,9.900,10.100,0.0008,0.0014,pass,0"

typedef struct reading {
    results_set set;
    FILE *file;
    char *messages;
    size_t bytes;
} reading;

/* Reads length bytes of text as the contents of a file of that name. */
static void read_bytes(reading *made, const char *path, const char *text, size_t length)
{
    made->file = open_memstream(&made->messages, &made->bytes);
    results_set_init(&made->set, 0, made->file);
    made->set.keeps_documents = 1;
    results_input input = {path, results_keep_text(&made->set, text, length), length};
    results_read_input(&made->set, &input, 1);
    fflush(made->file);
}

static void read_text(reading *made, const char *path, const char *text)
{
    read_bytes(made, path, text, strlen(text));
}

static void reading_free(reading *made)
{
    results_set_free(&made->set);
    fclose(made->file);
    free(made->messages);
}

/* Reads a text and expects the number of rows and a message (NULL: none). */
static void expect(const char *path, const char *text, size_t rows, const char *problem)
{
    reading made;
    read_text(&made, path, text);
    if (made.set.count != rows || (problem ? !strstr(made.messages, problem) : made.bytes > 0))
        fail_msg("%s: %zu rows, expected %zu; expected message '%s', got '%s'", path,
                 made.set.count, rows, problem ? problem : "nothing", made.messages);
    reading_free(&made);
}

TEST(csv_of_the_benchmarks_is_read)
{
    expect("a.csv", OLD_HEADER "\n" ROW "8" TIMES "\n", 1, NULL);
    expect("a.csv", OLD_HEADER "\r\n" ROW "8" TIMES "\r\n", 1, NULL);
    expect("a.csv", OLD_HEADER "\n" ROW "8" TIMES, 1, NULL);
    expect("a.csv", "\xef\xbb\xbf" OLD_HEADER "\n" ROW "8" TIMES "\n", 1, NULL);
    expect("a.csv",
           OLD_HEADER "\n" ROW "8" TIMES "\n" NEW_HEADER "\n" ROW "16" TIMES
                      ",exact,pass,off,0,0,none,,,,,,,\n",
           2, NULL);
    expect("a.csv", OLD_HEADER "\n" ROW "8,2,20,,,,,,,,,fail,17\n", 1, NULL);
    expect("a.csv", OLD_HEADER ",novel\n" ROW "8" TIMES ",x\n", 1,
           "a.csv:1: unknown column 'novel'");
}

TEST(wrong_csv_is_rejected_with_the_line_number)
{
    expect("a.csv", "", 0, "a.csv: empty file");
    expect("a.csv", OLD_HEADER "\n" ROW "8" TIMES "\n1,r1,2026\n" ROW "16" TIMES "\n", 2,
           "a.csv:3: 3 fields where the header has 28 (cut off?)");
    expect("a.csv", OLD_HEADER "\n" ROW "8,2,20,nan,9,12,11,9,11,0,0,pass,0\n" ROW "16" TIMES "\n",
           1, "a.csv:2: median_us 'nan' is not a time");
    expect("a.csv", OLD_HEADER "\n" ROW "8,2,20,0x1p4,9,12,11,9,11,0,0,pass,0\n", 0, "'0x1p4'");
    expect("a.csv", OLD_HEADER "\n" ROW "-8" TIMES "\n", 0, "a.csv:2: bytes '-8'");
    expect("a.csv", OLD_HEADER "\n" ROW "99999999999999999999" TIMES "\n", 0, "a.csv:2: bytes");
    expect("a.csv",
           OLD_HEADER "\n1,r,u,h,allreduce,host,shm,8,1,weir,\"ring,float,sum\n" ROW "8" TIMES "\n",
           1, "a.csv:2: a quote is never closed");
    expect("a.csv", "size,time\n1,2\n", 0, "a.csv:1: no column 'collective'");
    expect("a.csv",
           OLD_HEADER "\n1,r,u,h,allreduce,host,shm,8,1,weir,ring,float,sum,-1,up,8" TIMES "\n", 0,
           "a.csv:2: placement 'up'");
    expect("a.csv", OLD_HEADER "\n" ROW "8,2,20,5,4,6,6,5,5,1,1,maybe,0\n", 0, "verify 'maybe'");
    expect("a.txt", "hello\n", 0, "a.txt: text; not a known kind of result file");
    expect("a.csv",
           OLD_HEADER "\n1,r\x01,u,=cmd(),allreduce,host,shm,8,1,weir,ring,float,sum,-1,"
                      "out,8" TIMES "\n",
           1, "a.csv:2: host '=cmd()' contains unsafe characters");
    expect("a.csv",
           OLD_HEADER "\n1,r,u,h\xff\xc2\x9b,allreduce,host,shm,8,1,weir,ring,float,sum,"
                      "-1,out,8" TIMES "\n",
           1, "a.csv:2: host");
    expect("a.csv", OLD_HEADER "\n" ROW "8,2,=1+1,5,4,6,6,5,5,1,1,pass,0\n", 1,
           "a.csv:2: iters '=1+1' is not a number");
    expect("a.csv", OLD_HEADER "\n" ROW "8,2,20,=1+1,,,,,,,,fail,17\n", 1,
           "a.csv:2: median_us '=1+1' is not a number");
    reading made;
    static const char binary[] = OLD_HEADER "\n" ROW "8" TIMES "\n\0\0\0x\n" ROW "16" TIMES "\n";
    read_bytes(&made, "a.csv", binary, sizeof binary - 1);
    assert_int_equal(made.set.count, 2);
    assert_non_null(strstr(made.messages, "a.csv:3: binary data"));
    reading_free(&made);
}

/* The text that a printer writes for a set; the caller frees it. */
static char *printed(const results_set *set, void (*print)(FILE *file, const results_set *set))
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    print(file, set);
    fclose(file);
    return text;
}

/* Reading and writing gives the same text, including quotes. */
TEST(csv_is_written_as_it_was_read)
{
    static const char text[] = NEWEST_HEADER
        "\n"
        "4,r1,2026-01-01T00:00:00Z,\"a \"\"b\"\", c\",alltoallv,cuda,cuda_ipc,8,1,weir,p:4x32,"
        "float,none,-1,out,1024,2,20,10.000,9.000,12.000,11.000,9.900,10.100,0.1024,0.0896,pass,0,"
        "exact,off,off,6,0,none,1980,3201,120,40,zipf:1.2,device,71.5,128,7168,256,8,"
        "expert,\"f8,e4m3\",4096,8192,5,0.8125,9.200,registered,batches,20,weir,0.25,"
        "NCCL_ALGO=Ring NCCL_PROTO=LL,one-core,mod:2,1,8,16,0.125,0.031\n";
    reading made;
    read_text(&made, "a.csv", text);
    char *written = printed(&made.set, results_print_csv);
    assert_string_equal(written, text);
    free(written);
    reading_free(&made);
}

/* Whether a reading reported anything but what the rows' fields say against each other, which their
 * first reading reported too. */
static int has_news(const reading *made)
{
    for (const char *line = made->messages; line && *line;) {
        const char *end = strchr(line, '\n'), *about = strstr(line, "contradict");
        if (!about)
            about = strstr(line, "unknown schema");
        if (!about)
            about = strstr(line, "more problems, not shown");
        if (!end || !about || about > end)
            return 1;
        line = end + 1;
    }
    return 0;
}

/* Checks that the rows of a set survive being printed and read. That a file has none is news. */
static void expect_same_rows(const results_set *set,
                             void (*print)(FILE *file, const results_set *set))
{
    char *text = printed(set, print), *before = printed(set, results_print_csv);
    reading made;
    read_text(&made, "again", text);
    char *after = printed(&made.set, results_print_csv);
    if (strcmp(before, after) != 0 || (set->count && has_news(&made)))
        fail_msg("rows were\n%s, are\n%s, printed as\n%s, messages: '%s'", before, after, text,
                 made.messages);
    free(text);
    free(before);
    free(after);
    reading_free(&made);
}

#define JSON_ROW(more)                                                                             \
    "{\"schema\": 10, \"run_id\": \"r1\", \"utc\": \"2026-01-01T00:00:00Z\", "                     \
    "\"host\": \"a \\\"b\\\", \xc3\xbc\", \"collective\": \"alltoallv\", \"backend\": \"cuda\", "  \
    "\"transport\": \"cuda_ipc\", \"nranks\": 8, \"nnodes\": 1, \"contender\": \"weir\", "         \
    "\"algo\": \"p:4x32\", \"dtype\": \"float\", \"redop\": \"none\", \"root\": -1, "              \
    "\"placement\": \"out\", \"bytes\": 80000000000, \"count\": 2, \"iters\": 20, " more           \
    "\"oracle\": \"exact\", \"special\": \"off\", \"determinism\": \"off\", \"gpu_samples\": 6, "  \
    "\"gpu_throttled\": 0, \"throttle_reasons\": \"none\", \"sm_mhz\": 1980, "                     \
    "\"memory_mhz\": null, \"power_w\": 120, \"temperature_c\": 40, \"dist\": \"zipf:1.2\", "      \
    "\"counts\": \"device\", \"ceiling_pct\": 71.5, \"tokens\": 128, \"hidden\": null, "           \
    "\"experts\": 256, \"topk\": 8, \"layout\": \"expert\", \"dispatch_dtype\": \"\", "            \
    "\"link_bytes\": 4096, \"expert_bytes\": null, \"last_rank\": 5, "                             \
    "\"last_share\": 0.8125, \"skew_us\": null, \"buffers\": \"registered\", "                     \
    "\"mode\": \"batches\", \"graph\": 20, \"binding\": \"\", \"cores\": null, "                   \
    "\"settings\": \"NCCL_ALGO=Ring\", \"unjudged\": \"one-core\", "                               \
    "\"split\": \"mod:2\", \"group\": \"all\", \"sms\": 8, \"sms_budget\": \"16\", "               \
    "\"err_max\": 0.125, \"err_rms\": null}"
#define JSON_TIMES                                                                                 \
    "\"median_us\": 10.000, \"min_us\": 9.120, \"max_us\": 12.000, \"p99_us\": 11.000, "           \
    "\"ci_low_us\": 9.900, \"ci_high_us\": 10.100, \"algbw_gbs\": 0.102402, "                      \
    "\"busbw_gbs\": 1e+06, "                                                                       \
    "\"verify\": \"pass\", \"wrong\": 0, "
#define JSON_FAILED                                                                                \
    "\"median_us\": null, \"min_us\": null, \"max_us\": null, \"p99_us\": null, "                  \
    "\"ci_low_us\": null, \"ci_high_us\": null, \"algbw_gbs\": null, \"busbw_gbs\": null, "        \
    "\"verify\": \"fail\", \"wrong\": 17, "
#define JSON_DOCUMENT                                                                              \
    "{\n\"version\": 3,\n\"novel\": [0.5, 8.4499999999999993, {\"a\": null}],\n\"results\": [\n"   \
    "{\"size\": 1024, \"out_of_place\": {\"time\": 8.25}, \"out_of_place_per_iter\": "             \
    "{\"times_us\": [9, 7.5]}, \"rows\": [\n" JSON_ROW(JSON_TIMES) ",\n" JSON_ROW(                 \
        JSON_FAILED) "]},\n{\"rows\": []}],\n\"manifest\": {\"commit\": \"c\"},\n\"end_time\": "   \
                     "\"now\"}"

static void json_round_trip_of(const char *text, size_t rows)
{
    reading made;
    read_text(&made, "j.json", text);
    char *written = printed(&made.set, results_print_rows_json);
    assert_string_equal(made.messages, "");
    assert_int_equal(made.set.count, rows);
    assert_string_equal(written, text);
    expect_same_rows(&made.set, results_print_csv);
    expect_same_rows(&made.set, results_print_rows_json);
    free(written);
    reading_free(&made);
}

/* The rows of our JSON and everything around them; numbers in a different notation, which are kept
 * as text; several documents in one file. */
TEST(json_is_written_as_it_was_read)
{
    static const char document[] = JSON_DOCUMENT "\n";
    char two[2 * sizeof document + 8];
    reading made;
    json_round_trip_of(document, 2);
    snprintf(two, sizeof two, "[\n%s,\n%s]\n", JSON_DOCUMENT, JSON_DOCUMENT);
    json_round_trip_of(two, 4);
    json_round_trip_of("{\n\"results\": []}\n", 0);
    read_text(&made, "j.json", document);
    const results_row *rows = made.set.rows;
    assert_string_equal(rows[0].text[RESULTS_HOST], "a \"b\", \xc3\xbc");
    assert_string_equal(rows[0].text[RESULTS_MEDIAN_US], "10.000");
    assert_string_equal(rows[0].text[RESULTS_BUSBW_GBS], "1e+06");
    assert_string_equal(rows[0].text[RESULTS_MEMORY_MHZ], "");
    assert_true(rows[0].median_us == 10 && rows[0].high_us == 10.1 && rows[1].failed);
    reading_free(&made);
    read_text(&made, "a.csv",
              OLD_HEADER "\n" ROW "0016,-0,2,8.45,-0.000,1e1,+3,9.900,10.1,"
                         "1000000,0.17500,pass,0\n" ROW "999999999999999999" TIMES "\n");
    assert_int_equal(made.set.count, 2);
    expect_same_rows(&made.set, results_print_csv);
    expect_same_rows(&made.set, results_print_rows_json);
    reading_free(&made);
}

TEST(fields_that_contradict_each_other_and_unknown_schemas_are_reported)
{
    reading made;
    expect("a.csv", OLD_HEADER "\n" ROW "8,2,20,10,9,12,11,9,11,,,pass,3\n", 1,
           "a.csv:2: verify 'pass' contradicts wrong '3'; the results count as wrong");
    expect("a.csv", OLD_HEADER "\n" ROW "8,2,20,10,9,12,11,9,11,,,off,1\n", 1,
           "verify 'off' contradicts wrong '1'");
    expect("a.csv", OLD_HEADER "\n" ROW "8,2,20,10,11,12,11,9,11,,,pass,0\n", 1,
           "a.csv:2: min_us '11' and max_us '12' contradict median_us '10'");
    expect("a.csv", OLD_HEADER "\n" ROW "8,2,20,10,9,9.5,11,9,11,,,pass,0\n", 1, "max_us '9.5'");
    expect("a.csv", OLD_HEADER "\n" ROW "8,2,20,10,9,12,11,10.5,11,,,pass,0\n", 1,
           "ci_low_us '10.5' and ci_high_us '11' contradict median_us '10'");
    expect("a.csv",
           OLD_HEADER "\n1,r1,u,h,allreduce,host,shm,2,3,weir,ring,float,sum,-1,out,8" TIMES "\n",
           1, "a.csv:2: nnodes 3 contradicts nranks 2");
    expect("a.csv",
           OLD_HEADER "\n9"
                      "9,r1,u,h,allreduce,host,shm,8,1,weir,ring,float,sum,-1,out,8" TIMES "\n",
           1, "a.csv:2: unknown schema '99': this program knows 1 to 10");
    expect("a.csv",
           OLD_HEADER "\nx,r1,u,h,allreduce,host,shm,8,1,weir,ring,float,sum,-1,out,8" TIMES "\n",
           1, "schema 'x' is not a number");
    read_text(&made, "a.csv",
              OLD_HEADER "\n" ROW "8,2,20,10,9,12,11,9,11,,,pass,3\n" ROW
                         "16,2,20,10,9,12,11,9,11,,,pass,0\n");
    assert_true(made.set.rows[0].failed && !made.set.rows[1].failed);
    reading_free(&made);
}

TEST(wrong_json_rows_are_rejected)
{
    expect("j.json", "{\"results\":[{\"rows\":[7]}]}", 0, "j.json:1: a row is not an object");
    expect("j.json", "{\"results\":[{\"rows\":[]},{\"rows\":[{\"novel\":1}]}]}", 0,
           "j.json:2: unknown column 'novel'");
    expect("j.json", "{\"results\":[{\"rows\":[{}]}]}", 0, "j.json:1: collective is empty");
    expect("j.json", "{\"results\":[{\"rows\":[" JSON_ROW("\"median_us\": -1, ") "]}]}", 0,
           "j.json:1: median_us '-1.000' is not a time");
    expect("j.json", "{\"results\":[{\"rows\":[" JSON_ROW("\"median_us\": [], ") "]}]}", 0,
           "j.json:1: median_us '' is not a time");
    expect("j.json", "{\"results\":[5, {\"rows\":[" JSON_ROW(JSON_TIMES "\"wrong\": 0.5, ") "]}]}",
           1, "j.json:2: verify 'pass' contradicts wrong '0.5'; the results count as wrong");
    /* Invalid UTF-8: surrogates, overlong encodings, code points that are too large. */
    static const char *const none[] = {"\xed\xa0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80",
                                       "\xf4\x90\x80\x80"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 OLD_HEADER "\n1,r%s,u,h,allreduce,host,shm,8,1,weir,ring,float,"
                            "sum,-1,out,8" TIMES "\n",
                 none[i]);
        expect("a.csv", text, 1, "a.csv:2: run_id");
    }
}

#define NCCL_HEAD                                                                                  \
    "# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22803\n"                          \
    "# Collective test starting: all_reduce_perf\n"                                                \
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: 4(factor) warmup iters: 5 iters: 20\n#\n"    \
    "#  Rank  0 Group  0 Pid    991 on      node-a device  0 [0000:00:06] NVIDIA H200\n"           \
    "#  Rank  1 Group  0 Pid    992 on      node-b device  0 [0000:00:06] NVIDIA H200\n"
#define NCCL_COLUMNS                                                                               \
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong "       \
    "    time   algbw   busbw  #wrong\n"                                                           \
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)\n"

TEST(text_of_nccl_tests_is_read)
{
    reading made;
    read_text(&made, "x.log",
              "mpirun all_reduce_perf\n" NCCL_HEAD NCCL_COLUMNS
              "    8   2     float     sum      -1     8.45    0.00    0.00       0     8.30 "
              "   0.00    0.00    N/A\n"
              "node-a:991:1000 [0] NCCL INFO Channel 00/24 : 0 1\n"
              "   64  16   bfloat16   sum      -1    10.33    0.05    0.07       3     1e+04 "
              "   0.05    0.08       0\n# Out of bounds values : 1 FAILED\n");
    assert_int_equal(made.set.count, 4);
    assert_int_equal(made.bytes, 0);
    const results_row *rows = made.set.rows;
    assert_string_equal(rows[0].text[RESULTS_COLLECTIVE], "allreduce");
    assert_string_equal(rows[0].text[RESULTS_CONTENDER], "nccl:2.28.3");
    assert_int_equal(rows[0].nranks, 2);
    assert_int_equal(rows[0].nnodes, 2);
    assert_true(rows[0].median_us == 8.45);
    assert_string_equal(rows[1].text[RESULTS_VERIFY], "off");
    assert_string_equal(rows[1].text[RESULTS_PLACEMENT], "in");
    assert_true(rows[2].failed);
    assert_true(rows[3].median_us == 1e4);
    reading_free(&made);
}

TEST(variants_of_nccl_tests_text_are_read)
{
    /* 2.10: no program name, `error`, no root. The file's name gives the collective. */
    expect("all_gather.txt",
           "# nThread 1 nGpus 1\n#   Rank  0 Pid 1 on h device  0 [0x07] V100\n"
           "#       size  count  type    time   algbw   busbw  error     time   algbw   busbw "
           " error\n   1024   256   float   10.0   0.1   0.1  0e+00   10.1  0.1  0.1  1e-06\n"
           "# Out of bounds values : 0 OK\n",
           2, NULL);
    expect("x.txt",
           "# nThread 1 nGpus 1\n#   Rank  0 Pid 1 on h device  0 [0x07] V100\n"
           "#       size  count  type    time   algbw   busbw  error\n"
           "   1024   256   float   10.0   0.1   0.1  0e+00\n",
           0, "x.txt:4: the log does not name");
    /* -I, -C and -S: more columns, a different name for time, a time stamp at the end. */
    expect("x.txt",
           NCCL_HEAD
           "#  size  count  type  redop  root cputime algbw busbw #wrong i_min i_max i_p99 i_cv% "
           "cputime algbw busbw #wrong i_min i_max i_p99 i_cv%\n"
           " 8 2 float sum -1 8.4 0 0 0 1 2 3 4 8.3 0 0 N/A 1 2 3 4 2026-01-01 12:00:00\n"
           "# Out of bounds values : 0 OK\n",
           2, NULL);
    expect("x.txt", NCCL_HEAD NCCL_COLUMNS "   8    2   float   sum   -1   8.4  0.0  0.0   0   8.",
           0, "x.txt:9: a row of 10 fields where the headings have 13");
    expect("x.txt", NCCL_HEAD NCCL_COLUMNS "8 2 float sum -1 inf 0.0 0.0 0 N/A N/A N/A N/A\n", 0,
           "x.txt:9: median_us 'inf'");
    /* Behind other text, a row is known by its columns. */
    expect("x.txt",
           NCCL_HEAD NCCL_COLUMNS "a:  8  2  float  sum  -1  8.4  0.0  0.0  0  8.3  0.0  0.0  0\n"
                                  "# Out of bounds values : 0 OK\n",
           2, NULL);
    expect("x.txt", NCCL_HEAD NCCL_COLUMNS "a: 8 2 float sum -1 8.4 0.0 0.0 0 8.3 0.0 0.0 0\n", 0,
           "x.txt: no row");
    /* nan and N/A: no value. A row with wrong elements is a row without a time. */
    expect("x.txt", NCCL_HEAD NCCL_COLUMNS "8 2 float sum -1 nan nan nan 0 nan nan nan N/A\n", 0,
           NULL);
    expect("x.txt",
           NCCL_HEAD NCCL_COLUMNS "8 2 float sum -1 nan nan nan 3 8.4 nan N/A 0\n"
                                  "# Out of bounds values : 3 FAILED\n",
           2, NULL);
    /* The footer ends a table. Only N/A says that nothing was checked. */
    expect("x.txt", NCCL_HEAD NCCL_COLUMNS "8 2 float sum -1 8.4 0 0 0 8.4 0 0 0\n", 2,
           "x.txt:9: a table without '# Out of bounds values' after it");
    static const char *const wrong[] = {"nan", "-nan", "inf", "-1", "N/A"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[2048];
        reading made;
        snprintf(text, sizeof text,
                 NCCL_HEAD NCCL_COLUMNS "8 2 float sum -1 8.4 0 0 %s 8.4 0 0 0\n"
                                        "# Out of bounds values : 0 OK\n",
                 wrong[i]);
        read_text(&made, "x.txt", text);
        assert_int_equal(made.set.count, 2);
        assert_int_equal(made.set.rows[0].failed, strcmp(wrong[i], "N/A") != 0);
        reading_free(&made);
    }
}

TEST(output_of_other_tools_is_read)
{
    expect("r.csv",
           "numCycle,collective,ranks,ranksPerNode,gpusPerRank,size,type,redop,inplace,"
           "time,algbw,busbw,#wrong\n0,AllReduce,1,8,8,1,1024,float,sum,0,10.5,0.1,0.2,0\n"
           "0,AllReduce,1,8,8,1,1024,float,sum,1,10.6,0.1,0.2,N/A\n",
           2, NULL);
    expect("r.json",
           "[{\"numCycle\":0, \"name\":\"AllReduce\", \"ranks\":8, \"ranksPerNode\":8, "
           "\"size\":1024, \"type\":\"float\", \"redop\":\"sum\", \"inPlace\":0, \"time\":10.5, "
           "\"algBw\":0.1, \"busBw\":0.2, \"wrong\":\"0\"}]\n",
           1, NULL);
    expect("m.json",
           "{\"name\":\"allreduce_test\",\"kernel\":0,\"ranks\":8,\"ranksPerNode\":8,"
           "\"size\":1024,\"time\":5.5,\"algBw\":1,\"busBw\":1.75}\n"
           "{\"name\":\"allreduce_test\",\"kernel\":0,\"ranks\":8,\"ranksPerNode\":8,"
           "\"size\":2048,\"time\":5.6,\"algBw\":1,\"busBw\":1.75}\n{\"name\":\"allre",
           2, "m.json:3: not a JSON object");
    expect("i.txt",
           "# Benchmarking Allgather\n# #processes = 4\n"
           " #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
           "      0         1000         0.03         0.03         0.03\n"
           "   1024         1000         5.03         6.03         5.53\n",
           1, NULL);
    expect("o.txt",
           "# OSU MPI Allreduce Latency Test v7.0\n# Size       Avg Latency(us)\n"
           "4                       1.50\n",
           0, "o.txt:3: the file does not state the number of ranks");
}

TEST(other_tools_state_the_number_of_nodes)
{
    static const struct {
        const char *path, *text, *nnodes;
    } files[] = {
        {"r.csv",
         "numCycle,collective,ranks,ranksPerNode,gpusPerRank,size,type,redop,inplace,"
         "time,algbw,busbw,#wrong\n0,AllReduce,1,8,8,1,1024,float,sum,0,10.5,0.1,0.2,0\n",
         "1"},
        {"r.csv",
         "numCycle,collective,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,"
         "inplace,time,algbw,busbw,#wrong\n"
         "0,AllReduce,2,16,8,1,1024,float,sum,0,10.5,0.1,0.2,0\n",
         "2"},
        {"m.json",
         "{\"name\":\"allreduce_test\",\"kernel\":0,\"ranks\":8,\"ranksPerNode\":8,"
         "\"size\":1024,\"time\":5.5,\"algBw\":1,\"busBw\":1.75}\n",
         "1"},
        {"m.json",
         "{\"name\":\"allreduce_test\",\"kernel\":0,\"ranks\":24,\"ranksPerNode\":8,"
         "\"size\":1024,\"time\":5.5,\"algBw\":1,\"busBw\":1.75}\n",
         "3"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        reading made;
        read_text(&made, files[i].path, files[i].text);
        assert_int_equal(made.set.count, 1);
        assert_string_equal(made.set.rows[0].text[RESULTS_NNODES], files[i].nnodes);
        reading_free(&made);
    }
}

/* A header of rccl-tests may lack the column nodes, which rows have. */
TEST(rows_of_rccl_csv_have_their_columns)
{
    static const char *const texts[] = {
        "numCycle,collective,ranks,ranksPerNode,gpusPerRank,size,type,redop,inplace,"
        "time,algbw,busbw,#wrong\n7,AllReduce,3,16,8,2,1024,float,sum,0,10.5,0.1,0.2,0\n",
        "numCycle,collective,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inplace,"
        "time,algbw,busbw,#wrong\n7,AllReduce,3,16,8,2,1024,float,sum,0,10.5,0.1,0.2,0\n",
        "numCycle,collective,ranks,ranksPerNode,gpusPerRank,size,type,redop,inplace,"
        "time,algbw,busbw,#wrong\n7,AllReduce,16,8,2,1024,float,sum,0,10.5,0.1,0.2,0\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        reading made;
        read_text(&made, "r.csv", texts[i]);
        assert_int_equal(made.set.count, 1);
        const results_row *row = &made.set.rows[0];
        assert_string_equal(row->text[RESULTS_RUN_ID], "r.csv#7");
        assert_string_equal(row->text[RESULTS_COLLECTIVE], "allreduce");
        assert_true(row->nranks == 32 && row->nnodes == 2 && row->bytes == 1024);
        assert_string_equal(row->text[RESULTS_DTYPE], "float");
        assert_string_equal(row->text[RESULTS_REDOP], "sum");
        assert_string_equal(row->text[RESULTS_PLACEMENT], "out");
        assert_string_equal(row->text[RESULTS_VERIFY], "pass");
        assert_string_equal(row->text[RESULTS_MEDIAN_US], "10.5");
        assert_string_equal(row->text[RESULTS_ALGBW_GBS], "0.1");
        assert_string_equal(row->text[RESULTS_BUSBW_GBS], "0.2");
        reading_free(&made);
    }
}

/* nccl-tests lists a device for each process, others one for each GPU: then processes repeat. */
TEST(listed_devices_give_the_number_of_ranks)
{
    static const struct {
        const char *devices;
        int nranks, nnodes;
    } lists[] = {
        {"{\"rank\":0,\"hostname\":\"a\",\"pid\":1},{\"rank\":2,\"hostname\":\"a\",\"pid\":2}", 4,
         1},
        {"{\"rank\":0,\"hostname\":\"a\",\"pid\":1},{\"rank\":2,\"hostname\":\"b\",\"pid\":1}", 4,
         2},
        {"{\"rank\":0,\"hostname\":\"a\",\"pid\":1},{\"rank\":1,\"hostname\":\"a\",\"pid\":2},"
         "{\"rank\":2,\"hostname\":\"a\",\"pid\":1},{\"rank\":3,\"hostname\":\"a\",\"pid\":2}",
         4, 1},
        {"{\"rank\":0,\"hostname\":\"a\"},{\"rank\":1,\"hostname\":\"b\"},{\"rank\":2,\"hostname\":"
         "\"a\"}",
         3, 2},
        {"{\"rank\":0,\"hostname\":\"a\"},{\"rank\":2,\"hostname\":\"a\"}", 4, 1}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char text[1024];
        reading made;
        snprintf(text, sizeof text,
                 "{\"version\":3,\"args\":[\"all_reduce_perf\"],\"config\":{\"nthreads\":1,"
                 "\"ngpus\":2,\"devices\":[%s]},\"results\":[{\"size\":8,\"count\":2,"
                 "\"type\":\"float\",\"redop\":\"sum\",\"root\":-1,\"out_of_place\":"
                 "{\"time\":8.5,\"nwrong\":0}}]}",
                 lists[i].devices);
        read_text(&made, "x.json", text);
        assert_int_equal(made.set.count, 1);
        assert_int_equal(made.set.rows[0].nranks, lists[i].nranks);
        assert_int_equal(made.set.rows[0].nnodes, lists[i].nnodes);
        reading_free(&made);
    }
}

TEST(osu_output_needs_the_number_of_ranks)
{
    results_set set;
    char text[] = "# OSU MPI All-to-All Personalized Exchange Latency Test v7.2\n"
                  "# Datatype: MPI_CHAR.\n# Size  Avg Latency(us)\n1024   12.50\n";
    results_input input = {"o.txt", text, strlen(text)};
    results_set_init(&set, 4, NULL);
    results_read_input(&set, &input, 1);
    assert_int_equal(set.count, 1);
    assert_int_equal(set.rows[0].bytes, 4096);
    assert_string_equal(set.rows[0].text[RESULTS_COLLECTIVE], "alltoall");
    assert_string_equal(set.rows[0].text[RESULTS_DTYPE], "int8");
    results_set_free(&set);
}

TEST(json_of_nccl_tests_is_read)
{
    static const char text[] =
        "{\"version\":3,\"args\":[\"./build/all_reduce_perf\"],\"nccl_version\":22803,\"config\":"
        "{\"devices\":[{\"rank\":0,\"hostname\":\"a\"},{\"rank\":1,\"hostname\":\"a\"}]},"
        "\"results\":[{\"size\":8,\"count\":2,\"type\":\"float\",\"redop\":\"sum\","
        "\"root\":\"    -1\",\"out_of_place\":{\"time\":8.5,\"alg_bw\":0,\"bus_bw\":0,"
        "\"nwrong\":0},\"in_place\":{\"time\":8.6,\"alg_bw\":0,\"bus_bw\":0,\"nwrong\":null},"
        "\"out_of_place_per_iter\":{\"skipped_iterations\":1,\"times_us\":[90,5,6,7,8,9]}}]}";
    reading made;
    read_text(&made, "x.json", text);
    assert_int_equal(made.set.count, 2);
    assert_true(made.set.rows[0].median_us == 7);
    assert_true(made.set.rows[0].low_us == 5 && made.set.rows[0].high_us == 9);
    assert_string_equal(made.set.rows[1].text[RESULTS_VERIFY], "off");
    assert_int_equal(made.set.rows[1].nnodes, 1);
    assert_string_equal(made.set.rows[0].text[RESULTS_COLLECTIVE], "allreduce");
    reading_free(&made);
    expect("x.json", "{\"results\":[{\"size\":8", 0, "x.json:1: invalid JSON");
}

/* The texts that are mutated. */
static const char *const seeds[] = {
    "{\"results\":[{\"rows\":[" JSON_ROW(JSON_TIMES) "]}]}",
    OLD_HEADER "\n" ROW "8" TIMES "\n" ROW "16" TIMES "\n" NEW_HEADER "\n" ROW "\"32\"" TIMES
               ",exact,pass,off,0,0,none,,,,,,,\n",
    "numCycle,collective,ranks,size,type,redop,inplace,time,algbw,busbw,#wrong\n"
    "0,AllReduce,8,1024,float,sum,0,10.5,0.1,0.2,0\n",
    NCCL_HEAD NCCL_COLUMNS "8 2 float sum -1 8.45 0.00 0.00 0 8.30 0.00 0.00 N/A\n",
    "# OSU MPI Allgather Latency Test v7.0\n# Size Avg Latency(us)\n4 1.50 1.0 2.0 1000\n",
    "# Benchmarking Reduce_scatter\n# #processes = 4\n 1024 1000 5.03 6.03 5.53\n",
    "{\"name\":\"allgather\",\"ranks\":8,\"ranksPerNode\":8,\"size\":1024,\"time\":5.5}\n",
    "{\"args\":[\"all_reduce_perf\"],\"results\":[{\"size\":8,\"type\":\"float\",\"redop\":\"sum\","
    "\"root\":-1,\"out_of_place\":{\"time\":8.5,\"nwrong\":0},\"out_of_place_per_iter\":"
    "{\"skipped_iterations\":1,\"times_us\":[90,5,6,7,8,9]}}]}",
};
enum { SEEDS = sizeof seeds / sizeof *seeds, FUZZED_BYTES = 2048 };

/* Changes, inserts, duplicates and cuts bytes. */
static size_t mutate(char *text, size_t length, uint64_t *x)
{
    static const char marks[] = "\",\n\r\t#{}[]:.-+e0917\x00\xff=<";
    for (uint64_t changes = 1 + test_random(x) % 6; changes > 0 && length > 1; changes--) {
        size_t at = test_random(x) % length, piece = test_random(x) % 40;
        switch (test_random(x) % 4) {
        case 0:
            text[at] = (char)test_random(x);
            break;
        case 1:
            text[at] = marks[test_random(x) % (sizeof marks - 1)];
            break;
        case 2:
            length = at + 1;
            break;
        default:
            if (at + piece < length && length + piece < FUZZED_BYTES) {
                memmove(text + at + piece, text + at, length - at);
                length += piece;
            }
        }
    }
    return length;
}

/* Reads a text, compares it with a part of itself, and prints it in every format; rows must survive
 * being printed and read. */
static void use(const char *text, size_t length)
{
    reading a, b;
    results_comparison made;
    results_rules rules = results_rules_default();
    results_expectations expected = {.count = 0};
    FILE *nowhere = fopen("/dev/null", "w");
    read_bytes(&a, "alltoall.a", text, length);
    read_bytes(&b, "alltoall.b", text, length - length % 7);
    expect_same_rows(&a.set, results_print_csv);
    expect_same_rows(&a.set, results_print_rows_json);
    if (results_match(&a.set, &b.set, &rules, &made) == 0) {
        results_judge(&made, &rules);
        results_report report = {.a = &a.set,
                                 .b = &b.set,
                                 .name_a = "a",
                                 .name_b = "b",
                                 .comparison = &made,
                                 .rules = &rules,
                                 .expectations = &expected};
        results_print_text(nowhere, &report);
        results_print_markdown(nowhere, &report);
        results_print_json(nowhere, &report);
        results_print_junit(nowhere, &report);
        results_print_ctrf(nowhere, &report);
        results_print_prometheus(nowhere, &report);
    }
    fclose(nowhere);
    reading_free(&a);
    reading_free(&b);
}

/* FUZZ_S sets the duration in seconds, otherwise the number of texts is fixed; FUZZ_START is a
 * seed. */
TEST(mutated_inputs_never_crash_and_round_trip)
{
    const char *seconds = getenv("FUZZ_S"), *start = getenv("FUZZ_START");
    time_t end = time(NULL) + (seconds ? atoi(seconds) : 0);
    uint64_t x = (start ? strtoull(start, NULL, 10) * 2654435761u : 0) ^ 88172645463325252u;
    if (seconds && !start)
        (void)long_part("most of the time of mutated files");
    for (long tries = 0; seconds ? time(NULL) < end : tries < 3000; tries++) {
        char text[FUZZED_BYTES];
        const char *seed = seeds[test_random(&x) % SEEDS];
        size_t length = strlen(seed);
        memcpy(text, seed, length);
        use(text, mutate(text, length, &x));
    }
}

int main(void)
{
    return run_all_tests("results");
}
