/* The tree of meshes: who is in which mesh, and exchanges up and down the tree. */
#include "boot/tree.h"

#include "base/error.h"
#include "boot/link.h"
#include "boot/mesh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GRACE_MS = 300,        /* that a level waits longer than the one below it */
    DOWN_TAG = 0x444f574e, /* of the messages in a mesh that carry a result down */
};

typedef struct tree {
    weir_boot_ops ops;
    int rank, nranks, timeout_ms;
    int nlevels, height; /* levels of this rank, and of the tree */
    weiri_tree_level levels[WEIRI_TREE_DEPTH];
    weir_boot *meshes[WEIRI_TREE_DEPTH]; /* of each of its levels */
    weiri_direct *direct;
    weir_status broken; /* WEIR_OK, or the failure that broke the tree */
    char reason[WEIRI_REASON_BYTES];
} tree;

static int tree_group_of(int nranks)
{
    return nranks <= WEIRI_TREE_MESH ? WEIRI_TREE_MESH : WEIRI_TREE_GROUP;
}

int weiri_tree_levels(int rank, int nranks, weiri_tree_level levels[WEIRI_TREE_DEPTH])
{
    int group = tree_group_of(nranks), count = 0;
    for (int stride = 1; count < WEIRI_TREE_DEPTH; stride *= group) {
        int first = rank / (stride * group) * (stride * group);
        int members = (nranks - first + stride - 1) / stride;
        levels[count++] = (weiri_tree_level){.first = first,
                                             .stride = stride,
                                             .count = members < group ? members : group,
                                             .index = (rank - first) / stride};
        if (rank != first || stride * group >= nranks)
            break;
    }
    return count;
}

int weiri_tree_neighbours(int rank, int other, int nranks)
{
    weiri_tree_level levels[WEIRI_TREE_DEPTH];
    const int count = weiri_tree_levels(rank, nranks, levels);
    for (int level = 0; level < count; level++) {
        const int distance = other - levels[level].first, stride = levels[level].stride;
        if (distance >= 0 && distance % stride == 0 && distance / stride < levels[level].count)
            return 1;
    }
    return 0;
}

static int tree_height(int nranks)
{
    weiri_tree_level levels[WEIRI_TREE_DEPTH];
    return weiri_tree_levels(0, nranks, levels);
}

/* --------------------------------------------------------------- exchanges */

static weiri_mesh *tree_mesh(const tree *t, int level)
{
    return weiri_boot_context(t->meshes[level]);
}

/* Returns the reason in a farewell that one of the meshes has received, or "". */
static const char *tree_cause(const tree *t)
{
    const char *cause = "";
    for (int level = 0; level < t->nlevels && !cause[0]; level++)
        cause = tree_mesh(t, level)->cause;
    return cause;
}

/* Marks the tree as broken by the last error, and passes on the reason to all meshes. */
static weir_status tree_break(tree *t, weir_status status)
{
    char cause[WEIRI_REASON_BYTES];
    t->broken = status;
    snprintf(t->reason, sizeof t->reason, "%s", weir_last_error());
    snprintf(cause, sizeof cause, "%s", tree_cause(t));
    for (int level = 0; level < t->nlevels; level++) {
        weiri_mesh *mesh = tree_mesh(t, level);
        if (mesh->broken != WEIR_OK)
            continue;
        memcpy(mesh->cause, cause, sizeof mesh->cause);
        weiri_fail(status, "%s", t->reason);
        weiri_mesh_break(mesh, status);
    }
    return weiri_fail(status, "%s", t->reason);
}

static weir_status tree_usable(const tree *t)
{
    if (t->broken == WEIR_OK)
        return WEIR_OK;
    return weiri_fail(t->broken, "rank %d: the %s bootstrap failed before: %s", t->rank,
                      t->ops.name, t->reason);
}

/* Exchanges the parts of a mesh's members: the parts of all ranks below each of them. */
static weir_status tree_gather(const tree *t, int level, char *all, size_t bytes)
{
    const weiri_tree_level *at = &t->levels[level];
    size_t each = (size_t)at->stride * bytes, first = (size_t)at->first * bytes;
    size_t total = (size_t)t->nranks * bytes, whole = first + (size_t)at->count * each;
    if (!bytes)
        return weir_boot_barrier(t->meshes[level]);
    if (whole <= total)
        return weir_boot_allgather(t->meshes[level], all + first, each);
    char *padded = calloc((size_t)at->count, each); /* the last member has fewer ranks below it */
    if (!padded)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "rank %d: no memory for an exchange of %zu bytes",
                          t->rank, bytes);
    memcpy(padded, all + first, total - first);
    weir_status status = weir_boot_allgather(t->meshes[level], padded, each);
    memcpy(all + first, padded, total - first);
    free(padded);
    return status;
}

/* Receives the result from the leader of this rank's highest mesh, and sends it to the meshes of
 * which this rank is the leader. */
