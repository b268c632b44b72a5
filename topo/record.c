/*
 * Records a machine: hwloc's XML without whatever identifies the machine or its hardware, so that a
 * recording can be published. hwloc writes one element per line; lines with such facts are omitted.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/write_file.h"
#include "topo/model.h"

/* Prefixes of info names that identify a machine, a user or a card. */
static const char *const private_infos[] = {
    "HostName",     "ProcessName",  "LinuxCgroup", "OSVersion",    "DMI",  "Address",
    "NodeGUID",     "SysImageGUID", "Port",        "SerialNumber", "UUID", "NVIDIAUUID",
    "NVIDIASerial", "AMDUUID",      "AMDSerial",   "MemoryModule", "XGMI", "LevelZeroUUID",
};

/* A port's state is not private: it decides which NIC is used. */
static int is_port_state(const char *name)
{
    int length = 0;
    return sscanf(name, "Port%*[0-9]State%n", &length) == 0 && length > 0;
}

static int tells_identity(const char *line)
{
    static const char mark[] = "<info name=\"";
    size_t indent = strspn(line, " ");
    if (strncmp(line + indent, mark, sizeof mark - 1) != 0)
        return 0;
    const char *name = line + indent + sizeof mark - 1;
    if (is_port_state(name))
        return 0;
    for (size_t i = 0; i < sizeof private_infos / sizeof private_infos[0]; i++)
        if (strncmp(name, private_infos[i], strlen(private_infos[i])) == 0)
            return 1;
    return 0;
}

static void write_public_lines(const char *xml, FILE *file)
{
    for (const char *line = xml; *line;) {
        const char *end = strchr(line, '\n');
        size_t bytes = end ? (size_t)(end - line) + 1 : strlen(line);
        if (!tells_identity(line))
            fwrite(line, 1, bytes, file);
        line += bytes;
    }
}

static void write_recording(const void *xml, FILE *file)
{
    write_public_lines(xml, file);
}

weir_status weiri_topo_save(const weiri_topo *topo, const char *xml_path)
{
    char *xml = NULL;
    int bytes = 0;
    if (hwloc_topology_export_xmlbuffer(topo->hwloc, &xml, &bytes, 0) != 0)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "hwloc cannot export the machine");
    weir_status status = WEIR_OK;
    if (weiri_write_file(xml_path, write_recording, xml) != 0) {
        const int error = errno;
        status =
            weiri_fail_errno(weiri_write_refuses_path(error) ? WEIR_ERR_INVALID : WEIR_ERR_SYSTEM,
                             error, "%s: cannot write the recording", xml_path);
    }
    hwloc_free_xmlbuffer(topo->hwloc, xml);
    return status;
}
