/*
 * The plan reader and checker survive mutated plans: bytes, numbers and words of the text are
 * changed, and numbers of plans that were read. They always return, with a message if they reject,
 * and access no invalid memory (detected with BUILD=asan). A plan that was read can be printed, and
 * is read back unchanged.
 *
 * FUZZ_S sets the duration in seconds, otherwise the number of plans is fixed; FUZZ_START is a
 * seed.
 */
#include "verify/tests/support/long_part.h"
#include "verify/tests/support/plan_files.h"
#include "verify/tests/support/plan_right.h"
#include "verify/tests/support/unit_test.h"

#include "plan/format/layout.h"

#include <time.h>

enum { FUZZED_BYTES = 1 << 17, TRIES = 1000 };

static uint64_t generator = 88172645463325252u;

static uint32_t random_below(uint32_t below)
{
    generator ^= generator << 13;
    generator ^= generator >> 7;
    generator ^= generator << 17;
    return (uint32_t)(generator >> 33) % below;
}

static const char *random_of(const char *const *words, size_t count)
{
    return words[random_below((uint32_t)count)];
}

/* ------------------------------------------------------------------- text */

/* Replaces `bytes` bytes of text by a word; returns the new length. */
static size_t splice(char *text, size_t length, size_t at, size_t bytes, const char *word)
{
    size_t more = strlen(word);
    if (at + bytes > length || length - bytes + more >= FUZZED_BYTES)
        return length;
    memmove(text + at + more, text + at + bytes, length - at - bytes);
    memcpy(text + at, word, more);
    return length - bytes + more;
}

static size_t change_number(char *text, size_t length)
{
    static const char *const numbers[] = {"0",          "1",
                                          "2",          "3",
                                          "7",          "63",
                                          "64",         "65",
                                          "-1",         "1.5",
                                          "1048576",    "1048577",
                                          "1e9",        "2147483647",
                                          "4294967295", "1e400",
                                          "\"1\"",      "null",
                                          "[]",         "{}",
                                          "1024",       "18446744073709551615"};
    size_t at = random_below((uint32_t)length), end;
    while (at < length && (text[at] < '0' || text[at] > '9'))
        at++;
    for (end = at; end < length && text[end] >= '0' && text[end] <= '9';)
        end++;
    return splice(text, length, at, end - at, random_of(numbers, sizeof numbers / sizeof *numbers));
}

/* Changes the name of an operation to a different one. */
static size_t change_name(char *text, size_t length)
{
    static const char key[] = "{\"name\":\"";
    char word[32];
    size_t at = random_below((uint32_t)length);
    while (at + sizeof key < length && memcmp(text + at, key, sizeof key - 1) != 0)
        at++;
    if (at + sizeof key >= length)
        return length;
    at += sizeof key - 1;
    size_t end = at;
    while (end < length && text[end] != '"')
        end++;
    snprintf(word, sizeof word, "%s",
             weiri_plan_kind_name((weiri_plan_kind)random_below(WEIRI_PLAN_KINDS)));
    return splice(text, length, at, end - at, word);
}

static size_t change_bytes(char *text, size_t length)
{
    static const char *const pieces[] = {"{", "}",    "[",       "]",    ",", ":", "\"", "\\",
                                         "0", "\xff", "\\u0000", "true", "e", "-", "",   ""};
    uint32_t bytes = random_below(4);
    return splice(text, length, random_below((uint32_t)length), bytes,
                  random_of(pieces, sizeof pieces / sizeof *pieces));
}

static size_t change_text(char *text, size_t length)
{
    for (uint32_t changes = random_below(3); changes && length > 64; changes--) {
        uint32_t how = random_below(16);
        if (how < 8)
            length = change_number(text, length);
        else if (how < 13)
            length = change_name(text, length);
        else if (how < 15)
            length = change_bytes(text, length);
        else if (random_below(8) == 0)
            length = random_below((uint32_t)length);
    }
    return length;
}

/* ------------------------------------------------------------------ structure */

static uint32_t odd_number(uint32_t old)
{
    static const uint32_t numbers[] = {0, 1, 2, 3, 4, 5, 16, 63, 64, 1024, 1 << 20};
    return random_below(4) ? numbers[random_below(sizeof numbers / sizeof *numbers)]
                           : old + random_below(3) - 1;
}

