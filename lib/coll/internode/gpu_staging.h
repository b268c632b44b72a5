/*
 * Between a GPU's memory and the host's, for calls across machines: between machines the
 * host moves the data. What they pass through is made when a call first needs it, and kept
 * with the collectives' state:
 *
 *   stages    pinned host memory of the machine's ranks, for whole inputs and outputs
 *   window    the messages' own memory (comm/internode/internode.h), pinned, so that copies between
 * it and the GPU run beside the host landing   memory of the GPU that peers map, as long as a
 * message: where phases inside a machine leave what is to be sent, and find what has come
 */
#ifndef WEIR_COLL_INTERNODE_BRIDGE_H
#define WEIR_COLL_INTERNODE_BRIDGE_H

#include "coll/coll.h"

enum { WEIRI_BRIDGE_IN, WEIRI_BRIDGE_OUT, WEIRI_BRIDGE_STAGES };

/* Pinned host memory of at least bytes. It stays the library's, and whoever next asks for
 * that stage gets it. Local; kernels that wait for peers should not be running, since it
 * may have to be made. */
weir_status weiri_bridge_stage(weiri_coll *coll, int which, size_t bytes, char **base);

/* Pins the window, and says where the landing is. As weiri_bridge_stage. */
weir_status weiri_bridge_landing(weiri_coll *coll, char **landing);

/* Frees all; before the communicator's parts are. */
void weiri_bridge_destroy(weiri_coll *coll);

#endif
