/* A build without CUDA has no copy engines. */
#include "chan/mover.h"

#include "base/error.h"

static weir_status absent(void)
{
    return weiri_fail(WEIR_ERR_UNSUPPORTED, "this build of weir has no CUDA; build it with nvcc");
}

weir_status weiri_mover_enter(const weir_comm *comm)
{
    return comm->gpu ? absent() : WEIR_OK;
}

weir_status weiri_mover_create(const weir_comm *comm, weiri_mover **mover)
{
    (void)comm, (void)mover;
    return absent();
}

weir_status weiri_mover_try(weiri_mover *mover, const void *from, uint64_t *word)
{
    (void)mover, (void)from, (void)word;
    return absent();
}

void weiri_mover_free(weiri_mover *mover)
{
    (void)mover;
}

weir_status weiri_mover_copy(weiri_mover *mover, void *to, const void *from, size_t bytes)
{
    (void)mover, (void)to, (void)from, (void)bytes;
    return absent();
}

weir_status weiri_mover_store(weiri_mover *mover, uint64_t *word, uint64_t value)
{
    (void)mover, (void)word, (void)value;
    return absent();
}

weir_status weiri_mover_check(weiri_mover *mover)
{
    (void)mover;
    return WEIR_OK;
}
