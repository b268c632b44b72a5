/* Reading and raising the limit of open files. */
#include "base/open_files.h"

#include "base/error.h"

#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>

weir_status weiri_open_files_allow(uint64_t needed, const char *who)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "limit of open files");
    if (limit.rlim_cur >= needed)
        return WEIR_OK;
    if (limit.rlim_max < needed)
        return weiri_fail(WEIR_ERR_SYSTEM,
                          "%s need %llu open files, %llu are allowed; raise 'ulimit -Hn' or start "
                          "fewer ranks",
                          who, (unsigned long long)needed, (unsigned long long)limit.rlim_max);
    limit.rlim_cur = needed;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "raising the limit of open files to %llu",
                                (unsigned long long)needed);
    return WEIR_OK;
}

weir_status weiri_open_files_more(const char *who)
{
    enum { STEP = 256 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "limit of open files");
    const rlim_t before = limit.rlim_cur, most = limit.rlim_max;
    limit.rlim_cur = most - before < STEP ? most : before + STEP;
    if (before >= most || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return weiri_fail(WEIR_ERR_SYSTEM,
                          "%s: all %llu files that are allowed are open; raise 'ulimit -Hn' or "
                          "start fewer ranks",
                          who, (unsigned long long)before);
    return WEIR_OK;
}

uint64_t weiri_open_files_count(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint64_t count = 0;
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}
