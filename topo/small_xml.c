/* Reads a small XML file in one pass over its text, which it cuts into names and values. */
#include "topo/small_xml.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

enum { FILE_BYTES_MOST = 16 << 20, ELEMENTS_MOST = 16384, ATTRIBUTES_MOST = 1 << 18 };

static const char blanks[] = " \t\r\n";
static const char name_ends[] = " \t\r\n=/><\"'";

/* Where the reader is. */
typedef struct xml_reader {
    weiri_xml *xml;
    char *at;
    int line;
    int open; /* the innermost element that has not ended; -1: none */
    int last; /* the sibling before the next element; -1: none */
} xml_reader;

#define xml_refuse(reader, ...) weiri_xml_refuse((reader)->xml, (reader)->line, __VA_ARGS__)

weir_status weiri_xml_refuse(const weiri_xml *xml, int line, const char *format, ...)
{
    char problem[256], shown[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem, sizeof problem, format, arguments);
    va_end(arguments);
    return weiri_fail(WEIR_ERR_INVALID, "%s:%d: %s", xml->path, line,
                      weiri_text_shown(problem, shown, sizeof shown));
}

static void xml_advance(xml_reader *reader, size_t bytes)
{
    for (const char *end = reader->at + bytes; reader->at < end; reader->at++)
        reader->line += *reader->at == '\n';
}

static void xml_skip_blanks(xml_reader *reader)
{
    xml_advance(reader, strspn(reader->at, blanks));
}

/* Skips to the end of the next `mark`. */
static weir_status xml_skip_past(xml_reader *reader, const char *mark)
{
    const char *found = strstr(reader->at, mark);
    if (!found)
        return xml_refuse(reader, "no \"%s\" ends what begins here", mark);
    xml_advance(reader, (size_t)(found - reader->at) + strlen(mark));
    return WEIR_OK;
}

static weir_status xml_read_attribute(xml_reader *reader)
{
    weiri_xml *xml = reader->xml;
    char *name = reader->at;
    const size_t length = strcspn(name, name_ends);
    xml_advance(reader, length);
    char *name_end = reader->at;
    xml_skip_blanks(reader);
    if (length == 0 || *reader->at != '=')
        return xml_refuse(reader, "expected name=\"value\" in <%s>",
                          xml->elements[xml->nelements - 1].name);
    xml_advance(reader, 1);
    xml_skip_blanks(reader);
    const char quote = *reader->at;
    char *value = reader->at + 1;
    char *value_end = quote == '"' || quote == '\'' ? strchr(value, quote) : NULL;
    *name_end = '\0';
    if (!value_end)
        return xml_refuse(reader, "the value of %s has no quotes around it", name);
    if (xml->nattributes == ATTRIBUTES_MOST)
        return xml_refuse(reader, "more than %d attributes", ATTRIBUTES_MOST);
    xml_advance(reader, (size_t)(value_end - reader->at) + 1);
    *value_end = '\0';
    xml->attributes[xml->nattributes++] = (struct weiri_xml_attribute){name, value};
    xml->elements[xml->nelements - 1].nattributes++;
    return WEIR_OK;
}

/* Adds an element, whose name ends at a character that is read next. */
static weir_status xml_add_element(xml_reader *reader, const char *name)
{
    weiri_xml *xml = reader->xml;
    if (xml->nelements == ELEMENTS_MOST)
        return xml_refuse(reader, "more than %d elements; is this a description of one machine?",
                          ELEMENTS_MOST);
    if (reader->open < 0 && xml->nelements > 0)
        return xml_refuse(reader, "a second element after the end of <%s>", xml->elements[0].name);
    const int made = xml->nelements++;
    xml->elements[made] =
        (weiri_xml_element){name, reader->line, reader->open, -1, -1, xml->nattributes, 0};
    if (reader->last >= 0)
        xml->elements[reader->last].next = made;
    else if (reader->open >= 0)
        xml->elements[reader->open].child = made;
    reader->open = made;
    reader->last = -1;
    return WEIR_OK;
}

static void xml_close_element(xml_reader *reader)
{
    reader->last = reader->open;
    reader->open = reader->xml->elements[reader->open].parent;
}

static weir_status xml_read_start(xml_reader *reader)
{
    char *name = ++reader->at;
    const size_t length = strcspn(name, name_ends);
    if (length == 0)
        return xml_refuse(reader, "expected the name of an element after \"<\"");
    weir_status status = xml_add_element(reader, name);
    const int element = reader->xml->nelements - 1;
    if (!status && !strchr(" \t\r\n/>", name[length]))
        status = xml_refuse(reader, "expected a blank after <%.*s",
                            (int)(length < 40 ? length : 40), name);
    char *name_end = name + length;
    xml_advance(reader, length);
    if (!status && strchr(blanks, *name_end) && *name_end) {
        xml_advance(reader, 1);
        *name_end = '\0';
    }
    for (xml_skip_blanks(reader); !status && *reader->at && !strchr("/>", *reader->at);
         xml_skip_blanks(reader))
        status = xml_read_attribute(reader);
    if (status)
        return status;
    const int is_empty = *reader->at == '/';
    const char *end = is_empty ? "/>" : ">";
    const int ends = strncmp(reader->at, end, strlen(end)) == 0;
    if (ends)
        reader->at += strlen(end);
    *name_end = '\0';
    if (!ends)
        return xml_refuse(reader, "<%.40s> has no end", reader->xml->elements[element].name);
    if (is_empty)
        xml_close_element(reader);
    return WEIR_OK;
}

