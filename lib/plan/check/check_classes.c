/*
 * Finds the byte classes of a plan (check.h): for all chunk lengths, which operations handle the
 * same byte of every chunk, and in which pipeline iteration. For each length that is tried, every
 * byte is considered at which some part or some iteration begins or ends; bytes with equal rows
 * form one class.
 *
 * Groups of thread blocks divide the bytes of an operation's chunks, which form one line, in units
 * of the alignment, so which part contains a byte depends on the length of chunks. All lengths up
 * to a bound are tried. Lengths beyond the bound add no class: as chunks grow by a common multiple
 * of the numbers of parts whose boundaries have the same exact position, every boundary moves along
 * its own line, and all lines that cross have crossed by then.
 *
 * Pipelines without groups: byte x of chunk k is handled in iteration (k * chunk_bytes + x) / unit,
 * and there are num_chunks * chunk_bytes / unit iterations, rounded up. The rows of a length can
 * only differ from those of a shorter one if in between a chunk length divides a difference of two
 * multiples of units by a number of chunks. These lengths and the next longer ones are tried; they
 * are all if no pipeline has more iterations than a limit.
 *
 * If the reach of the plan is known (check_pipeline.c), a plan is proved for any number of
 * iterations. Two iterations of a row, or an iteration and the begin or end of the pipeline, that
 * are further apart than the reach may be moved together, as long as the pipeline keeps `regular`
 * iterations. Rows are reduced in this way. Beyond chunks of twice the reach in iterations, at most
 * the first and the last distance of a row are within the reach, so all longer chunks have the same
 * reduced rows.
 *
 * Groups in a plan with pipelines: all lengths are tried, up to a bound if the reach is known, or
 * as many as a limit on the work permits.
 */
#include "plan/check/check.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum {
    LENGTHS_MAX = 1 << 16,        /* that are tried in a plan with groups and without pipelines */
    WORK_MAX = 800 * 1000 * 1000, /* columns of all rows computed */
    SLOTS_MAX = 4 * WEIRI_CHECK_CLASSES_MAX, /* a power of two */
    CHUNKS_MAX = 64,                         /* of a pipeline whose lengths are derived */
    STEPS_MAX = 128 * 1000 * 1000,           /* operations that are executed in all classes */
    PIPELINE_STEPS_MAX = 16 * 1000 * 1000,   /* operations, for any number of iterations */
    LIMITED_STEPS_MAX = 4 * 1000 * 1000,     /* operations, for a limited number of iterations */
};

typedef struct finder {
    const weir_plan *plan;
    weiri_check_classes *classes;
    weiri_plan_layout layout; /* for the current length */
    uint32_t limit;           /* no pipeline may have more iterations */
    int32_t *row;
    int32_t *marks;  /* room for the numbers of a row */
    uint32_t *slots; /* hash table of rows: index + 1 */
    uint64_t *edges;
    uint32_t nedges;
    uint64_t work, iterations, nops; /* iterations: of all classes; nops: of all ranks */
    int is_full;                     /* too many classes, or too much work */
    weir_status status;
} finder;

static void no_memory(finder *in)
{
    in->status = weiri_fail(WEIR_ERR_NO_MEMORY, "%s: no memory to check the plan", in->plan->file);
}

/* --------------------------------------------------------------- one length */

static weiri_plan_span span_of(const finder *in, const weiri_check_shape *shape)
{
    weiri_plan_op op = {.part = shape->part, .nparts = shape->nparts};
    return weiri_plan_part(&in->layout, &op, shape->size, 0, 0);
}

/* Adds a boundary at byte `at` of a line, which is a boundary at the same byte of a chunk. */
static void add_edge(finder *in, uint64_t at)
{
    uint64_t edge = in->layout.chunk_bytes ? at % in->layout.chunk_bytes : 0;
    uint32_t low = 0, high = in->nedges;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (in->edges[middle] < edge)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < in->nedges && in->edges[low] == edge)
        return;
    if (!weiri_plan_append(&in->edges, &in->nedges, sizeof *in->edges)) {
        no_memory(in);
        return;
    }
    memmove(&in->edges[low + 1], &in->edges[low], (in->nedges - 1 - low) * sizeof *in->edges);
    in->edges[low] = edge;
}

