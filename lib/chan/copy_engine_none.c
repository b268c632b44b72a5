/* The copy engine in a build without CUDA, where no communicator has a GPU. */
#include "chan/copy_engine.h"

#include "base/absent.h"
#include "base/error.h"

weir_status weiri_copy_engine_enter(const weir_comm *comm)
{
    return comm->gpu ? weiri_fail(WEIR_ERR_UNSUPPORTED,
                                  "this build of weir has no CUDA; build it with nvcc")
                     : WEIR_OK;
}

void weiri_copy_engine_free(weiri_copy_engine *engine)
{
    (void)engine;
}

WEIRI_ABSENT(weiri_copy_engine_create);
WEIRI_ABSENT(weiri_copy_engine_try);
WEIRI_ABSENT(weiri_copy_engine_copy);
WEIRI_ABSENT(weiri_copy_engine_store);
WEIRI_ABSENT(weiri_copy_engine_check);
