/*
 * Test double of a profiler: a library that NVTX loads (NVTX_INJECTION64_PATH). It notes the ranges
 * of a process as lines, "begin DOMAIN NAME PAYLOAD" and "end DOMAIN", which nvtx_listener_text
 * returns. Not thread-safe.
 */
#include <nvtx3/nvToolsExt.h>

#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 1 << 16 };

#define EXPORT __attribute__((visibility("default")))

EXPORT const char *nvtx_listener_text(void);
EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

static char text[TEXT_BYTES];
static size_t used;

#define NOTE(...)                                                                                  \
    do {                                                                                           \
        if (used < sizeof text)                                                                    \
            used += (size_t)snprintf(text + used, sizeof text - used, __VA_ARGS__);                \
    } while (0)

const char *nvtx_listener_text(void)
{
    return text;
}

/* The domain is its name. */
static nvtxDomainHandle_t create_domain(const char *name)
{
    return (nvtxDomainHandle_t)(void *)strdup(name);
}

static int begin_range(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *range)
{
    const int has_bytes = range->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    NOTE("begin %s %s %lld\n", (const char *)domain, range->message.ascii,
         has_bytes ? (long long)range->payload.ullValue : -1LL);
    return 0;
}

static int end_range(nvtxDomainHandle_t domain)
{
    NOTE("end %s\n", (const char *)domain);
    return 0;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
        size < NVTX_CBID_CORE2_SIZE)
        return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create_domain;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)begin_range;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)end_range;
    return 1;
}
