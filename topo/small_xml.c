/* Reads a small XML file by Expat: see small_xml.h. */
#define _GNU_SOURCE /* vasprintf */

#include "topo/small_xml.h"

#include <errno.h>
#include <expat.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "programs/xml.h"

/* Expat 2.9 deprecates the old function, and earlier releases have no other. */
#if XML_MAJOR_VERSION > 2 || XML_MINOR_VERSION >= 9
#define XML_GetCurrentLineNumber XML_GetCurrentLineNumber64
#endif

enum { FILE_BYTES_MOST = 16 << 20, HEAD_BYTES = 4096, ELEMENTS_MOST = 16384 };

/* Where the reader is. */
typedef struct xml_reader {
    weiri_xml *xml;
    XML_Parser parser;
    weiri_xml_element *open; /* the innermost element that has not ended */
    weiri_xml_element *last; /* the sibling before the next element */
    weiri_xml_element here;  /* a place for messages */
    int is_head;             /* 1: of the file, only the root counts */
} xml_reader;

weir_status weiri_xml_refuse(const weiri_xml_element *element, const char *format, ...)
{
    char problem[256], shown[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem, sizeof problem, format, arguments);
    va_end(arguments);
    if (!element->of->status)
        element->of->status =
            weiri_fail(WEIR_ERR_INVALID, "%s:%d: %s", element->of->path, element->line,
                       weiri_text_shown(problem, shown, sizeof shown));
    return element->of->status;
}

static const weiri_xml_element *xml_here(xml_reader *reader)
{
    reader->here.of = reader->xml;
    reader->here.line = (int)XML_GetCurrentLineNumber(reader->parser);
    return &reader->here;
}

/* Copies the words of an element into one block. */
static const char **xml_copy(const char *name, const char **attributes)
{
    size_t count = 0, bytes = strlen(name) + 1;
    for (; attributes[count]; count++)
        bytes += strlen(attributes[count]) + 1;
    const char **words = malloc((count + 2) * sizeof *words + bytes);
    char *to = words ? (char *)(words + count + 2) : NULL;
    for (size_t i = 0; words && i <= count; i++) {
        words[i] = to;
        to = stpcpy(to, i ? attributes[i - 1] : name) + 1;
        words[i + 1] = NULL;
    }
    return words;
}

static void xml_start(void *context, const char *name, const char **attributes)
{
    xml_reader *reader = context;
    weiri_xml *xml = reader->xml;
    if (xml->nelements == ELEMENTS_MOST)
        weiri_xml_refuse(xml_here(reader),
                         "more than %d elements; is this a description of one machine?",
                         ELEMENTS_MOST);
    const char **words = xml->status ? NULL : xml_copy(name, attributes);
    if (!words && !xml->status)
        xml->status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %s", xml->path);
    if (!words || reader->is_head)
        XML_StopParser(reader->parser, XML_FALSE);
    if (!words)
        return;
    weiri_xml_element *made = &xml->elements[xml->nelements++];
    *made = *xml_here(reader);
    made->words = words;
    made->parent = reader->open;
    if (reader->last)
        reader->last->next = made;
    else if (reader->open)
        reader->open->child = made;
    reader->open = made;
    reader->last = NULL;
}

/* Expat ends an empty element even after a stop. */
static void xml_end(void *context, const char *name)
{
    xml_reader *reader = context;
    (void)name;
    reader->last = reader->open;
    reader->open = reader->open ? reader->open->parent : NULL;
}

/* Entities and default values would let a short file grow without bound. */
static void xml_doctype(void *context, const char *name, const char *system, const char *public,
                        int has_declarations)
{
    xml_reader *reader = context;
    (void)name, (void)system, (void)public;
    if (!has_declarations)
        return;
    weiri_xml_refuse(xml_here(reader), "declarations in <!DOCTYPE> are not read; remove them");
    XML_StopParser(reader->parser, XML_FALSE);
}

