/* What every program does at the beginning of main; the library leaves its caller's process alone.
 */
#ifndef WEIR_PROGRAMS_PROGRAM_H
#define WEIR_PROGRAMS_PROGRAM_H

#include <signal.h>
#include <sys/stat.h>

/* Makes sure that no file that this process creates is world-writable, whatever umask it inherited,
 * and that a write beyond the limit of file sizes (ulimit -f) fails, as on a full disk, instead of
 * killing the process. */
static inline void weiri_program_begin(void)
{
    umask(umask(S_IWOTH) | S_IWOTH);
    signal(SIGXFSZ, SIG_IGN);
}

#endif