/* Finds the bytes of a chunk at which another operation or another iteration may begin. */
static void find_edges(finder *in)
{
    in->nedges = 0;
    free(in->edges);
    in->edges = NULL;
    add_edge(in, 0);
    for (uint32_t i = 1; i < in->classes->nshapes && in->status == WEIR_OK; i++) {
        const weiri_check_shape *shape = &in->classes->shapes[i];
        weiri_plan_span span = span_of(in, shape);
        add_edge(in, span.first);
        add_edge(in, span.end);
        for (uint64_t at = span.first; shape->unit_bytes && at < span.end; at += shape->unit_bytes)
            add_edge(in, at);
    }
}

static uint64_t iterations_of(const finder *in, const weiri_check_pipe *pipe)
{
    weiri_plan_op op = {.unit_bytes = pipe->unit_bytes, .num_chunks = pipe->num_chunks};
    return weiri_plan_turns(&in->layout, &op);
}

/* Computes the row of byte x of chunks of the current length. */
static void fill_row(finder *in, uint64_t x)
{
    const weiri_check_classes *classes = in->classes;
    in->row[0] = in->layout.chunk_bytes != 0;
    for (uint32_t i = 0; i < classes->npipes; i++)
        in->row[1 + i] = (int32_t)iterations_of(in, &classes->pipes[i]);
    for (uint32_t i = 1; i < classes->nshapes; i++) {
        const weiri_check_shape *shape = &classes->shapes[i];
        weiri_plan_span span = span_of(in, shape);
        for (uint32_t k = 0; k < shape->size; k++) {
            uint64_t at = k * in->layout.chunk_bytes + x;
            int32_t iteration = -1;
            if (at >= span.first && at < span.end)
                iteration =
                    shape->unit_bytes ? (int32_t)((at - span.first) / shape->unit_bytes) : 0;
            in->row[shape->column + k] = iteration;
        }
    }
    in->work += classes->columns;
}

static uint32_t hash_row(const finder *in)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < in->classes->columns; i++)
        hash = ((hash ^ (hash >> 32)) + (uint32_t)in->row[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 32);
}

static uint64_t most_iterations_of_row(const finder *in)
{
    int32_t most = 0;
    for (uint32_t i = 0; i < in->classes->npipes; i++)
        most = in->row[1 + i] > most ? in->row[1 + i] : most;
    return (uint64_t)most;
}

static void add_class(finder *in)
{
    weiri_check_classes *classes = in->classes;
    const size_t bytes = classes->columns * sizeof *in->row;
    uint32_t slot = hash_row(in) % SLOTS_MAX;
    for (; in->slots[slot]; slot = (slot + 1) % SLOTS_MAX) {
        const size_t at = in->slots[slot] - 1;
        if (memcmp(&classes->rows[at * classes->columns], in->row, bytes) == 0)
            return;
    }
    if (classes->count == WEIRI_CHECK_CLASSES_MAX) {
        in->is_full = 1;
        return;
    }
    if ((classes->count & (classes->count - 1)) == 0) {
        int32_t *rows = realloc(classes->rows, (classes->count ? 2 * classes->count : 1) * bytes);
        if (!rows) {
            no_memory(in);
            return;
        }
        classes->rows = rows;
    }
    memcpy(&classes->rows[classes->count++ * (size_t)classes->columns], in->row, bytes);
    in->slots[slot] = classes->count;
    in->iterations += 1 + most_iterations_of_row(in);
    const uint64_t most = !classes->npipes                     ? STEPS_MAX
                          : classes->reach == WEIRI_CHECK_NONE ? LIMITED_STEPS_MAX
                                                               : PIPELINE_STEPS_MAX;
    in->is_full |= in->iterations * in->nops > most;
}

static uint64_t most_iterations(const finder *in)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < in->classes->npipes; i++) {
        const uint64_t iterations = iterations_of(in, &in->classes->pipes[i]);
        most = iterations > most ? iterations : most;
    }
    return most;
}

/* ---------------------------------------------------------------- reduced rows */

