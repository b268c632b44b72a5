/* Normalisation on the host, with the bits of the kernels (norm.h). */
#include "compute/norm.h"

/* Adds 32 values in halves. */
static float add_lanes(float lanes[32])
{
    for (int half = 16; half; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

/* A line, in which elements beyond the row's end count as 0. */
static weiri_norm_line norm_line(const weir_norm_args *args, const float *x, uint32_t line)
{
    const uint32_t elements = weiri_norm_line_elements((uint32_t)args->hidden, line);
    weiri_norm_line found = {0, 0};
    float lanes[32], mean = 0;
    if (args->kind == WEIR_NORM_LAYER) {
        for (uint32_t i = 0; i < 32; i++)
            lanes[i] = WEIRI_NORM_LANE * i < elements ? weiri_norm_lane_sum(x + 4 * i) : 0;
        found.sum = add_lanes(lanes);
        mean = found.sum / (float)elements;
    }
    for (uint32_t i = 0; i < 32; i++)
        lanes[i] = WEIRI_NORM_LANE * i < elements ? weiri_norm_lane_squares(x + 4 * i, mean) : 0;
    found.squares = add_lanes(lanes);
    return found;
}

static weiri_norm_row norm_row(const weir_norm_args *args, const weiri_norm_line *lines)
{
    const uint32_t hidden = (uint32_t)args->hidden,
                   count = (hidden + WEIRI_NORM_LINE - 1) / WEIRI_NORM_LINE;
    const int is_layer = args->kind == WEIR_NORM_LAYER;
    float sums[32] = {0}, squares[32] = {0}, mean = 0;
    for (uint32_t i = 0; i < count && is_layer; i++)
        sums[i % 32] += lines[i].sum;
    if (is_layer)
        mean = add_lanes(sums) / (float)hidden;
    for (uint32_t i = 0; i < count; i++)
        squares[i % 32] +=
            is_layer ? weiri_norm_line_squares(lines[i], weiri_norm_line_elements(hidden, i), mean)
                     : lines[i].squares;
    return (weiri_norm_row){mean, weiri_norm_factor(add_lanes(squares), hidden, args->epsilon)};
}

void weiri_norm_host(const weir_norm_args *args, float *x, const float *weight, const float *bias)
{
    weiri_norm_line lines[WEIRI_NORM_LINES_MAX];
    for (uint32_t i = 0; i * (size_t)WEIRI_NORM_LINE < args->hidden; i++)
        lines[i] = norm_line(args, x + (size_t)i * WEIRI_NORM_LINE, i);
    const weiri_norm_row row = norm_row(args, lines);
    for (size_t i = 0; i < args->hidden; i++)
        x[i] = weiri_norm_apply(row, x[i], weight ? weight[i] : 1, bias ? bias[i] : 0);
}

static float largest(const float *y, size_t count)
{
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = fabsf(y[i]) > most ? fabsf(y[i]) : most;
    return most;
}

void weiri_norm_host_store(const weir_norm_args *args, size_t row, const float *y)
{
    const size_t hidden = args->hidden;
    uint8_t *bytes = (uint8_t *)args->out + row * hidden;
    const size_t group = args->output == WEIR_NORM_FP8_BLOCK ? WEIR_NORM_BLOCK : hidden;
    if (args->output == WEIR_NORM_PLAIN) {
        const size_t row_bytes = hidden * weir_dtype_bytes(args->dtype);
        weiri_norm_host_round(args->dtype, y, hidden, (char *)args->out + row * row_bytes);
        return;
    }
    for (size_t at = 0; at < hidden; at += group) {
        float scale = args->scales[0];
        if (args->output != WEIR_NORM_FP8_TENSOR) {
            scale = weiri_norm_scale(largest(y + at, group));
            args->scales[(row * hidden + at) / group] = scale;
        }
        for (size_t i = at; i < at + group; i++)
            bytes[i] = weiri_fp8e4m3_from_float(y[i] / scale);
    }
}

void weiri_norm_host_load(weir_dtype dtype, const void *from, size_t count, float *to)
{
    const uint16_t *small = from;
    const float *plain = from;
    for (size_t i = 0; i < count; i++)
        to[i] = dtype == WEIR_FLOAT  ? plain[i]
                : dtype == WEIR_HALF ? weiri_half_to_float(small[i])
                                     : weiri_bf16_to_float(small[i]);
}

void weiri_norm_host_round(weir_dtype dtype, const float *from, size_t count, void *to)
{
    uint16_t *small = to;
    if (dtype == WEIR_FLOAT) {
        memcpy(to, from, count * sizeof *from);
        return;
    }
    for (size_t i = 0; i < count; i++)
        small[i] =
            dtype == WEIR_HALF ? weiri_half_from_float(from[i]) : weiri_bf16_from_float(from[i]);
}
