/* Reads the variables of monitoring. weir's take precedence over NCCL's. */
#include "comm/monitor/settings.h"

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_PROM_INTERVAL_US = 30 * 1000 * 1000 };
static const char default_address[] = "localhost:28028";

static _Atomic(const char *) nccl_version;
static atomic_int has_warned; /* the variables are read for each communicator */

void weiri_monitor_use_nccl(const char *version)
{
    atomic_store(&nccl_version, version);
}

const char *weiri_monitor_nccl_version(void)
{
    return atomic_load(&nccl_version);
}

/* The value of one of NCCL's variables; NULL if it does not apply. */
static const char *settings_nccl(weiri_env_key key)
{
    return weiri_monitor_nccl_version() ? weiri_env(key) : NULL;
}

static int settings_is_on(const char *text)
{
    return text && strcmp(text, "0") != 0;
}

/* Returns a number of the environment, or fallback, with a warning if it is invalid. */
static long settings_number(weiri_env_key key, long low, long high, long fallback)
{
    long value = fallback;
    if (weiri_env_long(key, low, high, fallback, &value) != WEIR_OK &&
        !atomic_exchange(&has_warned, 1))
        weiri_log(WEIRI_LOG_WARN, "%s; using %ld", weir_last_error(), fallback);
    return value;
}

/* As settings_number, for one of NCCL's variables: fallback if it does not apply. */
static long settings_nccl_number(weiri_env_key key, long low, long high, long fallback)
{
    return settings_nccl(key) ? settings_number(key, low, high, fallback) : fallback;
}

static void settings_read_ras(weiri_monitor_settings *settings)
{
    const char *own = weiri_env(WEIRI_ENV_RAS), *address = own;
    const char *enable = settings_nccl(WEIRI_ENV_NCCL_RAS_ENABLE);
    if (!own) {
        address = settings_nccl(WEIRI_ENV_NCCL_RAS_ADDR);
        settings->serves = enable ? settings_is_on(enable) : address != NULL;
    } else {
        settings->serves = settings_is_on(own);
        if (strcmp(own, "1") == 0)
            address = settings_nccl(WEIRI_ENV_NCCL_RAS_ADDR);
    }
    snprintf(settings->address, sizeof settings->address, "%s",
             settings->serves && address ? address : default_address);
}

/* Parses "prom,json", whose form is checked (base/env_check.h). */
static void settings_parse_formats(weiri_monitor_settings *settings, const char *text)
{
    for (const char *at = text; at;) {
        const char *comma = strchr(at, ',');
        const size_t length = comma ? (size_t)(comma - at) : strlen(at);
        if (length == 4 && strncmp(at, "prom", 4) == 0)
            settings->writes_prom = 1;
        else if (length == 4 && strncmp(at, "json", 4) == 0)
            settings->writes_json = 1;
        at = comma ? comma + 1 : NULL;
    }
}

static void settings_name_folder(weiri_monitor_settings *settings)
{
    const char *folder = weiri_env(WEIRI_ENV_METRICS_DIR);
    const char *job = weiri_env(WEIRI_ENV_SLURM_JOB_ID);
    if (!folder)
        folder = settings_nccl(WEIRI_ENV_NCCL_INSPECTOR_DUMP_DIR);
    if (folder)
        snprintf(settings->folder, sizeof settings->folder, "%s", folder);
    else
        snprintf(settings->folder, sizeof settings->folder, "nccl-inspector-%s",
                 job ? job : "unknown-jobid");
}

/* As Inspector does, writes Prometheus files every 30 s at most when NCCL's variable sets the
 * interval. weir's variable is taken as it is. */
static void settings_read_interval(weiri_monitor_settings *settings)
{
    const long most_us = 1000L * 1000 * 1000 * 1000;
    if (weiri_env(WEIRI_ENV_METRICS_INTERVAL_MS)) {
        const long ms = settings_number(WEIRI_ENV_METRICS_INTERVAL_MS, -1, most_us / 1000, -1);
        settings->interval_us = ms < 0 ? -1 : ms * 1000;
        return;
    }
    settings->interval_us =
        settings_nccl_number(WEIRI_ENV_NCCL_INSPECTOR_INTERVAL, -1, most_us, -1);
    if (settings->interval_us >= 0 && settings->writes_prom &&
        settings->interval_us < LEAST_PROM_INTERVAL_US)
        settings->interval_us = LEAST_PROM_INTERVAL_US;
}

static void settings_read_metrics(weiri_monitor_settings *settings)
{
    const char *own = weiri_env(WEIRI_ENV_METRICS);
    if (own)
        settings_parse_formats(settings, own);
    else if (settings_is_on(settings_nccl(WEIRI_ENV_NCCL_INSPECTOR_ENABLE))) {
        settings->writes_prom = settings_is_on(settings_nccl(WEIRI_ENV_NCCL_INSPECTOR_PROM_DUMP));
        settings->writes_json = !settings->writes_prom;
    }
    if (!settings->writes_prom && !settings->writes_json)
        return;
    settings_name_folder(settings);
    settings_read_interval(settings);
    const long nccl_bytes =
        settings_nccl_number(WEIRI_ENV_NCCL_INSPECTOR_MIN_BYTES, 0, INT64_MAX / 2, 8192);
    settings->least_bytes =
        (uint64_t)settings_number(WEIRI_ENV_METRICS_MIN_BYTES, 0, INT64_MAX / 2, nccl_bytes);
    settings->has_pairs = (int)settings_nccl_number(WEIRI_ENV_NCCL_INSPECTOR_P2P, 0, 1, 1);
}

int weiri_monitor_settings_read(weiri_monitor_settings *settings)
{
    memset(settings, 0, sizeof *settings);
    settings->interval_us = -1;
    settings_read_ras(settings);
    settings_read_metrics(settings);
    settings->reports = weiri_log_enabled(WEIRI_LOG_INFO);
    const int is_on =
        settings->serves || settings->writes_prom || settings->writes_json || settings->reports;
    if (is_on)
        settings->ncalls =
            (int)settings_number(WEIRI_ENV_MONITOR_CALLS, 2, WEIRI_MONITOR_CALLS, 64);
    return is_on;
}
