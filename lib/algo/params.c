/* Packs the members of a kernel's parameter as a compiler lays out the structure. */
#include <weir/algo.h>

#include <string.h>

void weir_params_clear(weir_params *params)
{
    memset(params, 0, sizeof *params);
}

void weir_params_bytes(weir_params *params, const void *data, size_t bytes, size_t alignment)
{
    enum { LARGEST = 16 };
    size_t unit =
        alignment && alignment <= LARGEST && !(alignment & (alignment - 1)) ? alignment : 0;
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

/* X(suffix of the function, type of the member) */
#define MEMBERS(X)                                                                                 \
    X(int32, int32_t)                                                                              \
    X(uint32, uint32_t)                                                                            \
    X(int64, int64_t)                                                                              \
    X(uint64, uint64_t)                                                                            \
    X(float, float)                                                                                \
    X(double, double)                                                                              \
    X(pointer, const void *)

#define DEFINE(suffix, type)                                                                       \
    void weir_params_##suffix(weir_params *params, type value)                                     \
    {                                                                                              \
        weir_params_bytes(params, &value, sizeof value, _Alignof(type));                           \
    }
MEMBERS(DEFINE)
