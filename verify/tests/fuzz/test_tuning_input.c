/*
 * The reader of tuning files gets arbitrary bytes: it uses them or reports a reason that names the
 * file.
 */
#define _GNU_SOURCE /* memfd_create */

#include "verify/tests/support/fuzz_input.h"

#include "coll/coll.h"
#include "coll/planned.h"
#include "comm/comm.h"

#include <sys/mman.h>
#include <unistd.h>

void fuzz_input(const uint8_t *data, size_t bytes)
{
    static int fd = -1;
    static char path[64];
    static weir_comm comm;
    static weiri_coll coll;
    if (memmem(data, bytes, WEIRI_PLANNED_PREFIX, strlen(WEIRI_PLANNED_PREFIX)))
        return; /* needs a communicator that was set up */
    if (fd < 0) {
        fd = memfd_create("tuning", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        setenv("WEIR_TUNING", path, 1);
    }
    FUZZ_DEMAND(ftruncate(fd, 0) == 0 && pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
    memset(&comm, 0, sizeof comm);
    memset(&coll, 0, sizeof coll);
    comm.rank = 0;
    comm.nranks = 4;
    coll.comm = &comm;
    coll.nranks = 4;
    weir_status status = weiri_coll_tune(&coll);
    FUZZ_DEMAND(status == WEIR_OK || strstr(weir_last_error(), path));
    /* Every collective has a row for every size. */
    for (int c = 0; status == WEIR_OK && c < WEIR_COLL_COUNT; c++) {
        int last = 0;
        while (last + 1 < WEIRI_CHOICES_MAX && coll.tuned[c][last].max_bytes != UINT64_MAX)
            last++;
        FUZZ_DEMAND(coll.tuned[c][last].max_bytes == UINT64_MAX);
    }
}
