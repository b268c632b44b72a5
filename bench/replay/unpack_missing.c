/* The bytes of a file in a build without zlib: see unpack.h. */
#include "bench/replay/unpack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct replay_unpack {
    int fd, has_begun;
};

replay_unpack *replay_unpack_open(int fd)
{
    replay_unpack *unpack = calloc(1, sizeof *unpack);
    if (unpack)
        unpack->fd = fd;
    return unpack;
}

void replay_unpack_close(replay_unpack *unpack)
{
    close(unpack->fd);
    free(unpack);
}

ssize_t replay_unpack_read(replay_unpack *unpack, void *to, size_t bytes, const char **fault)
{
    ssize_t got;
    do
        got = read(unpack->fd, to, bytes);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        *fault = strerror(errno);
    if (got >= 2 && !unpack->has_begun && !memcmp(to, "\x1f\x8b", 2)) {
        *fault = "it is packed, and this build has no zlib; unpack it with gunzip";
        return -1;
    }
    unpack->has_begun = 1;
    return got;
}
