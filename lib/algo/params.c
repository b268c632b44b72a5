/* Packing a kernel's parameter. */
#include <weir/algo.h>

#include <string.h>

void weir_params_clear(weir_params *params)
{
    memset(params, 0, sizeof *params);
}

void weir_params_bytes(weir_params *params, const void *data, size_t bytes, size_t alignment)
{
    enum { LARGEST = 16 };
    size_t unit = alignment && alignment <= LARGEST && !(alignment & (alignment - 1)) ? alignment
                                                                                      : 0;
    size_t at = unit ? (params->used_bytes + unit - 1) / unit * unit : WEIR_PARAMS_BYTES;
    if (!unit || at > WEIR_PARAMS_BYTES || bytes > WEIR_PARAMS_BYTES - at) {
        params->failed = 1;
        return;
    }
    if (bytes)
        memcpy(params->bytes + at, data, bytes);
    params->used_bytes = at + bytes;
    if (unit > params->alignment)
        params->alignment = unit;
}

void weir_params_int32(weir_params *params, int32_t value)
{
    weir_params_bytes(params, &value, sizeof value, _Alignof(int32_t));
}

void weir_params_uint32(weir_params *params, uint32_t value)
{
    weir_params_bytes(params, &value, sizeof value, _Alignof(uint32_t));
}

void weir_params_int64(weir_params *params, int64_t value)
{
    weir_params_bytes(params, &value, sizeof value, _Alignof(int64_t));
}

void weir_params_uint64(weir_params *params, uint64_t value)
{
    weir_params_bytes(params, &value, sizeof value, _Alignof(uint64_t));
}

void weir_params_float(weir_params *params, float value)
{
    weir_params_bytes(params, &value, sizeof value, _Alignof(float));
}

void weir_params_double(weir_params *params, double value)
{
    weir_params_bytes(params, &value, sizeof value, _Alignof(double));
}

void weir_params_pointer(weir_params *params, const void *value)
{
    weir_params_bytes(params, &value, sizeof value, _Alignof(void *));
}
