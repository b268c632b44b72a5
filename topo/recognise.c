/*
 * What an XML file is, by its first tag: hwloc's recording, or one of the other files that describe
 * a machine's topology and that users have at hand. hwloc's parsers print to standard error if a
 * file is not XML, so they see only files whose first tag is theirs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/model.h"

enum { HEAD_BYTES = 4096 };

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

/* Skips blanks, comments, and what stands in <? ?> or <! >. Returns the first tag, or NULL. */
static const char *first_tag(const char *text)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    if (strncmp(text, byte_order_mark, 3) == 0)
        text += 3;
    for (;;) {
        text += strspn(text, " \t\r\n");
        if (*text != '<')
            return NULL;
        const char *end = strncmp(text, "<!--", 4) == 0 ? "-->"
                          : strncmp(text, "<?", 2) == 0 ? "?>"
                                                        : ">";
        if (text[1] != '!' && text[1] != '?')
            return text + 1;
        text = strstr(text, end);
        if (!text)
            return NULL;
        text += strlen(end);
    }
}

static int tag_is(const char *tag, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(tag, name, length) == 0 && strchr(" \t\r\n/>", tag[length]);
}

/* The major version of hwloc's file: 1 if it states none. */
static int version_of(const char *tag)
{
    static const char name[] = "version=";
    const char *end = strchr(tag, '>'), *version = strstr(tag, name);
    return end && version && version < end ? atoi(version + sizeof name) : 1; /* after the quote */
}

static weir_status refuse_other(const char *xml_path, const char *tag)
{
    for (size_t i = 0; tag && i < sizeof other_files / sizeof *other_files; i++)
        if (tag_is(tag, other_files[i].tag))
            return weiri_fail(WEIR_ERR_INVALID, "%s: this is %s", xml_path, other_files[i].problem);
    return weiri_fail(WEIR_ERR_INVALID, "%s: not a machine recorded as hwloc XML; " RECORD_ONE,
                      xml_path);
}

/* Reads the begin of a file. Returns 0, or -1 with errno. */
static int read_head(const char *path, char head[HEAD_BYTES + 1])
{
    FILE *file = fopen(path, "r");
    if (!file)
        return -1;
    head[fread(head, 1, HEAD_BYTES, file)] = '\0';
    fclose(file);
    return 0;
}

int weiri_topo_is_nccl_file(const char *path)
{
    char head[HEAD_BYTES + 1];
    const char *tag = read_head(path, head) == 0 ? first_tag(head) : NULL;
    return tag && tag_is(tag, "system");
}

/* The newest version of files that the library reads: hwloc 2.11 reads files of hwloc 3 as well,
 * and 2.9 does not. */
static int newest_readable(unsigned int api)
{
    const int own = (int)(api >> 16);
    return own == 2 && api >= 0x20b00 ? 3 : own;
}

weir_status weiri_topo_check_recording(const char *xml_path)
{
    char head[HEAD_BYTES + 1];
    if (read_head(xml_path, head) != 0)
        return weiri_fail_errno(WEIR_ERR_INVALID, errno, "%s: cannot read the recorded machine",
                                xml_path);
    const char *tag = first_tag(head);
    if (!tag || !tag_is(tag, "topology"))
        return refuse_other(xml_path, tag);
    const int newest = (int)(hwloc_get_api_version() >> 16);
    if (version_of(tag) > newest_readable(hwloc_get_api_version()))
        return weiri_fail(WEIR_ERR_INVALID,
                          "%s: hwloc %d wrote this file, and weir uses hwloc %d, which cannot read "
                          "it; record the machine with weir-topo --save FILE, or with lstopo of "
                          "hwloc %d",
                          xml_path, version_of(tag), newest, newest);
    return WEIR_OK;
}
