/*
 * Proves when dispatch and combine on a GPU ask whether buffers are memory of that GPU, with
 * functions of this file in place of CUDA, launches and regions: in the first call, not in calls
 * with the same arguments, and again once a dispatch of another number of tokens has changed how
 * much of a buffer a combine with unchanged arguments uses. A refused call launches only the kernel
 * that says so to the other ranks, also if its structure cannot be read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define weiri_moe_gpu_ops tested_ops
#define weiri_cuda_launch fake_launch
#define weiri_cuda_ready fake_ready
#define weiri_cuda_leave fake_leave
#define weiri_region_describe fake_region
#include "moe/gpu_cuda.c"

enum { MAX_TOKENS = 64, FEW = 16, ROOM = 32, ROW_BYTES = 32, TOPK = 2, ROWS = MAX_TOKENS * TOPK };

/* Memory of the GPU: rows received, and an output with room for ROOM tokens. */
static _Alignas(16) char tokens_in[MAX_TOKENS * ROW_BYTES], rows[ROWS * ROW_BYTES];
static _Alignas(16) char outputs[ROOM * ROW_BYTES];
static int32_t choices[MAX_TOKENS * TOPK];
static int asked, launched;
static moe_gpu_args latest;  /* launch */
static weir_stream streamed; /* its stream */
static char streams[1];
static const weir_stream a_stream = streams;

static int is_within(const void *pointer, size_t bytes, const void *begin, size_t length)
{
    const char *at = pointer, *first = begin;
    return at >= first && at + bytes <= first + length;
}

static weir_status fake_check_buffer(const weir_comm *comm, const void *pointer, size_t bytes)
{
    (void)comm;
    asked++;
    return is_within(pointer, bytes, tokens_in, sizeof tokens_in) ||
                   is_within(pointer, bytes, rows, sizeof rows) ||
                   is_within(pointer, bytes, outputs, sizeof outputs) ||
                   is_within(pointer, bytes, choices, sizeof choices)
               ? WEIR_OK
               : WEIR_ERR_INVALID;
}

weir_status fake_launch(weir_comm *comm, weir_stream stream, const char *name, const void *kernel,
                        weiri_gpu_shape shape, void *args)
{
    (void)comm, (void)name, (void)kernel, (void)shape;
    latest = *(const moe_gpu_args *)args;
    streamed = stream;
    launched++;
    return WEIR_OK;
}

weir_status fake_ready(weir_comm *comm, weir_stream stream, int *before)
{
    (void)comm, (void)stream;
    *before = 0;
    return WEIR_OK;
}

void fake_leave(const weir_comm *comm, int before)
{
    (void)comm, (void)before;
}

weiri_desc fake_region(const weir_comm *comm, const void *pointer, size_t bytes)
{
    (void)comm, (void)pointer, (void)bytes;
    return (weiri_desc){0};
}

/* A group of two ranks with one handle, as far as launches look at it. */
typedef struct scene {
    weiri_gpu_ops ops;
    weiri_cuda cuda;
    weir_comm comm;
    struct moe_gpu gpu;
    int tokens;
    weir_moe group;
} scene;

static void scene_open(scene *s)
{
    memset(s, 0, sizeof *s);
    asked = launched = 0;
    s->tokens = -1;
    s->ops.check_buffer = fake_check_buffer;
    s->cuda.base.ops = &s->ops;
    s->cuda.processors = 2;
    s->comm.gpu = &s->cuda.base;
    s->gpu.tokens = &s->tokens;
    s->group =
        (weir_moe){.comm = &s->comm, .nranks = 2, .by_expert = 1, .row_values = 1, .gpu = &s->gpu};
    s->group.config = (weir_moe_config){
        .max_tokens = MAX_TOKENS, .handles = 1, .topk = TOPK, .experts = 2, .dtype = WEIR_BFLOAT16};
    s->group.info = (weir_moe_info){
        .row_bytes = ROW_BYTES, .recv_rows = ROWS, .local_experts = 1, .recv_bytes = sizeof rows};
}

static weir_status dispatch(scene *s, int tokens)
{
    moe_call call;
    weir_moe_dispatch_args *args = &call.dispatch;
    memset(&call, 0, sizeof call);
    args->size = sizeof *args;
    args->tokens = tokens;
    args->x = tokens_in;
    args->topk_experts = choices;
    args->topk_dtype = WEIR_INT32;
    args->rows = rows;
    args->rows_bytes = sizeof rows;
    args->stream = a_stream;
    return tested_ops.run[MOE_DISPATCH](&s->group, &call, MOE_PHASE_SEND | MOE_PHASE_COMPLETE);
}

