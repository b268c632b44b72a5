#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
echo "software: Linux $(uname -r)"
says "process_vm_readv of one range whose end is not mapped copies the pages before it and returns their bytes, without an error; the manual says that no transfer splits an element of the list"
cat >read.c <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGES = 64, MAPPED = 40 };

int main(void)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *from = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, flags, -1, 0);
    char *to = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, flags, -1, 0);
    memset(from, 7, PAGES * page);
    munmap(from + MAPPED * page, (PAGES - MAPPED) * page);
    struct iovec here = {to, PAGES * page}, there = {from, PAGES * page};
    ssize_t copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    if (copied < 0 && (errno == ENOSYS || errno == EPERM))
        return 77;
    printf("%zd", copied < 0 ? copied : copied / (ssize_t)page);
    there = (struct iovec){from + MAPPED * page, page};
    copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    printf(" %zd %s\n", copied, copied < 0 ? strerrorname_np(errno) : "-");
    return 0;
}
C
gcc -o read read.c 2>compile.log || { tail -n 3 compile.log; exit 2; }
seen=$(./read) || lacks "no process_vm_readv"
expect "pages read of one range of 64, of which 40 are mapped; result at a page that is not" "40 -1 EFAULT" "$seen"
finish
