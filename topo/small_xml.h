/*
 * Elements and attributes of a small XML file with the line of each element, for messages; text
 * between elements is skipped. Internal to this folder.
 */
#ifndef TOPO_SMALL_XML_H
#define TOPO_SMALL_XML_H

#include <weir/weir.h>

typedef struct weiri_xml_element {
    const char *name;
    int line;
    int parent, child, next; /* indices: the first child, the next sibling; -1: none */
    int attributes, nattributes;
} weiri_xml_element;

typedef struct weiri_xml {
    const char *path; /* borrowed */
    char *text;
    struct weiri_xml_attribute {
        const char *name, *value;
    } * attributes;
    weiri_xml_element *elements; /* [0] is the root */
    int nelements, nattributes;
} weiri_xml;

/* Reads a file, whose path must live as long as xml. WEIR_ERR_INVALID: the file cannot be read, is
 * not well-formed, or has more than 16384 elements; the message has path and line. */
weir_status weiri_xml_read(const char *path, weiri_xml *xml);
/* Keeps an error of a line, with the path; control characters of the file are escaped. Returns
 * WEIR_ERR_INVALID. */
weir_status weiri_xml_refuse(const weiri_xml *xml, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void weiri_xml_free(weiri_xml *xml);
/* The value of an attribute; NULL if the element has none of this name. */
const char *weiri_xml_value(const weiri_xml *xml, int element, const char *name);
/* The first element of this name at or after element among its siblings; -1: none. */
int weiri_xml_find(const weiri_xml *xml, int element, const char *name);

#endif
