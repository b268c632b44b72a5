/* The bytes of a file that may be packed by gzip: by zlib (unpack_zlib.c), or as they are
 * (unpack_missing.c). */
#ifndef BENCH_REPLAY_UNPACK_H
#define BENCH_REPLAY_UNPACK_H

#include <sys/types.h>

typedef struct replay_unpack replay_unpack;

/* Reads from a file that is open for reading. NULL: no memory. replay_unpack_close closes it. */
replay_unpack *replay_unpack_open(int fd);
void replay_unpack_close(replay_unpack *unpack);
/* As read(); a packed file that was cut ends early. -1: *fault becomes the reason, which ends like
 * "cannot read FILE: ". */
ssize_t replay_unpack_read(replay_unpack *unpack, void *to, size_t bytes, const char **fault);

#endif
