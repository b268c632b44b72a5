/* Compares the hardware with a recorded machine, in the words of weir-topo --diff. */
#include "bench/health/checks.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* Makes a check of each line of text. */
static void topology_add_differences(health_report *report, char *text, const char *path)
{
    int number = 0;
    for (char *line; (line = strtok_r(text, "\n", &text));) {
        char id[HEALTH_ID_BYTES];
        snprintf(id, sizeof id, "topology.%d", number++);
        health_check *check = health_add(report, id, "hardware as recorded");
        health_set(check, HEALTH_MISSING, "%s", line);
        snprintf(check->source, sizeof check->source, "%s", path);
    }
}

weir_status health_check_topology(health_report *report, const char *path, const weiri_topo *topo)
{
    weiri_topo *expected = NULL;
    char *text = NULL;
    size_t bytes;
    int found = 0;
    weir_status status = weiri_topo_load_any(path, &expected);
    if (status)
        return status;
    FILE *to = open_memstream(&text, &bytes);
    status = to ? weiri_topo_diff(expected, path, topo, "this machine", to, &found)
                : weiri_fail(WEIR_ERR_NO_MEMORY, "no memory to compare two machines");
    if (to)
        fclose(to);
    if (!status) {
        health_check *check =
            health_add(report, "topology", "differences from the recorded machine");
        health_look(check, "the devices that the lines below name: lspci, nvidia-smi topo -m, "
                           "ibstat, dmesg");
        health_set_value(check, found, "", 0);
        health_expect(check, HEALTH_EQUAL, 0, HEALTH_MISSING, path);
    }
    if (!status && found)
        topology_add_differences(report, text, path);
    weiri_topo_destroy(expected);
    free(text);
    return status;
}
