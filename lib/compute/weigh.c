/* Chooses the functions of weigh.h for the processor and the data type. */
#include "compute/weigh.h"

#include "compute/reduce.h"

#include <string.h>

static const struct {
    const char *isa; /* as weiri_reduce_isa names it */
    const weiri_weigh *table;
} weigh_tables[] = {
#if defined(__x86_64__)
    {"avx512", weiri_weigh_avx512},
    {"avx2", weiri_weigh_avx2},
#endif
    {"plain", weiri_weigh_plain},
};

static const weiri_weigh *weigh_find(const char *isa, weir_dtype dtype)
{
    for (size_t i = 0; i < sizeof weigh_tables / sizeof *weigh_tables; i++)
        for (int type = 0; type < WEIRI_WEIGH_TYPES; type++)
            if (!strcmp(weigh_tables[i].isa, isa) && weigh_tables[i].table[type].dtype == dtype)
                return &weigh_tables[i].table[type];
    return NULL;
}

const weiri_weigh *weiri_weigh_get(weir_dtype dtype)
{
    return weigh_find(weiri_reduce_isa(), dtype);
}

const weiri_weigh *weiri_weigh_get_isa(const char *isa, weir_dtype dtype)
{
    return weiri_reduce_get_isa(isa, WEIR_FLOAT, WEIR_SUM) ? weigh_find(isa, dtype) : NULL;
}