static weir_status xml_read_end(xml_reader *reader)
{
    const char *name = reader->at + 2;
    const size_t length = strcspn(name, name_ends);
    const char *open = reader->open >= 0 ? reader->xml->elements[reader->open].name : "";
    if (length == 0 || strlen(open) != length || strncmp(open, name, length) != 0)
        return xml_refuse(reader, "</%.*s> ends no element that is open%s%.40s%s",
                          (int)(length < 40 ? length : 40), name, *open ? ": expected </" : "",
                          open, *open ? ">" : "");
    xml_close_element(reader);
    return xml_skip_past(reader, ">");
}

static weir_status xml_read_all(xml_reader *reader)
{
    weir_status status = WEIR_OK;
    if (strncmp(reader->at, "\xef\xbb\xbf", 3) == 0) /* a byte order mark */
        reader->at += 3;
    xml_skip_blanks(reader);
    if (*reader->at != '<')
        return xml_refuse(reader, "not XML: expected \"<\"");
    while (!status && *reader->at) {
        xml_advance(reader, strcspn(reader->at, "<"));
        if (strncmp(reader->at, "<!--", 4) == 0)
            status = xml_skip_past(reader, "-->");
        else if (strncmp(reader->at, "<?", 2) == 0)
            status = xml_skip_past(reader, "?>");
        else if (strncmp(reader->at, "<!", 2) == 0)
            status = xml_skip_past(reader, ">");
        else if (strncmp(reader->at, "</", 2) == 0)
            status = xml_read_end(reader);
        else if (*reader->at)
            status = xml_read_start(reader);
    }
    if (!status && reader->open >= 0)
        return xml_refuse(reader, "the file ends within <%.40s> of line %d",
                          reader->xml->elements[reader->open].name,
                          reader->xml->elements[reader->open].line);
    if (!status && reader->xml->nelements == 0)
        return xml_refuse(reader, "the file has no element");
    return status;
}

static weir_status xml_load_text(const char *path, char **text)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return weiri_fail_errno(WEIR_ERR_INVALID, errno, "%s: cannot read the file", path);
    *text = calloc(1, FILE_BYTES_MOST + 1);
    const size_t bytes = *text ? fread(*text, 1, FILE_BYTES_MOST, file) : 0;
    const int failed = ferror(file), error = errno, has_more = fgetc(file) != EOF;
    fclose(file);
    if (!*text)
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %s", path);
    if (failed)
        return weiri_fail_errno(WEIR_ERR_INVALID, error, "%s: cannot read the file", path);
    if (has_more)
        return weiri_fail(WEIR_ERR_INVALID, "%s: more than %d MiB", path, FILE_BYTES_MOST >> 20);
    if (memchr(*text, '\0', bytes))
        return weiri_fail(WEIR_ERR_INVALID, "%s:1: not XML: the file has zero bytes", path);
    return WEIR_OK;
}

weir_status weiri_xml_read(const char *path, weiri_xml *xml)
{
    *xml = (weiri_xml){.path = path};
    weir_status status = xml_load_text(path, &xml->text);
    xml->elements = calloc(ELEMENTS_MOST, sizeof *xml->elements);
    xml->attributes = calloc(ATTRIBUTES_MOST, sizeof *xml->attributes);
    if (!status && (!xml->elements || !xml->attributes))
        status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the elements of %s", path);
    if (!status)
        status = xml_read_all(&(xml_reader){xml, xml->text, 1, -1, -1});
    if (status)
        weiri_xml_free(xml);
    return status;
}

void weiri_xml_free(weiri_xml *xml)
{
    free(xml->attributes);
    free(xml->elements);
    free(xml->text);
    *xml = (weiri_xml){0};
}

const char *weiri_xml_value(const weiri_xml *xml, int element, const char *name)
{
    const weiri_xml_element *of = &xml->elements[element];
    for (int i = of->attributes; i < of->attributes + of->nattributes; i++)
        if (strcmp(xml->attributes[i].name, name) == 0)
            return xml->attributes[i].value;
    return NULL;
}

int weiri_xml_find(const weiri_xml *xml, int element, const char *name)
{
    while (element >= 0 && strcmp(xml->elements[element].name, name) != 0)
        element = xml->elements[element].next;
    return element;
}
