/* Collects what manifests and rows say about hosts, devices and builds: see about.h. */
#include "results/read/about.h"

#include "results/read/machine.h"

#include <string.h>

const char *results_about_name(int line)
{
    static const char *const names[RESULTS_ABOUT_LINES] = {"Hosts", "Devices", "Commits",
                                                           "Measured"};
    return names[line];
}

const char *results_about_text(const results_about *about, int line)
{
    const char *const texts[RESULTS_ABOUT_LINES] = {about->hosts, about->devices, about->builds,
                                                    about->when};
    return texts[line];
}

/* Whether a value is one of those that a list contains. */
static int about_has(const char *list, const char *value)
{
    const size_t length = strlen(value);
    for (const char *at = list; (at = strstr(at, value)) != NULL; at++)
        if ((at == list || (at - list >= 2 && memcmp(at - 2, "; ", 2) == 0)) &&
            (at[length] == '\0' || at[length] == ';'))
            return 1;
    return 0;
}

/* Adds a value to a list of RESULTS_ABOUT_BYTES; what has no room becomes "...". */
static void about_add(char *list, const char *value)
{
    static const char more[] = "; ...";
    char clean[200];
    const size_t used = strlen(list);
    snprintf(clean, sizeof clean, "%s", value);
    for (char *at = clean; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 127 || *at == ';')
            *at = '?';
    if (!clean[0] || about_has(list, clean) || about_has(list, "..."))
        return;
    if (used + strlen(clean) + sizeof more + 2 < RESULTS_ABOUT_BYTES)
        snprintf(list + used, RESULTS_ABOUT_BYTES - used, "%s%s", used ? "; " : "", clean);
    else
        snprintf(list + used, RESULTS_ABOUT_BYTES - used, "%s", more);
}

/* A value of the manifest; "": there is none. */
static const char *about_fact(const results_manifest *manifest, const char *path)
{
    for (size_t i = 0; i < manifest->count; i++)
        if (strcmp(manifest->facts[i].path, path) == 0)
            return manifest->facts[i].value;
    return "";
}

/* Whether a path is that of a member of any rank: "ranks[3].host" of "host". */
static int about_is_of_rank(const char *path, const char *member)
{
    const char *end = strchr(path, ']');
    return strncmp(path, "ranks[", 6) == 0 && end && end[1] == '.' && strcmp(end + 2, member) == 0;
}

/* "4 NVIDIA H200": the GPUs that the ranks of one run used, if all are of one model. */
static void about_add_gpus(results_about *about, const results_manifest *manifest)
{
    const char *model = NULL, *buses[64];
    int count = 0, others = 0;
    char text[160];
    for (size_t i = 0; i < manifest->count && count < 64; i++) {
        const results_fact *fact = &manifest->facts[i];
        int seen = 0;
        if (!fact->value)
            continue;
        if (about_is_of_rank(fact->path, "gpu.name")) {
            others |= model && strcmp(model, fact->value) != 0;
            model = model ? model : fact->value;
        }
        if (!about_is_of_rank(fact->path, "gpu.bus"))
            continue;
        for (int k = 0; k < count; k++)
            seen |= strcmp(buses[k], fact->value) == 0;
        if (!seen)
            buses[count++] = fact->value;
    }
    if (!model)
        return;
    snprintf(text, sizeof text, "%d %s%.120s", count > 0 ? count : 1,
             others ? "GPUs, such as " : "", model);
    about_add(about->devices, text);
}

static void about_add_manifest(results_about *about, const results_manifest *manifest)
{
    const char *commit = about_fact(manifest, "build.commit");
    const char *version = about_fact(manifest, "build.version");
    char text[200];
    about_add(about->hosts, about_fact(manifest, "host.name"));
    for (size_t i = 0; i < manifest->count; i++)
        if (about_is_of_rank(manifest->facts[i].path, "host"))
            about_add(about->hosts, manifest->facts[i].value);
    about_add_gpus(about, manifest);
    about_add(about->devices, about_fact(manifest, "host.topology"));
    if (!commit[0] && !version[0])
        return;
    if (version[0])
        snprintf(text, sizeof text, "%s%.60s%sweir %.40s, %.20s%s", commit[0] ? "commit " : "",
                 commit, commit[0] ? " (" : "", version, about_fact(manifest, "build.kind"),
                 commit[0] ? ")" : "");
    else
        snprintf(text, sizeof text, "commit %.60s", commit);
    about_add(about->builds, text);
}

/* From the first to the last time of all rows. */
static void about_add_times(results_about *about, const results_set *set)
{
    const char *first = "", *last = "";
    for (size_t i = 0; i < set->count; i++) {
        const char *utc = set->rows[i].text[RESULTS_UTC];
        if (utc[0] && (!first[0] || strcmp(utc, first) < 0))
            first = utc;
        if (utc[0] && strcmp(utc, last) > 0)
            last = utc;
    }
    snprintf(about->when, sizeof about->when, "%.60s%s%.60s", first,
             strcmp(first, last) ? " to " : "", strcmp(first, last) ? last : "");
}

void results_about_read(results_set *set, results_about *about)
{
    const char *read = "";
    *about = (results_about){.hosts = ""};
    for (size_t i = 0; i < set->count; i++) {
        const results_row *row = &set->rows[i];
        results_manifest manifest;
        about_add(about->hosts, row->text[RESULTS_HOST]);
        if (strcmp(row->path, read) == 0)
            continue;
        read = row->path;
        if (results_manifest_read_file(set, row->path, &manifest) == 0)
            about_add_manifest(about, &manifest);
        results_manifest_free(&manifest);
    }
    about_add_times(about, set);
}
