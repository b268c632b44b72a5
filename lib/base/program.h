/* The permissions of files that programs create. */
#ifndef WEIR_BASE_UMASK_H
#define WEIR_BASE_UMASK_H

#include <sys/stat.h>

/* Makes sure that no file that this process creates is world-writable, whatever umask it inherited.
 * For programs, at the beginning of main: the library does not change the umask of its caller. */
static inline void weiri_forbid_world_writes(void)
{
    umask(umask(S_IWOTH) | S_IWOTH);
}

#endif
