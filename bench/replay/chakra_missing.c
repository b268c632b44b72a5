/* Chakra's execution traces in a build without protobuf-c: see chakra.c. */
#define _GNU_SOURCE /* memmem */
#include "bench/replay/read.h"

#include <string.h>

static int chakra_recognises(const char *head, size_t bytes)
{
    return memmem(head, bytes < 64 ? bytes : 64, "\x0a\x06schema", 8) != NULL;
}

static weir_status chakra_read(replay_reader *reader, replay_source *source)
{
    (void)source;
    return replay_fail(
        reader, WEIR_ERR_UNSUPPORTED, 0,
        "an execution trace of Chakra, and this build has no protobuf-c; build with "
        "libprotobuf-c-dev and protobuf-c-compiler, or name the JSON that it was made "
        "of");
}

const replay_format replay_format_chakra = {"an execution trace of Chakra", chakra_recognises,
                                            chakra_read, NULL};
