/*
 * End-to-end check of verification, run by mpi_verify.sh under mpirun. Every collective is
 * performed correctly by MPI (reductions of 8-bit integers and small floats: in rank order after an
 * MPI allgather), for every type and operation. Verification must
 *
 *   - find nothing wrong if no fault is injected;
 *   - find each fault of the list below in every case to which it applies.
 *
 * The bootstrap over MPI is tested with exchanges that are longer than MPI's counts. Rank 0 prints
 * one TAP line per fault and collective. Exit code 1 if any is not ok.
 */
#include "base/mpi_open.h"
#include "verify/number.h"
#include "verify/reference.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum fault {
    NONE,
    FLIP,    /* one wrong bit in the last element of the last rank */
    SWAP,    /* two chunks are swapped on the last rank */
    STALE,   /* the last rank delivers what another seed would give */
    MISSING, /* the last rank's contribution is left out */
    TAIL,    /* the last element is not written on the last rank */
    OVERRUN, /* one byte after the end of out is written on the last rank */
    INPUT,   /* one element of the last rank's input changes */
    STRAY,   /* elements of out that must stay untouched are written */
    FAULTS
} fault;

static const char *const fault_names[FAULTS] = {"none", "flip",    "swap",  "stale", "missing",
                                                "tail", "overrun", "input", "stray"};

typedef struct buffers {
    weirv_guard guard;
    void *in, *out, *base;
    size_t *layout; /* four arrays of nranks for alltoallv */
} buffers;

enum { SEED = 1234, MISALIGN = 3 };

/* Every pair of ranks exchanges a different count, some of them zero. There are gaps between the
 * blocks that a rank receives. */
static void make_layout(weirv_case *c, size_t *layout)
{
    size_t n = (size_t)c->nranks, me = (size_t)c->rank, send_at = 0, recv_at = 2;
    size_t *sc = layout, *sd = layout + n, *rc = layout + 2 * n, *rd = layout + 3 * n;
    for (size_t r = 0; r < n; r++) {
        sc[r] = n > 1 && (me + r) % 4 == 3 ? 0 : c->count / (me + 1) + r;
        rc[r] = n > 1 && (me + r) % 4 == 3 ? 0 : c->count / (r + 1) + me;
        sd[r] = send_at;
        rd[r] = recv_at;
        send_at += sc[r];
        recv_at += rc[r] + 3;
    }
    c->send_counts = sc;
    c->send_displs = sd;
    c->recv_counts = rc;
    c->recv_displs = rd;
}

static void make_buffers(weirv_case *c, buffers *b)
{
    size_t width = weir_dtype_bytes(c->dtype);
    b->layout = calloc(4 * (size_t)c->nranks, sizeof *b->layout);
    make_layout(c, b->layout);
    size_t out_bytes = weirv_recv_elements(c) * width;
    b->in = malloc(weirv_send_elements(c) * width + 1);
    b->base = malloc(weirv_guard_bytes(out_bytes, MISALIGN));
    b->out = weirv_guard_place(&b->guard, b->base, out_bytes, MISALIGN);
    weirv_fill_input(c, b->in);
    weirv_poison(b->out, out_bytes);
}

static void free_buffers(buffers *b)
{
    free(b->base);
    free(b->in);
    free(b->layout);
}

/* ------------------------------------------------- correct collectives */

static double combine(weir_op op, double a, double x)
{
    switch (op) {
    case WEIR_PROD:
        return (float)(a * x);
    case WEIR_MAX:
        return a > x ? a : x;
    case WEIR_MIN:
        return a < x ? a : x;
    default:
        return (float)(a + x);
    }
}

/* Reduces one element of a float type below 32 bits: accumulated in float, rounded once. x is rank
 * 0's element; those of the next ranks follow at a distance of stride bytes. */
static void reduce_small_float(const weirv_case *c, const unsigned char *x, size_t stride,
                               unsigned char *out)
{
    double sum, next;
    weirv_decode(c->dtype, x, 1, &sum);
    for (int r = 1; r < c->nranks; r++) {
        weirv_decode(c->dtype, x + (size_t)r * stride, 1, &next);
        sum = combine(c->op, sum, next);
    }
    weirv_encode(c->dtype, c->op == WEIR_AVG ? sum / c->nranks : sum, out);
}

