/* Quantisation on the host, with the bits of the kernel (quantize.h). */
#include "compute/quantize.h"

enum { GROUP = WEIR_QUANTIZED_GROUP };

static void group_decode(const weiri_quantize_step *step, const char *pack, uint64_t group,
                         float x[GROUP])
{
    const uint8_t *codes = (const uint8_t *)pack + weiri_pack_codes_at(step, group);
    float scale;
    memcpy(&scale, pack + weiri_pack_scale_at(step, group), sizeof scale);
    for (int i = 0; i < GROUP; i++)
        x[i] = scale * (step->format == WEIR_QUANTIZED_FP8
                            ? weiri_dequantize_fp8(weiri_fp8e4m3_to_float(codes[i]))
                            : weiri_dequantize_int8(codes[i]));
}

static void group_encode(const weiri_quantize_step *step, uint64_t group, const float x[GROUP])
{
    uint8_t *codes = (uint8_t *)step->out + weiri_pack_codes_at(step, group);
    float most = 0;
    for (int i = 0; i < GROUP; i++)
        most = fmaxf(most, weiri_quantize_magnitude(x[i]));
    const float scale = weiri_quantize_scale(step->format, most);
    for (int i = 0; i < GROUP; i++)
        codes[i] = step->format == WEIR_QUANTIZED_FP8 ? weiri_fp8e4m3_from_float(x[i] / scale)
                                                      : weiri_quantize_int8(x[i] / scale);
    memcpy(step->out + weiri_pack_scale_at(step, group), &scale, sizeof scale);
}

/* Adds up a group of all packs. */
static void group_sum(const weiri_quantize_step *step, uint64_t group, float sum[GROUP])
{
    float next[GROUP];
    group_decode(step, step->in, group, sum);
    for (int part = 1; part < step->parts; part++) {
        group_decode(step, step->in + (uint64_t)part * step->pack, group, next);
        for (int i = 0; i < GROUP; i++)
            sum[i] += next[i];
    }
    for (int i = 0; i < GROUP && step->divisor > 1; i++)
        sum[i] /= (float)step->divisor;
}

void weiri_quantize_host(const weiri_quantize_step *step)
{
    const weir_dtype dtype = (weir_dtype)step->dtype;
    const size_t element = weir_dtype_bytes(dtype);
    for (uint64_t at = 0; at < step->count; at += GROUP) {
        const uint64_t group = at / GROUP, left = step->count - at;
        const size_t elements = left < GROUP ? left : GROUP;
        float x[GROUP] = {0};
        if (step->from_packs)
            group_sum(step, group, x);
        else
            weiri_norm_host_load(dtype, step->in + at * element, elements, x);
        if (step->to_packs)
            group_encode(step, group, x);
        else
            weiri_norm_host_round(dtype, x, elements, step->out + at * element);
    }
}
