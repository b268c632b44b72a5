/*
 * Counts of the entries of a folder: a process's descriptors (/proc/self/fd) and threads
 * (/proc/self/task), and the files that a test leaves.
 */
#ifndef VERIFY_TESTS_SUPPORT_ENTRIES_H
#define VERIFY_TESTS_SUPPORT_ENTRIES_H

#include <dirent.h>

/* Counts the entries of a folder without . and .., or returns -2 if it cannot be opened. The count
 * of /proc/self/fd includes the descriptor that reads the folder. */
static inline int count_entries(const char *path)
{
    int count = 0;
    DIR *folder = opendir(path);
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count - 2;
}

#endif