/* As above for 8-bit integers, because Open MPI's vector code saturates their sums. */
static void reduce_small_integer(const weirv_case *c, const unsigned char *x, size_t stride,
                                 unsigned char *out)
{
    int is_signed = c->dtype == WEIR_INT8;
    int sum = is_signed ? (int8_t)x[0] : x[0];
    for (int r = 1; r < c->nranks; r++) {
        int next = is_signed ? (int8_t)x[(size_t)r * stride] : x[(size_t)r * stride];
        sum = (int)combine(c->op, sum, next);
        sum = is_signed ? (int8_t)sum : (uint8_t)sum;
    }
    *out = (unsigned char)(c->op == WEIR_AVG ? sum / c->nranks : sum);
}

static MPI_Datatype type_of(weir_dtype dtype)
{
    MPI_Datatype types[WEIR_DTYPE_COUNT];
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++)
        types[t] = MPI_DATATYPE_NULL;
    types[WEIR_INT32] = MPI_INT32_T;
    types[WEIR_UINT32] = MPI_UINT32_T;
    types[WEIR_INT64] = MPI_INT64_T;
    types[WEIR_UINT64] = MPI_UINT64_T;
    types[WEIR_FLOAT] = MPI_FLOAT;
    types[WEIR_DOUBLE] = MPI_DOUBLE;
    return types[dtype];
}

static MPI_Op op_of(weir_op op)
{
    MPI_Op ops[WEIR_OP_COUNT];
    ops[WEIR_SUM] = ops[WEIR_AVG] = MPI_SUM;
    ops[WEIR_PROD] = MPI_PROD;
    ops[WEIR_MAX] = MPI_MAX;
    ops[WEIR_MIN] = MPI_MIN;
    return ops[op];
}

/* Fills the input of a rank that is left out of a reduction. */
static void neutral_input(const weirv_case *c, void *in, size_t elements)
{
    size_t width = weir_dtype_bytes(c->dtype);
    if (c->op == WEIR_SUM || c->op == WEIR_AVG) {
        memset(in, 0, elements * width);
        return;
    }
    /* A second copy of rank 0's data leaves max and min unchanged, and changes prod. */
    weirv_fill(in, 0, elements, c->dtype, c->op, 0, c->seed);
}

static void divide(const weirv_case *c, void *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        switch (c->dtype) {
        case WEIR_INT32:
            ((int32_t *)values)[i] /= c->nranks;
            break;
        case WEIR_UINT32:
            ((uint32_t *)values)[i] /= (uint32_t)c->nranks;
            break;
        case WEIR_INT64:
            ((int64_t *)values)[i] /= c->nranks;
            break;
        case WEIR_UINT64:
            ((uint64_t *)values)[i] /= (uint64_t)c->nranks;
            break;
        case WEIR_FLOAT:
            ((float *)values)[i] /= (float)c->nranks;
            break;
        default:
            ((double *)values)[i] /= c->nranks;
            break;
        }
    }
}

/* Returns the reduction of all ranks' complete inputs in a new array, which the caller frees. */
static void *reduce_all(const weirv_case *c, const void *in, size_t elements)
{
    size_t width = weir_dtype_bytes(c->dtype);
    unsigned char *sum = malloc(elements * width + 1);
    if (type_of(c->dtype) != MPI_DATATYPE_NULL) {
        MPI_Allreduce(in, sum, (int)elements, type_of(c->dtype), op_of(c->op), MPI_COMM_WORLD);
        if (c->op == WEIR_AVG)
            divide(c, sum, elements);
        return sum;
    }
    unsigned char *all = malloc((size_t)c->nranks * elements * width + 1);
    MPI_Allgather(in, (int)(elements * width), MPI_BYTE, all, (int)(elements * width), MPI_BYTE,
                  MPI_COMM_WORLD);
    for (size_t i = 0; i < elements; i++)
        (weirv_format_of(c->dtype) ? reduce_small_float : reduce_small_integer)(
            c, all + i * width, elements * width, sum + i * width);
    free(all);
    return sum;
}

