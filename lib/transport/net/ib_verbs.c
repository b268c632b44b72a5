/* Loads libibverbs and looks up its functions, once per process. */
#include "transport/net/ib_verbs.h"

#include "base/error.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static weiri_verbs loaded;
static char trouble[256]; /* error text if loading failed */

static const struct row {
    const char *name;
    size_t at; /* offset in weiri_verbs */
    int optional;
} rows[] = {
    {"ibv_get_device_list", offsetof(weiri_verbs, get_device_list), 0},
    {"ibv_free_device_list", offsetof(weiri_verbs, free_device_list), 0},
    {"ibv_get_device_name", offsetof(weiri_verbs, get_device_name), 0},
    {"ibv_open_device", offsetof(weiri_verbs, open_device), 0},
    {"ibv_close_device", offsetof(weiri_verbs, close_device), 0},
    {"ibv_query_device", offsetof(weiri_verbs, query_device), 0},
    {"ibv_query_port", offsetof(weiri_verbs, query_port), 0},
    {"ibv_alloc_pd", offsetof(weiri_verbs, alloc_pd), 0},
    {"ibv_dealloc_pd", offsetof(weiri_verbs, dealloc_pd), 0},
    {"ibv_reg_mr", offsetof(weiri_verbs, reg_mr), 0},
    {"ibv_dereg_mr", offsetof(weiri_verbs, dereg_mr), 0},
    {"ibv_create_comp_channel", offsetof(weiri_verbs, create_comp_channel), 0},
    {"ibv_destroy_comp_channel", offsetof(weiri_verbs, destroy_comp_channel), 0},
    {"ibv_create_cq", offsetof(weiri_verbs, create_cq), 0},
    {"ibv_resize_cq", offsetof(weiri_verbs, resize_cq), 0},
    {"ibv_destroy_cq", offsetof(weiri_verbs, destroy_cq), 0},
    {"ibv_get_cq_event", offsetof(weiri_verbs, get_cq_event), 0},
    {"ibv_ack_cq_events", offsetof(weiri_verbs, ack_cq_events), 0},
    {"ibv_create_qp", offsetof(weiri_verbs, create_qp), 0},
    {"ibv_modify_qp", offsetof(weiri_verbs, modify_qp), 0},
    {"ibv_destroy_qp", offsetof(weiri_verbs, destroy_qp), 0},
    {"ibv_wc_status_str", offsetof(weiri_verbs, wc_status_str), 0},
    {"ibv_fork_init", offsetof(weiri_verbs, fork_init), 0},
    {"ibv_reg_dmabuf_mr", offsetof(weiri_verbs, reg_dmabuf_mr), 1},
};

static void ib_load_library(void)
{
    const char *const name = "libibverbs.so.1";
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(trouble, sizeof trouble,
                 "transport ib: %s is not installed on this node; apt-get install libibverbs1 "
                 "ibverbs-providers, or use tcp",
                 name);
        return;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *function = dlsym(library, rows[i].name);
        if (!function && !rows[i].optional) {
            snprintf(trouble, sizeof trouble,
                     "transport ib: %s has no %s; install a newer libibverbs1, or use tcp", name,
                     rows[i].name);
            return;
        }
        memcpy((char *)&loaded + rows[i].at, &function, sizeof function);
    }
    /* Processes that fork keep working on kernels before 5.12; a no-op on later ones. */
    loaded.fork_init();
}

weir_status weiri_verbs_load(const weiri_verbs **verbs)
{
    pthread_once(&once, ib_load_library);
    if (trouble[0])
        return weiri_fail(WEIR_ERR_UNSUPPORTED, "%s", trouble);
    *verbs = &loaded;
    return WEIR_OK;
}
