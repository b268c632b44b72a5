/* Models of machines for estimates: presets, files, and conversion of measured links. */
#include "plan/cost/model.h"

#include "base/c_locale.h"
#include "base/error.h"
#include "base/links.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = WEIR_RANKS_MAX, LINE_BYTES = 256 };

/* H200 GPUs: measured between processes on one host with 4 of them (flags, packets, thread blocks
 * against one pair, all pairs at once, copy engines, launches as graph nodes); op, fence and
 * barrier are fitted to small collectives. With 8 GPUs, the NVLink switch provides the same links.
 */
#define H200                                                                                       \
    .launch_us = 0.75, .op_us = 0.3, .fence_us = 0.1, .barrier_us = 0.6, .signal_us = 1.25,        \
    .relaxed_us = 0.62, .packet_us = 0.7, .port_us = 2.5, .net_us = 0, .block_gbs = 44,            \
    .reduce_gbs = 88, .pair_gbs = 350, .link_gbs = 350, .memory_gbs = 3900, .machine_gbs = 0,      \
    .port_gbs = 390, .net_gbs = 0

static const weiri_plan_model presets[] = {
    {.name = "h200x4",
     .ranks = 4,
     .node_ranks = 4,
     H200,
     .about = "4 GPUs of one host, NVLink through a switch; measured"},
    {.name = "h200x8",
     .ranks = 8,
     .node_ranks = 8,
     H200,
     .about = "8 GPUs of one host, with the figures of h200x4"},
    {.name = "host",
     .ranks = RANKS_MAX,
     .node_ranks = RANKS_MAX,
     .launch_us = 0.1,
     .op_us = 0.05,
     .fence_us = 0.02,
     .barrier_us = 0.2,
     .signal_us = 0.15,
     .relaxed_us = 0.15,
     .packet_us = 0.15,
     .port_us = 1,
     .net_us = 0,
     .block_gbs = 10,
     .reduce_gbs = 8,
     .pair_gbs = 10,
     .link_gbs = 10,
     .memory_gbs = 20,
     .machine_gbs = 150,
     .port_gbs = 8,
     .net_gbs = 0,
     .about = "processes of one server, one core each; assumed"},
};
enum { PRESETS = sizeof presets / sizeof *presets };

static const struct number {
    const char *key, *unit;
    size_t offset;
} numbers[] = {
#define NUMBER(key, unit, meaning) {#key, unit, offsetof(weiri_plan_model, key)},
    WEIRI_PLAN_MODEL_MAP(NUMBER)
#undef NUMBER
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static const weiri_plan_model *plan_model_find_preset(const char *name)
{
    for (int i = 0; i < PRESETS; i++)
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    return NULL;
}

void weiri_plan_model_list(FILE *to)
{
    for (int i = 0; i < PRESETS; i++)
        fprintf(to, "  %-10s %s\n", presets[i].name, presets[i].about);
}

/* ------------------------------------------------------------------------ files */

/* Removes blanks around a word, in place. */
static char *plan_model_trim(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

static int plan_model_parse_count(const char *value, int *count)
{
    char *end;
    long number = strtol(value, &end, 10);
    if (!*value || *end || number < 1 || number > RANKS_MAX)
        return -1;
    *count = (int)number;
    return 0;
}

/* Latencies may be 0; bandwidths must be positive, except those for which 0 means absent. */
static int plan_model_parse_number(const char *value, const struct number *row,
                                   weiri_plan_model *model)
{
    char *end;
    double number = weiri_strtod(value, &end);
    int may_be_zero = row->unit[0] == 'u' || strcmp(row->key, "machine_gbs") == 0 ||
                      strcmp(row->key, "net_gbs") == 0;
    if (!*value || *end || !(number >= 0) || number > 1e9 || (number < 1e-6 && !may_be_zero))
        return -1;
    *(double *)(void *)((char *)model + row->offset) = number;
    return 0;
}

static int plan_model_parse_pair(const char *key, const char *value, weiri_plan_model *model)
{
    if (strcmp(key, "ranks") == 0)
        return plan_model_parse_count(value, &model->ranks);
    if (strcmp(key, "machine_ranks") == 0)
        return plan_model_parse_count(value, &model->node_ranks);
    for (int i = 0; i < NUMBERS; i++)
        if (strcmp(key, numbers[i].key) == 0)
            return plan_model_parse_number(value, &numbers[i], model);
    return -1;
}

static weir_status plan_model_parse_line(const char *path, int line, char *text, int *based,
                                         weiri_plan_model *model)
{
    text[strcspn(text, "#\r\n")] = '\0';
    char *equals = strchr(text, '='), *key = text, *value = text;
    if (equals) {
        *equals = '\0';
        value = plan_model_trim(equals + 1);
    }
    key = plan_model_trim(key);
    if (!*key && !equals)
        return WEIR_OK;
    const weiri_plan_model *base = strcmp(key, "base") == 0 ? plan_model_find_preset(value) : NULL;
    if (equals && base && !*based) {
        *model = *base;
    } else if (!equals || plan_model_parse_pair(key, value, model) != 0) {
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s:%d: expected key = value of a topology, with base = PRESET first; "
                          "docs/user/plans.md lists the keys",
                          path, line);
    }
    *based = 1;
    return WEIR_OK;
}

static weir_status plan_model_read_lines(FILE *from, const char *path, weiri_plan_model *model)
{
    char text[LINE_BYTES];
    int based = 0;
    weir_status status = WEIR_OK;
    *model = *plan_model_find_preset("h200x8");
    for (int line = 1; status == WEIR_OK && fgets(text, sizeof text, from); line++)
        status = plan_model_parse_line(path, line, text, &based, model);
    if (status == WEIR_OK && ferror(from))
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot read the topology %s", path);
    if (status == WEIR_OK && !based)
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: contains no line; expected key = value of a topology; "
                          "docs/user/plans.md lists the keys",
                          path);
    snprintf(model->about, sizeof model->about, "numbers from a file");
    if (status == WEIR_OK && model->node_ranks < model->ranks && !(model->net_gbs > 0))
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: machine_ranks is less than ranks, so the ranks span several nodes; "
                          "net_gbs is missing",
                          path);
    return status;
}