static int compare_int32(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Collects the iterations of the row and the number of iterations, sorted; returns how many. */
static uint32_t collect_marks(finder *in)
{
    const weiri_check_classes *classes = in->classes;
    uint32_t count = 0;
    in->marks[count++] = in->row[1];
    for (uint32_t i = 1 + classes->npipes; i < classes->columns; i++)
        if (in->row[i] >= 0)
            in->marks[count++] = in->row[i];
    qsort(in->marks, count, sizeof *in->marks, compare_int32);
    return count;
}

/* Moves the iterations of the current row together (see above). Where a distance is shortened, the
 * first such distance is as long as the pipeline needs. */
static void reduce_row(finder *in)
{
    const weiri_check_classes *classes = in->classes;
    const int32_t reach = (int32_t)classes->reach, regular = (int32_t)classes->regular;
    const uint32_t count = collect_marks(in);
    int32_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int32_t gap = in->marks[i] - (i ? in->marks[i - 1] : 0);
        total += gap < reach ? gap : reach;
    }
    if (in->row[1] <= regular)
        return;
    int32_t spare = total < regular ? regular - total : 0;
    for (uint32_t c = 1; c < classes->columns; c++) {
        int32_t made = 0, more = spare;
        for (uint32_t i = 0; i < count && in->marks[i] <= in->row[c]; i++) {
            const int32_t gap = in->marks[i] - (i ? in->marks[i - 1] : 0);
            made += gap <= reach ? gap : reach + more;
            more = gap <= reach ? more : 0;
        }
        in->row[c] = in->row[c] < 0 ? in->row[c] : made;
    }
}

/* Adds all byte classes of chunks of `units` units of alignment. Returns 0 if the length is beyond
 * a limit. */
static int try_length(finder *in, uint64_t units)
{
    const weiri_check_classes *classes = in->classes;
    in->layout.alignment = in->plan->alignment;
    in->layout.chunk_bytes = units * in->layout.alignment;
    if (in->status != WEIR_OK || in->is_full || most_iterations(in) > in->limit)
        return 0;
    find_edges(in);
    for (uint32_t i = 0; i < in->nedges && in->status == WEIR_OK && !in->is_full; i++) {
        fill_row(in, in->edges[i]);
        if (classes->npipes && classes->reach != WEIRI_CHECK_NONE)
            reduce_row(in);
        add_class(in);
    }
    in->is_full |= in->work > (classes->npipes ? WORK_MAX / 8 : WORK_MAX);
    return in->status == WEIR_OK && !in->is_full;
}

/* ---------------------------------------------------- all lengths: groups only */

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

/* The least common multiple of the numbers of parts that have a boundary with the exact position of
 * the begin of this part, modulo a chunk; at most LENGTHS_MAX. The first part begins, and the last
 * one ends, exactly there, for all lengths. */
static uint64_t period_at(const finder *in, const weiri_check_shape *shape)
{
    const uint64_t at = (uint64_t)shape->size * shape->part % shape->nparts;
    uint64_t period = 1;
    if (shape->part == 0)
        return 1;
    for (uint32_t i = 1; i < in->classes->nshapes && period < LENGTHS_MAX; i++) {
        const weiri_check_shape *other = &in->classes->shapes[i];
        for (uint32_t part = other->part; part <= other->part + 1; part++)
            if (part > 0 && part < other->nparts &&
                (uint64_t)other->size * part % other->nparts * shape->nparts == at * other->nparts)
                period = period / common_divisor(period, other->nparts) * other->nparts;
    }
    return period < LENGTHS_MAX ? period : LENGTHS_MAX;
}

/* The bound beyond which longer chunks add no class through groups of thread blocks: a boundary is
 * at most a quarter of the parts after its exact position, and never before it, and different exact
 * positions differ by at least a chunk divided by the product of two numbers of parts. From there
 * on, classes repeat with the period of boundaries that have the same exact position. */
static uint64_t lengths_of_groups(const finder *in)
{
    uint64_t most = 1, other = 1, period = 1;
    for (uint32_t i = 1; i < in->classes->nshapes; i++) {
        const uint64_t nparts = in->classes->shapes[i].nparts;
        const uint64_t at = period_at(in, &in->classes->shapes[i]);
        period = at > period ? at : period;
        if (nparts > most) {
            other = most;
            most = nparts;
        } else if (nparts > other && nparts < most) {
            other = nparts;
        }
    }
    return most * other * most / 4 + 2 * most * other + period;
}

