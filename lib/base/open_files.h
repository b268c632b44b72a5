/* The limit of open files of this process (ulimit -n). */
#ifndef WEIR_BASE_OPEN_FILES_H
#define WEIR_BASE_OPEN_FILES_H

#include <weir/weir.h>

#include <stdint.h>

/* Raises the limit to needed, as far as the system allows. who is the subject of the error line:
 * "256 forked ranks". Local. WEIR_ERR_SYSTEM. */
weir_status weiri_open_files_allow(uint64_t needed, const char *who);
/* Raises the limit a little, for a process that has reached it. who is the subject of the error
 * line. WEIR_ERR_SYSTEM, with the limit, if the system does not allow that. */
weir_status weiri_open_files_more(const char *who);
/* Returns how many files this process has open; 0 if the system does not report it. */
uint64_t weiri_open_files_count(void);

#endif
