/* The copy engine in a build without CUDA: every function fails. */
#include "chan/copy_engine.h"

#include "base/error.h"

static weir_status copy_engine_absent(void)
{
    return weiri_fail(WEIR_ERR_UNSUPPORTED, "this build of weir has no CUDA; build it with nvcc");
}

weir_status weiri_copy_engine_enter(const weir_comm *comm)
{
    return comm->gpu ? copy_engine_absent() : WEIR_OK;
}

weir_status weiri_copy_engine_create(const weir_comm *comm, weiri_copy_engine **engine)
{
    (void)comm, (void)engine;
    return copy_engine_absent();
}

weir_status weiri_copy_engine_try(weiri_copy_engine *engine, const void *from, uint64_t *word)
{
    (void)engine, (void)from, (void)word;
    return copy_engine_absent();
}

void weiri_copy_engine_free(weiri_copy_engine *engine)
{
    (void)engine;
}

weir_status weiri_copy_engine_copy(weiri_copy_engine *engine, void *to, const void *from,
                                   size_t bytes)
{
    (void)engine, (void)to, (void)from, (void)bytes;
    return copy_engine_absent();
}

weir_status weiri_copy_engine_store(weiri_copy_engine *engine, uint64_t *word, uint64_t value)
{
    (void)engine, (void)word, (void)value;
    return copy_engine_absent();
}

weir_status weiri_copy_engine_check(weiri_copy_engine *engine)
{
    (void)engine;
    return WEIR_OK;
}