static void try_groups(finder *in)
{
    const uint64_t enough = lengths_of_groups(in);
    uint64_t units = 1;
    while (units <= enough && units <= LENGTHS_MAX && try_length(in, units))
        units++;
    in->classes->max_chunk_bytes = units > enough ? 0 : (units - 1) * in->plan->alignment;
    in->classes->is_complete = units > 1;
}

/* ------------------------------------------------------ all lengths: pipelines */

/* The longest chunk of calls in the plan's range; UINT64_MAX if it is so long that no limit
 * matters. */
static uint64_t chunk_in_range(const weir_plan *plan)
{
    const weir_plan_buffer buffer =
        plan->collective == WEIR_COLL_ALLGATHER ? WEIR_PLAN_OUTPUT : WEIR_PLAN_INPUT;
    const uint64_t chunks =
        (uint64_t)weiri_plan_blocks(plan, buffer) * weiri_plan_block_chunks(plan);
    if (chunks == 0 || plan->max_bytes >> 47)
        return UINT64_MAX;
    const uint64_t bytes = chunks * plan->alignment;
    /* NOLINTNEXTLINE(*-core.DivideZero): the alignment of a valid plan is at least 8 */
    return (plan->max_bytes + bytes - 1) / bytes * plan->alignment;
}

/* The longest chunk that the plan's range permits and of which no pipeline needs more iterations
 * than the limit. */
static uint64_t longest_chunk(const finder *in)
{
    uint64_t longest = chunk_in_range(in->plan);
    for (uint32_t i = 0; i < in->classes->npipes; i++) {
        const weiri_check_pipe *pipe = &in->classes->pipes[i];
        const uint64_t bytes = in->limit * pipe->unit_bytes / pipe->num_chunks;
        longest = bytes < longest ? bytes : longest;
    }
    return longest / in->plan->alignment * in->plan->alignment;
}

/* The largest number of chunks that divides a difference of positions. */
static uint32_t most_chunks(const weiri_check_classes *classes)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < classes->npipes; i++)
        most = classes->pipes[i].num_chunks > most ? classes->pipes[i].num_chunks : most;
    for (uint32_t i = 1; i < classes->nshapes; i++)
        most = classes->shapes[i].size > most ? classes->shapes[i].size : most;
    return most;
}

/* Tries the lengths of which n, up to `chunks`, are the difference of a multiple of `unit` and one
 * of `other`, and the next longer ones. */
static void try_pair(finder *in, uint64_t unit, uint64_t other, uint64_t longest)
{
    const uint64_t step = in->plan->alignment, chunks = most_chunks(in->classes);
    for (uint64_t n = 1; n <= chunks && !in->is_full; n++)
        for (uint64_t b = 0; b <= (unit == other ? 0 : chunks * longest); b += other)
            for (uint64_t a = (b + unit - 1) / unit * unit; a - b <= n * longest && !in->is_full;
                 a += unit) {
                const uint64_t units = (a - b) / n / step;
                for (uint64_t u = units; u <= units + 1 && u * step <= longest; u++)
                    try_length(in, u);
            }
}

static void forget_classes(finder *in)
{
    in->classes->count = 0;
    in->is_full = 0;
    in->work = in->iterations = 0;
    memset(in->slots, 0, SLOTS_MAX * sizeof *in->slots);
}

/* Without groups. Returns 0 if there are too many classes. */
static int try_pipelines(finder *in)
{
    weiri_check_classes *classes = in->classes;
    const uint64_t longest = longest_chunk(in);
    forget_classes(in);
    for (uint32_t i = 0; i < classes->npipes; i++)
        for (uint32_t j = 0; j < classes->npipes; j++)
            try_pair(in, classes->pipes[i].unit_bytes, classes->pipes[j].unit_bytes, longest);
    try_length(in, longest / in->plan->alignment);
    classes->max_chunk_bytes =
        classes->reach != WEIRI_CHECK_NONE || longest >= chunk_in_range(in->plan) ? 0 : longest;
    return !in->is_full && longest > 0;
}

/* The bound beyond which longer chunks add no class through groups and pipelines: any two
 * boundaries of parts and iterations are then further apart than the reach, or their distance is
 * the same for chunks that differ by a period. */