/* Converts measured links: the mean over the measured pairs, and the bandwidth of all links used
 * together with the largest message. */
static weir_status plan_model_from_links(const char *path, weiri_plan_model *model)
{
    weiri_links *links = NULL;
    double gbs = 0, us = 0;
    int pairs = 0, on_host;
    weir_status status = weiri_links_read(path, &links);
    if (status != WEIR_OK)
        return status;
    on_host = strcmp(links->backend, "host") == 0;
    *model = *plan_model_find_preset(on_host ? "host" : "h200x8");
    for (int i = 0; i < links->endpoints * links->endpoints; i++)
        if (links->gbs[i] > 0 && links->us[i] > 0) {
            gbs += links->gbs[i];
            us += links->us[i];
            pairs++;
        }
    if (pairs) {
        double slower = us / pairs / model->relaxed_us;
        model->pair_gbs = gbs / pairs;
        model->block_gbs =
            on_host ? model->pair_gbs : model->block_gbs; /* one core drove the link */
        model->signal_us *= slower;
        model->relaxed_us *= slower;
        model->packet_us *= slower;
    }
    if (links->nsizes)
        model->link_gbs = links->together_gbs[links->nsizes - 1];
    model->ranks = links->endpoints < RANKS_MAX ? links->endpoints : RANKS_MAX;
    model->node_ranks = model->ranks;
    snprintf(model->about, sizeof model->about, "%d %s, measured", links->endpoints,
             on_host ? "cores" : "GPUs");
    weiri_links_free(links);
    return WEIR_OK;
}

weir_status weiri_plan_model_read(const char *name, weiri_plan_model *model)
{
    const weiri_plan_model *preset = plan_model_find_preset(name);
    char word[16] = "";
    weir_status status;
    if (preset) {
        *model = *preset;
        return WEIR_OK;
    }
    FILE *from = fopen(name, "r");
    if (!from)
        return weiri_fail(
            WEIR_ERR_INVALID,
            "topology %s: not a preset (h200x4, h200x8, host) and not a readable file: %s", name,
            strerror(errno));
    int measured = fscanf(from, "%15s", word) == 1 && strcmp(word, "weir-links") == 0;
    rewind(from);
    status =
        measured ? plan_model_from_links(name, model) : plan_model_read_lines(from, name, model);
    fclose(from);
    const char *base = strrchr(name, '/');
    snprintf(model->name, sizeof model->name, "%.60s", base ? base + 1 : name);
    return status;
}