static void do_reduction(const weirv_case *c, const void *in, void *out)
{
    size_t width = weir_dtype_bytes(c->dtype), bytes = c->count * width;
    unsigned char *sum = reduce_all(c, in, weirv_send_elements(c));
    if (c->collective == WEIR_COLL_REDUCE_SCATTER)
        memcpy(out, sum + (size_t)c->rank * bytes, bytes);
    else if (c->collective == WEIR_COLL_ALLREDUCE || c->rank == c->root)
        memcpy(out, sum, bytes);
    free(sum);
}

static void do_alltoallv(const weirv_case *c, const void *in, void *out)
{
    int n = c->nranks, width = (int)weir_dtype_bytes(c->dtype);
    int *v = malloc(4 * (size_t)n * sizeof *v);
    for (int r = 0; r < n; r++) {
        v[r] = (int)c->send_counts[r] * width;
        v[n + r] = (int)c->send_displs[r] * width;
        v[2 * n + r] = (int)c->recv_counts[r] * width;
        v[3 * n + r] = (int)c->recv_displs[r] * width;
    }
    MPI_Alltoallv(in, v, v + n, MPI_BYTE, out, v + 2 * n, v + 3 * n, MPI_BYTE, MPI_COMM_WORLD);
    free(v);
}

static void do_collective(const weirv_case *c, void *in, void *out)
{
    int n = c->nranks, bytes = (int)(c->count * weir_dtype_bytes(c->dtype));
    switch (c->collective) {
    case WEIR_COLL_ALLGATHER:
        MPI_Allgather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD);
        break;
    case WEIR_COLL_BROADCAST:
        memcpy(out, in, (size_t)bytes);
        MPI_Bcast(out, bytes, MPI_BYTE, c->root, MPI_COMM_WORLD);
        break;
    case WEIR_COLL_ALLTOALL:
        MPI_Alltoall(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD);
        break;
    case WEIR_COLL_ALLTOALLV:
        do_alltoallv(c, in, out);
        break;
    case WEIR_COLL_SENDRECV:
        MPI_Sendrecv(in, bytes, MPI_BYTE, (c->rank + 1) % n, 0, out, bytes, MPI_BYTE,
                     (c->rank + n - 1) % n, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    default:
        do_reduction(c, in, out);
        break;
    }
}

/* ------------------------------------------------------------------ faults */

/* The rank whose result a fault changes: the last one that has a result. */
static int target_rank(const weirv_case *c)
{
    return c->collective == WEIR_COLL_REDUCE ? c->root : c->nranks - 1;
}

static int applies(fault f, const weirv_case *c)
{
    if (f == MISSING)
        return weirv_is_reduction(c->collective) && c->nranks > 1;
    if (f == STRAY)
        return c->collective == WEIR_COLL_ALLTOALLV ||
               (c->collective == WEIR_COLL_REDUCE && c->nranks > 1);
    return f != NONE;
}

static void inject_into_input(fault f, const weirv_case *c, void *in)
{
    size_t elements = weirv_send_elements(c);
    if (f == STALE) {
        weirv_case old = *c;
        old.seed--;
        weirv_fill_input(&old, in);
    }
    if (f == MISSING && applies(f, c) && c->rank == c->nranks - 1)
        neutral_input(c, in, elements);
}

static void swap_chunks(unsigned char *out, size_t bytes, size_t width)
{
    size_t chunk = bytes / 2 / width * width;
    for (size_t i = 0; i < chunk; i++) {
        unsigned char byte = out[i];
        out[i] = out[chunk + i];
        out[chunk + i] = byte;
    }
}

/* The flipped bit is the highest of the exponent, so that zero changes too. */
static void inject_into_output(fault f, const weirv_case *c, buffers *b)
{
    size_t width = weir_dtype_bytes(c->dtype), bytes = weirv_recv_elements(c) * width;
    unsigned char *out = b->out;
    int is_target = c->rank == target_rank(c);
    if (f == FLIP && is_target)
        out[bytes - 1] ^= 0x40;
    if (f == SWAP && is_target)
        swap_chunks(out, bytes, width);
    if (f == TAIL && is_target)
        weirv_poison(out + bytes - width, width);
    if (f == OVERRUN && is_target)
        out[bytes] ^= 1;
    if (f == INPUT && is_target)
        ((unsigned char *)b->in)[width / 2] ^= 1;
    if (f == STRAY && c->collective == WEIR_COLL_ALLTOALLV)
        memset(out, 1, width);
    if (f == STRAY && c->collective == WEIR_COLL_REDUCE && c->rank != c->root)
        memset(out + bytes - width, 1, width);
}