static uint64_t lengths_of_all(const finder *in)
{
    const weiri_check_classes *classes = in->classes;
    const uint64_t unit = classes->pipes[0].unit_bytes / in->plan->alignment;
    uint64_t most = 1, period = 1;
    for (uint32_t i = 1; i < classes->nshapes && period < LENGTHS_MAX; i++) {
        const uint64_t nparts = classes->shapes[i].nparts;
        most = nparts > most ? nparts : most;
        period = period / common_divisor(period, nparts) * nparts;
    }
    const uint64_t iterations =
        classes->regular / classes->pipes[0].num_chunks + 1 + 2 * (uint64_t)classes->reach + 8;
    return most * most * ((classes->reach + 3) * unit + most / 4 + 2) +
           (iterations + period) * unit;
}

/* Tries all lengths: of any number of iterations if the reach is known and the lengths are not too
 * many, else with a limit on iterations. */
static void try_all(finder *in)
{
    uint64_t units = 0;
    const uint64_t enough =
        in->classes->reach != WEIRI_CHECK_NONE ? lengths_of_all(in) : UINT64_MAX;
    in->limit = UINT32_MAX;
    while (enough <= LENGTHS_MAX && units <= enough && try_length(in, units))
        units++;
    if (units > enough)
        return;
    forget_classes(in);
    in->classes->reach = WEIRI_CHECK_NONE;
    in->limit = WEIRI_CHECK_ITERATIONS;
    for (units = 0; try_length(in, units);)
        units++;
    in->classes->max_chunk_bytes = units ? (units - 1) * in->plan->alignment : 0;
    in->classes->is_complete = in->classes->max_chunk_bytes != 0;
    if (in->classes->max_chunk_bytes >= chunk_in_range(in->plan))
        in->classes->max_chunk_bytes = 0;
}

/* Tries any number of iterations if the reach is known, else as many as possible. */
static void try_lengths(finder *in)
{
    weiri_check_classes *classes = in->classes;
    const uint32_t chunks = most_chunks(classes);
    if (!classes->npipes) {
        try_groups(in);
        return;
    }
    if (classes->has_groups || chunks > CHUNKS_MAX) {
        try_all(in);
        return;
    }
    if (classes->reach != WEIRI_CHECK_NONE) {
        const uint32_t of_chunk = classes->pipes[0].num_chunks;
        const uint32_t far = 2 * classes->reach + 4, regular = classes->regular / of_chunk + 1;
        in->limit = ((far > regular ? far : regular) + 4) * of_chunk;
        if (try_pipelines(in))
            return;
        classes->reach = WEIRI_CHECK_NONE;
    }
    in->limit = WEIRI_CHECK_ITERATIONS;
    while (in->limit && in->status == WEIR_OK && !try_pipelines(in))
        in->limit /= 2;
    classes->is_complete = in->limit != 0;
}

int weiri_check_is_short(const weir_plan *plan, const weiri_check_classes *classes,
                         uint32_t iterations)
{
    finder in = {.plan = plan, .classes = (weiri_check_classes *)classes, .limit = iterations};
    return longest_chunk(&in) >= chunk_in_range(plan);
}

weir_status weiri_check_find_classes(const weir_plan *plan, weiri_check_classes *classes)
{
    finder in = {.plan = plan, .classes = classes, .status = WEIR_OK};
    classes->is_complete = 1;
    classes->max_chunk_bytes = 0;
    classes->count = 0;
    free(classes->rows);
    classes->rows = NULL;
    for (int rank = 0; rank < plan->nranks; rank++)
        in.nops += plan->gpus[rank].nops;
    if (classes->nshapes == 1 && classes->npipes == 0) {
        classes->columns = 0;
        classes->count = 1;
        return WEIR_OK;
    }
    in.row = malloc(classes->columns * sizeof *in.row);
    in.marks = malloc(classes->columns * sizeof *in.marks);
    in.slots = calloc(SLOTS_MAX, sizeof *in.slots);
    if (in.row && in.marks && in.slots)
        try_lengths(&in);
    else
        no_memory(&in);
    if (in.status == WEIR_OK && !classes->is_complete)
        in.status =
            weiri_fail(WEIR_ERR_UNSUPPORTED,
                       "%s: groups of thread blocks and pipelines divide chunks in too many "
                       "different manners to check",
                       plan->file);
    free(in.row);
    free(in.marks);
    free(in.slots);
    free(in.edges);
    return in.status;
}
