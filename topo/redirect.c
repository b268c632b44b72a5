/*
 * Variables by which hwloc describes another machine than this one. Some systems set them for
 * whole jobs (flux run -o hwloc.xmlfile), but a process is placed and bound on the machine that
 * runs it. The variables are therefore hidden from hwloc while it loads, and from it alone:
 * libraries measured next to weir see them. Entries of the environment are replaced rather than
 * removed, so that another thread which reads it meanwhile finds all other variables.
 */
#define _GNU_SOURCE /* environ */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/model.h"

enum { HIDDEN_MOST = 16 };

static pthread_mutex_t redirect_gate = PTHREAD_MUTEX_INITIALIZER;
static char placeholders[HIDDEN_MOST][8];
static char *hidden[HIDDEN_MOST]; /* the variables that placeholders stand for; else NULL */

/* Those that name another machine come first. */
static const char *const redirections[] = {"HWLOC_XMLFILE",    "HWLOC_SYNTHETIC",
                                           "HWLOC_FSROOT",     "HWLOC_CPUID_PATH",
                                           "HWLOC_COMPONENTS", "HWLOC_THISSYSTEM"};
enum { REDIRECTIONS = sizeof redirections / sizeof *redirections, NAMING = 4 };

/* A list that only excludes components, as "-gl,-opencl", serves to avoid faults of drivers. */
static int only_excludes(const char *components)
{
    for (const char *at = components;; at++) {
        if (*at != '-' || strncmp(at, "-linux", 6) == 0)
            return 0;
        at = strchr(at, ',');
        if (!at)
            return 1;
    }
}

static int is_redirection(const char *variable)
{
    for (size_t i = 0; i < REDIRECTIONS; i++) {
        const size_t length = strlen(redirections[i]);
        if (strncmp(variable, redirections[i], length) == 0 && variable[length] == '=')
            return strcmp(redirections[i], "HWLOC_COMPONENTS") != 0 ||
                   !only_excludes(variable + length + 1);
    }
    return 0;
}

void weiri_topo_hide_redirections(void)
{
    int count = 0;
    pthread_mutex_lock(&redirect_gate);
    for (char **at = environ; at && *at && count < HIDDEN_MOST; at++)
        if (is_redirection(*at)) {
            hidden[count] = *at;
            strcpy(placeholders[count], "_hwloc=");
            *at = placeholders[count++];
        }
}

void weiri_topo_restore_redirections(void)
{
    for (char **at = environ; at && *at; at++)
        for (int i = 0; i < HIDDEN_MOST; i++)
            if (*at == placeholders[i])
                *at = hidden[i];
    pthread_mutex_unlock(&redirect_gate);
}

const char *weiri_topo_redirection(void)
{
    for (size_t i = 0; i < NAMING; i++) {
        const char *value = getenv(redirections[i]);
        if (value && *value)
            return redirections[i];
    }
    return NULL;
}