static void xml_parse(xml_reader *reader, const char *text, size_t bytes)
{
    XML_SetUserData(reader->parser, reader);
    XML_SetElementHandler(reader->parser, xml_start, xml_end);
    XML_SetStartDoctypeDeclHandler(reader->parser, xml_doctype);
    if (XML_Parse(reader->parser, text, (int)bytes, !reader->is_head) == XML_STATUS_ERROR) {
        const char *problem = XML_ErrorString(XML_GetErrorCode(reader->parser));
        const weiri_xml_element *open = reader->open;
        weiri_xml_refuse(xml_here(reader), "not XML: %s%s%.40s%s", problem, open ? " within <" : "",
                         open ? open->words[0] : "", open ? ">" : "");
    }
}

static weir_status xml_read(const char *path, weiri_xml *xml, int is_head)
{
    *xml = (weiri_xml){.path = path};
    FILE *file = fopen(path, "re");
    if (!file)
        return weiri_fail_errno(WEIR_ERR_INVALID, errno, "%s: cannot read the file", path);
    xml_reader reader = {.xml = xml, .parser = XML_ParserCreate(NULL), .is_head = is_head};
    char *text = malloc(FILE_BYTES_MOST + 1);
    xml->elements = calloc(ELEMENTS_MOST, sizeof *xml->elements);
    const int is_ready = reader.parser && text && xml->elements;
    const size_t bytes =
        is_ready ? fread(text, 1, is_head ? HEAD_BYTES : FILE_BYTES_MOST + 1, file) : 0;
    if (!is_ready)
        xml->status = weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for %s", path);
    else if (ferror(file))
        xml->status = weiri_fail_errno(WEIR_ERR_INVALID, errno, "%s: cannot read the file", path);
    else if (bytes > FILE_BYTES_MOST)
        xml->status =
            weiri_fail(WEIR_ERR_INVALID, "%s: more than %d MiB", path, FILE_BYTES_MOST >> 20);
    else
        xml_parse(&reader, text, bytes);
    XML_ParserFree(reader.parser);
    free(text);
    fclose(file);
    return xml->status;
}

weir_status weiri_xml_read(const char *path, weiri_xml *xml)
{
    return xml_read(path, xml, 0);
}

const weiri_xml_element *weiri_xml_read_root(const char *path, weiri_xml *xml)
{
    xml_read(path, xml, 1);
    return xml->nelements ? xml->elements : NULL;
}

void weiri_xml_free(weiri_xml *xml)
{
    for (int i = 0; i < xml->nelements; i++)
        free(xml->elements[i].words);
    free(xml->elements);
    *xml = (weiri_xml){0};
}

int weiri_xml_is(const weiri_xml_element *element, const char *name)
{
    return element && strcmp(element->words[0], name) == 0;
}

const char *weiri_xml_value(const weiri_xml_element *element, const char *name)
{
    for (const char **word = element ? element->words + 1 : NULL; word && *word; word += 2)
        if (strcmp(word[0], name) == 0)
            return word[1];
    return NULL;
}

long weiri_xml_number(const weiri_xml_element *element, const char *name, long low, long high,
                      long fallback)
{
    const char *text = weiri_xml_value(element, name);
    char *end = NULL;
    if ((!text || !*text) && fallback >= low && fallback <= high)
        return fallback;
    errno = 0;
    const long number = text ? strtol(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10) : 0;
    if (!text || errno || end == text || *end || number < low || number > high) {
        weiri_xml_refuse(element, "<%.20s %s=\"%.40s\">: expected a number from %ld to %ld",
                         element->words[0], name, text ? text : "", low, high);
        return low;
    }
    return number;
}

const weiri_xml_element *weiri_xml_find(const weiri_xml_element *element, const char *name)
{
    while (element && !weiri_xml_is(element, name))
        element = element->next;
    return element;
}

const weiri_xml_element *weiri_xml_child(const weiri_xml_element *element, const char *name)
{
    return weiri_xml_find(element ? element->child : NULL, name);
}

void weiri_xml_put_attribute(FILE *to, const char *name, const char *format, ...)
{
    char *value = NULL;
    va_list arguments;
    va_start(arguments, format);
    fprintf(to, " %s=\"", name);
    if (vasprintf(&value, format, arguments) >= 0)
        weiri_xml_put(to, value);
    fputc('"', to);
    va_end(arguments);
    free(value);
}