static weir_status tree_descend(const tree *t, char *all, size_t bytes)
{
    int top = t->nlevels - 1;
    size_t total = bytes * (size_t)t->nranks;
    weir_status status = WEIR_OK;
    if (t->nlevels < t->height) {
        weir_boot *mesh = t->meshes[top];
        weir_boot_set_timeout(mesh, t->timeout_ms + GRACE_MS * (2 * t->height - top));
        status = weir_boot_recv(mesh, all, total, 0, DOWN_TAG);
        weir_boot_set_timeout(mesh, t->timeout_ms + GRACE_MS * top);
    }
    for (int level = top - 1; level >= 0 && status == WEIR_OK; level--)
        for (int i = 1; i < t->levels[level].count && status == WEIR_OK; i++)
            status = weir_boot_send(t->meshes[level], all, total, i, DOWN_TAG);
    return status;
}

static weir_status tree_allgather(void *context, void *all, size_t bytes)
{
    tree *t = context;
    weir_status status = tree_usable(t);
    if (status != WEIR_OK)
        return status;
    for (int level = 0; level < t->nlevels && status == WEIR_OK; level++)
        status = tree_gather(t, level, all, bytes);
    if (status == WEIR_OK)
        status = tree_descend(t, all, bytes);
    return status == WEIR_OK ? WEIR_OK : tree_break(t, status);
}

static weir_status tree_barrier(void *context)
{
    return tree_allgather(context, NULL, 0);
}

/* ----------------------------------------------------------------- messages */

static weir_status tree_send(void *context, const void *data, size_t bytes, int peer, int tag)
{
    tree *t = context;
    weir_status status = tree_usable(t);
    return status == WEIR_OK ? weiri_direct_send(t->direct, data, bytes, peer, tag) : status;
}

static weir_status tree_recv(void *context, void *data, size_t bytes, int peer, int tag)
{
    tree *t = context;
    weir_status status = tree_usable(t);
    return status == WEIR_OK ? weiri_direct_recv(t->direct, data, bytes, peer, tag) : status;
}

/* ------------------------------------------------------------------ set-up */

static void tree_set_timeout(void *context, int timeout_ms)
{
    tree *t = context;
    t->timeout_ms = timeout_ms;
    weiri_direct_set_timeout(t->direct, timeout_ms);
    for (int level = 0; level < t->nlevels; level++)
        weir_boot_set_timeout(t->meshes[level], timeout_ms + GRACE_MS * level);
}

void weiri_tree_shut(weir_boot *boot)
{
    tree *t = weiri_boot_context(boot);
    for (int level = 0; level < t->nlevels; level++)
        weiri_mesh_shut(t->meshes[level]);
    weiri_direct_shut(t->direct);
}

static void tree_free(tree *t)
{
    for (int level = 0; level < t->nlevels; level++)
        weir_boot_destroy(t->meshes[level]);
    free(t);
}

static void tree_destroy(void *context)
{
    weiri_direct_destroy(((tree *)context)->direct);
    tree_free(context);
}

static weir_status tree_create_mesh(tree *t, int level, const int *fds)
{
    const weiri_tree_level *at = &t->levels[level];
    weir_status status =
        weiri_mesh_create(t->ops.name, at->index, at->count, t->timeout_ms, fds, &t->meshes[level]);
    if (status != WEIR_OK)
        return status;
    weiri_mesh *mesh = tree_mesh(t, level);
    mesh->first = at->first;
    mesh->stride = at->stride;
    return WEIR_OK;
}

/* Creates the object; the caller's sockets from t->nlevels on, and direct, stay the caller's. */
static weir_status tree_create_unconnected(tree *t, int nlevels, int *const *fds, weir_boot **boot)
{
    weir_status status = WEIR_OK;
    for (; t->nlevels < nlevels && status == WEIR_OK; t->nlevels += status == WEIR_OK)
        status = tree_create_mesh(t, t->nlevels, fds[t->nlevels]);
    return status == WEIR_OK ? weir_boot_create(&t->ops, t, t->rank, t->nranks, boot) : status;
}

weir_status weiri_tree_create(const char *name, int rank, int nranks, int timeout_ms,
                              int *const *fds, weiri_direct *direct, weir_boot **boot)
{
    weiri_tree_level levels[WEIRI_TREE_DEPTH];
    const int nlevels = weiri_tree_levels(rank, nranks, levels);
    tree *t = calloc(1, sizeof *t);
    weir_boot *made = NULL;
    weir_status status = WEIR_ERR_NO_MEMORY;
    if (t) {
        t->ops = (weir_boot_ops){.name = name,
                                 .allgather = tree_allgather,
                                 .send = tree_send,
                                 .recv = tree_recv,
                                 .barrier = tree_barrier,
                                 .destroy = tree_destroy,
                                 .set_timeout = tree_set_timeout};
        t->rank = rank;
        t->nranks = nranks;
        t->timeout_ms = timeout_ms;
        t->height = tree_height(nranks);
        memcpy(t->levels, levels, sizeof levels);
        status = tree_create_unconnected(t, nlevels, fds, &made);
    } else {
        weiri_fail(status, "rank %d: no memory for a bootstrap of %d ranks", rank, nranks);
    }
    if (status != WEIR_OK) {
        for (int level = t ? t->nlevels : 0; level < nlevels; level++)
            weiri_link_close_all(fds[level], levels[level].count);
        if (t)
            tree_free(t);
        weiri_direct_destroy(direct);
        return status;
    }
    t->direct = direct;
    tree_set_timeout(t, timeout_ms);
    status = weir_boot_barrier(made);
    if (status == WEIR_OK)
        *boot = made;
    else
        weir_boot_destroy(made);
    return status;
}
