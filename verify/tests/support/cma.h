/*
 * Whether ranks may read each other's memory (process_vm_readv), and how a test forbids it. A file
 * that includes this defines _GNU_SOURCE first.
 */
#ifndef VERIFY_TESTS_SUPPORT_CMA_H
#define VERIFY_TESTS_SUPPORT_CMA_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* How a rank is kept from reading its peers' memory (process_vm_readv). */
typedef enum forbids {
    CMA_ALLOWED,
    CMA_FORBIDDEN_BY_SYSTEM, /* a filter of system calls, as containers have */
    CMA_FORBIDDEN_TO_WRITE,  /* the same for process_vm_writev only */
    CMA_FORBIDDEN_BY_USER,   /* WEIR_CMA=0 */
} forbids;

/* Makes a system call fail in this process as a container's filter does. */
static inline int filter_call(unsigned number)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static inline int forbid_cma(forbids how)
{
    if (how == CMA_FORBIDDEN_BY_USER)
        return setenv("WEIR_CMA", "0", 1) == 0;
    return how == CMA_ALLOWED || filter_call(how == CMA_FORBIDDEN_TO_WRITE ? SYS_process_vm_writev
                                                                           : SYS_process_vm_readv);
}

/* Whether this system lets processes read each other's memory; some containers do not. */
static inline int system_allows_cma(void)
{
    static int here = 1, there = 1;
    struct iovec to = {&here, sizeof here}, from = {&there, sizeof there};
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    ssize_t got = process_vm_readv(child, &to, 1, &from, 1, 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return got == (ssize_t)sizeof here;
}

#endif