static void change_op(weiri_plan_gpu *gpu, weiri_plan_op *op)
{
    switch (random_below(9)) {
    case 0:
        op->part = odd_number(op->part);
        break;
    case 1:
        op->nparts = odd_number(op->nparts);
        break;
    case 2:
        op->unit_bytes = (uint64_t)odd_number(1) * 16;
        break;
    case 3:
        op->num_chunks = odd_number(op->num_chunks);
        break;
    case 4:
        op->nblocks = odd_number(op->nblocks);
        break;
    case 5:
        if (op->nids)
            gpu->ids[op->first_id] = odd_number(gpu->ids[op->first_id]);
        break;
    case 6:
        if (op->nsrcs)
            gpu->refs[op->first_src].index = odd_number(gpu->refs[op->first_src].index);
        break;
    case 7:
        if (op->ndsts)
            gpu->refs[op->first_dst].size = odd_number(gpu->refs[op->first_dst].size);
        break;
    default:
        op->barrier = odd_number(op->barrier);
        break;
    }
}

static void change_structure(weir_plan *plan)
{
    for (uint32_t changes = random_below(4); changes; changes--) {
        weiri_plan_gpu *gpu = &plan->gpus[random_below((uint32_t)plan->nranks)];
        if (random_below(8) == 0)
            gpu->chunks[random_below(3)] = odd_number(gpu->chunks[0]);
        else if (random_below(8) == 0 && gpu->nsemaphores)
            gpu->semaphores[0] = odd_number(gpu->semaphores[0]);
        else if (gpu->nops)
            change_op(gpu, &gpu->ops[random_below(gpu->nops)]);
    }
}

/* ----------------------------------------------------------------------- use */

static void check_again(const weir_plan *plan)
{
    weir_plan_report *report = calloc(1, sizeof *report);
    weiri_plan_layout layout;
    assert_non_null(report);
    weir_status status = weir_plan_check(plan, report);
    assert_true(status == WEIR_OK || *weir_last_error());
    assert_int_equal(status == WEIR_ERR_INVALID, report->nviolations != 0);
    for (uint64_t bytes = 0; bytes < 1000; bytes += 333)
        weiri_plan_lay_out(plan, bytes, bytes, 1, &layout);
    free(report);
}

static void print_again(const weir_plan *plan)
{
    char *text = NULL;
    size_t bytes;
    if (weir_plan_print(plan, &text, &bytes) != WEIR_OK)
        return;
    plan_reads_again(text, bytes, "again");
    free(text);
}

/* Reads a mutated text; a plan that is read is checked, changed and checked again. */
static int use(char *text, size_t length)
{
    weir_plan *plan = NULL;
    char *exact = malloc(length + 1); /* exact in size, so that reads past the end are detected */
    assert_non_null(exact);
    memcpy(exact, text, length);
    weir_status status = weir_plan_parse(exact, length, "fuzzed", &plan);
    free(exact);
    if (status != WEIR_OK) {
        assert_null(plan);
        assert_true(*weir_last_error());
        return 0;
    }
    print_again(plan);
    check_again(plan);
    change_structure(plan);
    if (weiri_plan_validate(plan) == WEIR_OK)
        check_again(plan);
    weir_plan_free(plan);
    return 1;
}

TEST(mutated_plans_never_crash_and_round_trip)
{
    static char text[FUZZED_BYTES];
    const char *seconds = getenv("FUZZ_S"), *start = getenv("FUZZ_START");
    time_t end = time(NULL) + (seconds ? atoi(seconds) : 0);
    long tries, read = 0;
    weir_plan_free(plan_of(right_plans[0])); /* skips the test if plans cannot be read */
    if (start)
        generator ^= strtoull(start, NULL, 10) * 2654435761u;
    if (seconds && !start)
        (void)long_part("most of the time of mutated plans");
    for (tries = 0; seconds ? time(NULL) < end : tries < TRIES; tries++) {
        char *json = plan_json(right_plans[random_below(RIGHT_PLANS)]);
        size_t length = strlen(json);
        assert_true(length < FUZZED_BYTES);
        memcpy(text, json, length);
        free(json);
        read += use(text, change_text(text, length));
    }
    print_message("# %ld plans, of which %ld were read\n", tries, read);
    assert_true(read > tries / 5 && read < tries);
}

int main(void)
{
    setenv("WEIR_LOG", "error", 1);
    return run_all_tests("plan_fuzz");
}
