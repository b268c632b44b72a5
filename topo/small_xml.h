/*
 * The elements of a small XML file, read by Expat, with the line of each for messages; text between
 * elements is skipped. The first refusal stays: readers of values go on with other values, and look
 * at the status once. Internal to this folder.
 */
#ifndef TOPO_SMALL_XML_H
#define TOPO_SMALL_XML_H

#include <stdio.h>

#include <weir/weir.h>

typedef struct weiri_xml_element {
    struct weiri_xml *of;
    const char **words; /* the name; then names and values of attributes; NULL */
    int line;
    struct weiri_xml_element *parent, *child, *next; /* the first child, the next sibling */
} weiri_xml_element;

typedef struct weiri_xml {
    const char *path;            /* borrowed */
    weiri_xml_element *elements; /* in the order of the file; [0] is the root */
    int nelements;
    weir_status status; /* of the first refusal */
} weiri_xml;

/* Reads a file, whose path must live as long as xml, which must not move. The caller frees it, even
 * after an error. WEIR_ERR_INVALID: the file cannot be read, is not well-formed, declares entities
 * or other markup, or has more than 16384 elements; the message has path and line. */
weir_status weiri_xml_read(const char *path, weiri_xml *xml);
/* Reads the root alone, which must end within the first 4096 bytes; the caller frees xml. NULL: the
 * file cannot be read, or does not begin as XML. */
const weiri_xml_element *weiri_xml_read_root(const char *path, weiri_xml *xml);
/* Keeps an error of an element's line, with the path, unless an earlier one is kept; control
 * characters of the file are escaped. Returns WEIR_ERR_INVALID. */
weir_status weiri_xml_refuse(const weiri_xml_element *element, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void weiri_xml_free(weiri_xml *xml);
/* 1 if there is an element, which has this name. */
int weiri_xml_is(const weiri_xml_element *element, const char *name);
/* The value of an attribute; NULL if the element is NULL or has none of this name. */
const char *weiri_xml_value(const weiri_xml_element *element, const char *name);
/* A whole number, decimal or with 0x hexadecimal; fallback if there is none of this name, which is
 * refused if fallback is outside of low to high, as are other values. */
long weiri_xml_number(const weiri_xml_element *element, const char *name, long low, long high,
                      long fallback);
/* The first element of this name at or after element among its siblings; NULL: none. */
const weiri_xml_element *weiri_xml_find(const weiri_xml_element *element, const char *name);
/* The first child of this name; NULL: none. */
const weiri_xml_element *weiri_xml_child(const weiri_xml_element *element, const char *name);
/* Writes an attribute with a blank before it; what XML cannot have in a value is escaped. */
void weiri_xml_put_attribute(FILE *to, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