/* The same arguments in every call: an output that is said to have room for all tokens. */
static weir_status combine(scene *s)
{
    moe_call call;
    weir_moe_combine_args *args = &call.combine;
    memset(&call, 0, sizeof call);
    args->size = sizeof *args;
    args->rows = rows;
    args->out = outputs;
    args->out_bytes = MAX_TOKENS * ROW_BYTES;
    args->stream = a_stream;
    return tested_ops.run[MOE_COMBINE](&s->group, &call, MOE_PHASE_SEND | MOE_PHASE_COMPLETE);
}

/* Dispatches, which must succeed, and returns what combine does. */
static weir_status layer(scene *s, int tokens)
{
    assert_int_equal(dispatch(s, tokens), WEIR_OK);
    return combine(s);
}

static void test_same_arguments_are_checked_once(void **state)
{
    scene s;
    (void)state;
    scene_open(&s);
    assert_int_equal(layer(&s, FEW), WEIR_OK);
    const int first = asked;
    assert_true(first >= 5); /* x, choices and rows; rows and out */
    for (int call = 0; call < 3; call++)
        assert_int_equal(layer(&s, FEW), WEIR_OK);
    assert_int_equal(asked, first);
    assert_int_equal(launched, 8);
}

static void test_more_tokens_are_checked_again(void **state)
{
    scene s;
    (void)state;
    scene_open(&s);
    assert_int_equal(layer(&s, FEW), WEIR_OK);
    assert_int_equal(layer(&s, ROOM), WEIR_OK);
    assert_int_equal(dispatch(&s, MAX_TOKENS), WEIR_OK);
    const int before = launched;
    assert_int_equal(latest.problem, MOE_NO_PROBLEM);
    assert_int_equal(combine(&s), WEIR_ERR_INVALID);
    assert_int_equal(launched, before + 1);
    assert_int_equal(latest.problem, MOE_BAD_BUFFER);
    assert_int_equal(latest.values[0], MOE_POINTER_OUT);
    assert_int_equal(layer(&s, FEW), WEIR_OK);
}

static void test_refused_buffers_stay_refused(void **state)
{
    scene s;
    (void)state;
    scene_open(&s);
    assert_int_equal(dispatch(&s, MAX_TOKENS), WEIR_OK);
    for (int call = 0; call < 2; call++)
        assert_int_equal(combine(&s), WEIR_ERR_INVALID);
}

/* Other ranks learn of it in the order of calls: by a launch on the stream of the one before. */
static void test_unreadable_structures_are_published(void **state)
{
    scene s;
    (void)state;
    scene_open(&s);
    assert_int_equal(layer(&s, FEW), WEIR_OK);
    const int before = launched;
    moe_call call = {.dispatch = WEIR_MOE_DISPATCH_ARGS_INIT};
    call.problem = MOE_BAD_ARGS;
    call.values[0] = 5;
    streamed = NULL;
    assert_int_equal(
        tested_ops.run[MOE_DISPATCH](&s.group, &call, MOE_PHASE_SEND | MOE_PHASE_COMPLETE),
        WEIR_ERR_INVALID);
    assert_int_equal(launched, before + 1);
    assert_int_equal(latest.kind, MOE_DISPATCH);
    assert_int_equal(latest.problem, MOE_BAD_ARGS);
    assert_int_equal(latest.values[0], 5);
    assert_ptr_equal(streamed, a_stream);
    call.combine = (weir_moe_combine_args)WEIR_MOE_COMBINE_ARGS_INIT;
    assert_int_equal(tested_ops.run[MOE_COMBINE](&s.group, &call, MOE_PHASE_SEND),
                     WEIR_ERR_INVALID);
    assert_int_equal(launched, before + 2);
    assert_int_equal(latest.kind, MOE_COMBINE);
    assert_int_equal(layer(&s, FEW), WEIR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_arguments_are_checked_once),
        cmocka_unit_test(test_more_tokens_are_checked_again),
        cmocka_unit_test(test_refused_buffers_stay_refused),
        cmocka_unit_test(test_unreadable_structures_are_published),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