/* ------------------------------------------------------------------- cases */

static void run_case(fault f, weirv_case *c, weirv_result *result)
{
    weir_boot *boot = NULL;
    buffers b;
    make_buffers(c, &b);
    memset(result, 0, sizeof *result);
    inject_into_input(f, c, b.in);
    do_collective(c, b.in, b.out);
    if (f == STALE || f == MISSING)
        weirv_fill_input(c, b.in);
    inject_into_output(f, c, &b);
    if (weirv_check(MPI_COMM_WORLD, c, b.out, 1, result) != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 3);
    result->overruns = weirv_guard_check(&b.guard);
    result->inputs_changed = weirv_input_changed(c, b.in);
    if (weir_boot_mpi_create_from(&weiri_mpi, MPI_COMM_WORLD, &boot) != WEIR_OK ||
        weirv_reduce_result(boot, result) != WEIR_OK)
        MPI_Abort(MPI_COMM_WORLD, 3);
    weir_boot_destroy(boot);
    free_buffers(&b);
}

/* Whether the result is right: nothing found without a fault, else the fault's symptoms. */
static int as_expected(fault f, const weirv_case *c, const weirv_result *result)
{
    if (!applies(f, c))
        return !result->wrong && !result->overruns && !result->inputs_changed &&
               result->worst_error <= 1;
    if (f == OVERRUN)
        return !result->wrong && result->overruns == 1;
    if (f == INPUT)
        return !result->wrong && result->inputs_changed == 1;
    if (f == FLIP || f == TAIL)
        return result->wrong == 1 && result->has_first && result->first.rank == target_rank(c) &&
               !result->overruns && !result->inputs_changed;
    return result->wrong > 0 && result->has_first && !result->overruns;
}

/* If the last integer of a result were all ones, as the poison is, TAIL would not be a fault; the
 * seed avoids such a result. */
static int run_dtype(fault f, weirv_case *c, size_t count)
{
    int ops = weirv_is_reduction(c->collective) ? WEIR_OP_COUNT : 1, failed = 0;
    for (int op = 0; op < ops; op++) {
        weirv_result result;
        c->op = (weir_op)op;
        if (ops > 1 && type_of(c->dtype) != MPI_DATATYPE_NULL &&
            !weirv_mpi_combines(c->dtype, c->op, type_of(c->dtype)))
            continue; /* this MPI cannot perform the call: unsigned integers of MPICH 4.0 */
        c->count = count;
        c->seed = SEED + (uint64_t)c->dtype;
        run_case(f, c, &result);
        if (as_expected(f, c, &result))
            continue;
        char text[300];
        weirv_describe(&result, text, sizeof text);
        if (c->rank == 0)
            printf("# %s %s %s count %zu: %s (worst error %g of the bound)\n",
                   weir_collective_name(c->collective), weir_dtype_name(c->dtype),
                   weir_op_name(c->op), count, text, result.worst_error);
        failed++;
    }
    return failed;
}

/* Counts above the block size of verification are too slow to test with every type. */
static int run_collective(fault f, weirv_case *c)
{
    int failed = 0;
    for (int t = 0; t < WEIR_DTYPE_COUNT; t++) {
        c->dtype = (weir_dtype)t;
        failed += run_dtype(f, c, 1001);
        if (f != NONE)
            continue;
        failed += run_dtype(f, c, 0);
        failed += run_dtype(f, c, 1);
        failed += run_dtype(f, c, 7);
        if (t == WEIR_INT32 || t == WEIR_FLOAT)
            failed += run_dtype(f, c, 300007);
    }
    return failed;
}

