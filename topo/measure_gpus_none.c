/* Links between GPUs, in a build without CUDA. */
#include "topo/measure.h"

#include "base/error.h"

weir_status weiri_topo_measure_gpus(const weiri_topo *topo, weiri_progress *progress,
                                    weiri_links **links)
{
    (void)topo;
    (void)progress;
    (void)links;
    return weiri_fail(WEIR_ERR_UNSUPPORTED,
                      "this build cannot measure GPUs: build with CUDA, or give --ranks N for the "
                      "links between cores");
}
