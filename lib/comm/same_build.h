/* Rejects ranks whose builds of the library differ, before anything of theirs is read. */
#ifndef WEIR_COMM_SAME_BUILD_H
#define WEIR_COMM_SAME_BUILD_H

#include <weir/weir.h>

/* Collective: all ranks of the bootstrap return the same status. WEIR_ERR_MISMATCH names the builds
 * and their ranks. */
weir_status weiri_comm_check_builds(weir_boot *boot);

#endif