/* Runs all collectives; returns the number of cases with an unexpected verdict. */
static int run_fault(fault f, weirv_case *c)
{
    int failed = 0;
    for (int collective = 0; collective < WEIR_COLL_COUNT; collective++) {
        c->collective = (weir_collective)collective;
        int wrong = run_collective(f, c);
        failed += wrong;
        if (c->rank == 0)
            printf("%sok - verify %s: %d ranks, fault %s\n", wrong ? "not " : "",
                   weir_collective_name(c->collective), c->nranks, fault_names[f]);
    }
    return failed;
}

/* The table of faults matches libraries and versions; rank 0 reports. Returns the failures. */
static int check_fault_table(int rank)
{
    static const struct {
        const char *library;
        int has;
    } known[] = {{"MPICH Version:    \t4.0.2\nMPICH Release date:\t...", 1},
                 {"MPICH Version:      4.0", 1},
                 {"MPICH Version:      4.1.2", 0},
                 {"MPICH Version:      3.4.3", 0},
                 {"MPICH Version:      14.0", 0},
                 {"Open MPI v4.0.2, package: ...", 0},
                 {"Intel(R) MPI Library 2021.4.0 for Linux* OS", 0},
                 {"", 0}};
    int failed = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (int which = 0; which < WEIRV_MPI_FAULTS; which++) {
            const char *text = NULL;
            if (which == WEIRV_MPI_UNSIGNED_ORDER)
                continue; /* tried, not known by version */
            const int has = weirv_mpi_fault_is_in(known[i].library, (weirv_mpi_fault)which, &text);
            failed += has != known[i].has || has != (text != NULL);
        }
    const weirv_mpi_fault order = WEIRV_MPI_UNSIGNED_ORDER;
    failed += !weirv_mpi_fault_concerns(order, WEIR_COLL_REDUCE, WEIR_UINT8, WEIR_MIN);
    failed += !weirv_mpi_fault_concerns(order, WEIR_COLL_ALLREDUCE, WEIR_UINT64, WEIR_MAX);
    failed += weirv_mpi_fault_concerns(order, WEIR_COLL_REDUCE, WEIR_INT8, WEIR_MIN);
    failed += weirv_mpi_fault_concerns(order, WEIR_COLL_REDUCE, WEIR_UINT8, WEIR_SUM);
    failed += weirv_mpi_fault_concerns(WEIRV_MPI_REDUCE_IN_PLACE, WEIR_COLL_ALLREDUCE, WEIR_INT8,
                                       WEIR_SUM);
    if (rank == 0)
        printf("%sok - the table of MPI's faults matches libraries and versions\n",
               failed ? "not " : "");
    return failed;
}

/* A call of MPI takes at most INT_MAX bytes; a longer one is refused before any buffer is used, and
 * the bootstrap stays usable. Returns the failures. */
static int check_long_exchanges(int rank, int nranks)
{
    const size_t too_long = (size_t)INT_MAX + 1;
    weir_boot *boot = NULL;
    char own[8] = "";
    int failed = weir_boot_mpi_create_from(&weiri_mpi, MPI_COMM_WORLD, &boot) != WEIR_OK;
    failed += weir_boot_allgather(boot, own, too_long) != WEIR_ERR_UNSUPPORTED;
    failed += strstr(weir_last_error(), "moves at most 2147483647") == NULL;
    if (nranks > 1)
        failed +=
            weir_boot_send(boot, own, too_long, (rank + 1) % nranks, 0) != WEIR_ERR_UNSUPPORTED;
    failed += weir_boot_barrier(boot) != WEIR_OK;
    weir_boot_destroy(boot);
    if (rank == 0)
        printf("%sok - the bootstrap over MPI refuses more than MPI moves\n", failed ? "not " : "");
    return failed;
}

int main(int argc, char **argv)
{
    const weiri_launcher_row *launcher = weiri_launcher_of_process();
    weirv_case c = {0};
    int provided = 0;
    if (!launcher || weiri_mpi_open(launcher) != WEIR_OK) {
        fprintf(stderr, "mpi_check: %s\n", launcher ? weir_last_error() : "start it with mpirun");
        return 3;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &c.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &c.nranks);
    c.root = c.nranks / 2;
    int failed = check_fault_table(c.rank) + check_long_exchanges(c.rank, c.nranks);
    for (int f = NONE; f < FAULTS; f++)
        failed += run_fault((fault)f, &c);
    MPI_Finalize();
    return failed ? 1 : 0;
}
