/*
 * What an XML file is, by its first tag: hwloc's recording, or one of the other files that describe
 * a machine's topology and that users have at hand. hwloc's parsers print to standard error if a
 * file is not XML, so they see only files whose first tag is theirs.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "topo/model.h"
#include "topo/small_xml.h"

#define RECORD_ONE "record a machine with weir-topo --save FILE"

/* Files that are not hwloc's, by their first tag. */
static const struct {
    const char *tag, *problem;
} other_files[] = {
    {"system", "NCCL's description of a machine, not hwloc's; weir-topo --nccl FILE reads it, "
               "and " RECORD_ONE},
    {"graphs",
     "NCCL's graphs, not a machine; weir-topo --nccl-graph FILE shows them, and " RECORD_ONE},
    {"topologydiff", "what differs from another file (hwloc-diff), not a machine; " RECORD_ONE},
    {"svg", "a picture, not a recorded machine; " RECORD_ONE},
};

int weiri_topo_is_nccl_file(const char *path)
{
    weiri_xml xml;
    const int is_nccl = weiri_xml_is(weiri_xml_read_root(path, &xml), "system");
    weiri_xml_free(&xml);
    return is_nccl;
}

/* The newest version of files that the library reads: hwloc 2.11 reads files of hwloc 3 as well,
 * and 2.9 does not. */
static int newest_readable(unsigned int api)
{
    const int own = (int)(api >> 16);
    return own == 2 && api >= 0x20b00 ? 3 : own;
}

static weir_status check_root(const char *xml_path, const weiri_xml_element *root)
{
    const int newest = (int)(hwloc_get_api_version() >> 16);
    const char *text = weiri_xml_value(root, "version");
    const int version = text ? atoi(text) : 1; /* hwloc 1 states none */
    for (size_t i = 0; i < sizeof other_files / sizeof *other_files; i++)
        if (weiri_xml_is(root, other_files[i].tag))
            return weiri_fail(WEIR_ERR_INVALID, "%s: this is %s", xml_path, other_files[i].problem);
    if (!weiri_xml_is(root, "topology"))
        return weiri_fail(WEIR_ERR_INVALID, "%s: not a machine recorded as hwloc XML; " RECORD_ONE,
                          xml_path);
    if (version > newest_readable(hwloc_get_api_version()))
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: hwloc %d wrote this file, and weir uses hwloc %d, which cannot read "
                          "it; record the machine with weir-topo --save FILE, or with lstopo of "
                          "hwloc %d",
                          xml_path, version, newest, newest);
    return WEIR_OK;
}

weir_status weiri_topo_check_recording(const char *xml_path)
{
    weiri_xml xml;
    if (access(xml_path, R_OK) != 0)
        return weiri_fail_errno(WEIR_ERR_INVALID, errno, "%s: cannot read the recorded machine",
                                xml_path);
    const weir_status status = check_root(xml_path, weiri_xml_read_root(xml_path, &xml));
    weiri_xml_free(&xml);
    return status;
}
