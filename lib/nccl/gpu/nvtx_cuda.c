/*
 * NVTX ranges with the headers of the CUDA toolkit, which need no library: they load what a
 * profiler injects. The domain is NULL if none does.
 */
#include "nccl/gpu/nvtx.h"

#include "base/env.h"

#include <nvtx3/nvToolsExt.h>
#include <string.h>

static nvtxDomainHandle_t domain;

void weiri_nccl_nvtx_open(void)
{
    const char *disable = weiri_env(WEIRI_ENV_NCCL_NVTX_DISABLE);
    if (!disable || strcmp(disable, "0") == 0)
        domain = nvtxDomainCreateA("NCCL");
}

void weiri_nccl_nvtx_push(const char *name, uint64_t bytes)
{
    if (!domain)
        return;
    nvtxEventAttributes_t attributes = {0};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = name;
    attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    attributes.payload.ullValue = bytes;
    nvtxDomainRangePushEx(domain, &attributes);
}

void weiri_nccl_nvtx_pop(void)
{
    if (domain)
        nvtxDomainRangePop(domain);
}
