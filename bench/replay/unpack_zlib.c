/* The bytes of a file that may be packed by gzip: see unpack.h. zlib passes other files through. */
#include "bench/replay/unpack.h"

#include <limits.h>
#include <zlib.h>

replay_unpack *replay_unpack_open(int fd)
{
    gzFile file = gzdopen(fd, "rb");
    if (file)
        gzbuffer(file, 1 << 17);
    return (replay_unpack *)file;
}

void replay_unpack_close(replay_unpack *unpack)
{
    gzclose((gzFile)unpack);
}

ssize_t replay_unpack_read(replay_unpack *unpack, void *to, size_t bytes, const char **fault)
{
    gzFile file = (gzFile)unpack;
    int error;
    const int got = gzread(file, to, bytes > INT_MAX ? INT_MAX : (unsigned)bytes);
    if (got >= 0)
        return got;
    *fault = gzerror(file, &error);
    return error == Z_BUF_ERROR ? 0 : -1;
}
