/* Finds the folders of control groups: see groups.h. */
#include "bench/job/groups.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Reads the group, and all groups above it. Changes group. */
static void groups_read_upwards(const char *root, const char *mount, char *group,
                                bench_group_reader *read, void *context)
{
    char folder[2 * PATH_MAX];
    for (char *slash = strrchr(group, '/'); slash; slash = strrchr(group, '/')) {
        const int is_root = slash == group && !slash[1];
        snprintf(folder, sizeof folder, "%s%s%s", root, mount, is_root ? "" : group);
        read(folder, context);
        if (is_root)
            return;
        slash[slash == group] = '\0';
    }
}

/* Whether the list "cpu,cpuacct" has a controller. */
static int groups_has_controller(const char *list, const char *controller)
{
    const size_t length = strlen(controller);
    for (const char *word = list; word; word = strchr(word, ',')) {
        word += *word == ',';
        if (strncmp(word, controller, length) == 0 && (!word[length] || word[length] == ','))
            return 1;
    }
    return 0;
}

/* A process sees only the root of its groups in a container, where /proc/self/cgroup may still name
 * groups that it cannot see. */
static void groups_read_roots(const char *root, const char *controller, bench_group_reader *read,
                              void *context)
{
    char slash[] = "/", mount[64];
    snprintf(mount, sizeof mount, "/sys/fs/cgroup/%s", controller);
    groups_read_upwards(root, "/sys/fs/cgroup", slash, read, context);
    groups_read_upwards(root, mount, slash, read, context);
}

/* /proc/self/cgroup has one line per tree, number:controllers:/group. The line of version 2 names
 * no controllers, and its tree has another mount where both versions are in use. */
void bench_groups_read(const char *root, const char *controller, bench_group_reader *read,
                       void *context)
{
    char path[PATH_MAX], line[PATH_MAX], copy[PATH_MAX], mount[64];
    groups_read_roots(root, controller, read, context);
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        controllers++;
        group[strcspn(group, "\n")] = '\0';
        memcpy(copy, group, strlen(group) + 1);
        if (!*controllers) {
            groups_read_upwards(root, "/sys/fs/cgroup", group, read, context);
            groups_read_upwards(root, "/sys/fs/cgroup/unified", copy, read, context);
        } else if (groups_has_controller(controllers, controller)) {
            snprintf(mount, sizeof mount, "/sys/fs/cgroup/%s", controller);
            groups_read_upwards(root, mount, group, read, context);
        }
    }
    fclose(file);
}
