/* The list of the monitored communicators of this process. */
#include "comm/monitor/process.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static weiri_monitor *first;

weiri_monitor *weiri_monitor_list_lock(void)
{
    pthread_mutex_lock(&list_lock);
    return first;
}

void weiri_monitor_list_unlock(void)
{
    pthread_mutex_unlock(&list_lock);
}

void weiri_monitor_list_add(weiri_monitor *monitor)
{
    pthread_mutex_lock(&list_lock);
    monitor->next = first;
    first = monitor;
    pthread_mutex_unlock(&list_lock);
}

void weiri_monitor_list_remove(weiri_monitor *monitor)
{
    pthread_mutex_lock(&list_lock);
    weiri_monitor **at = &first;
    while (*at && *at != monitor)
        at = &(*at)->next;
    if (*at)
        *at = monitor->next;
    pthread_mutex_unlock(&list_lock);
}

void weiri_monitor_list_forget(void)
{
    pthread_mutex_init(&list_lock, NULL);
    first = NULL;
}

void weiri_monitor_list_name(weiri_monitor *monitor, const char *name)
{
    size_t used = 0;
    pthread_mutex_lock(&list_lock);
    for (; name[used] && used + 1 < sizeof monitor->name; used++)
        monitor->name[used] =
            name[used] < ' ' || name[used] > '~' || strchr("\"\\", name[used]) ? '?' : name[used];
    monitor->name[used] = '\0';
    pthread_mutex_unlock(&list_lock);
}
