/*
 * Logs whose lines are members of JSON objects, as container runtimes, journald and log services
 * write them: {"log":"...\n","stream":"stdout"}, {"MESSAGE":"..."}, {"message":"..."}. Each object
 * becomes the line that it contains; a text without a line end is continued by the next one of
 * its source.
 */
#include "results/read/lines.h"

#include <jansson.h>
#include <string.h>

static const char *text_of(const json_t *object)
{
    static const char *const keys[] = {"log", "message", "MESSAGE", "msg", "line", "textPayload"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *text = json_string_value(json_object_get(object, keys[i]));
        if (text)
            return text;
    }
    return NULL;
}

/* Adds the lines of one object's text. Returns whether the text ended with a line end. */
static int add_texts(results_set *set, results_lines *made, size_t room, const char *text,
                     int number)
{
    while (*text) {
        const size_t length = strcspn(text, "\r\n");
        if (made->count < room)
            made->list[made->count++] =
                (results_line){results_keep_text(set, text, length), number, 0, made->count - 1};
        text += length;
        if (!*text)
            return 0;
        text += strspn(text, "\r");
        text += *text == '\n';
    }
    return 1;
}

/* Appends a text to the last line, which an earlier object has begun. */
static const char *join(results_set *set, results_lines *made, const char *text)
{
    results_line *last = &made->list[made->count - 1];
    const size_t length = strcspn(text, "\r\n");
    last->text = results_keep_printed(set, "%s%.*s", last->text, (int)length, text);
    return text + length + strspn(text + length, "\r\n");
}

/* How many lines the objects make at most. */
static size_t count_ends(const json_t *objects)
{
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(objects); i++) {
        const char *text = text_of(json_array_get(objects, i));
        for (count++; text && *text; text++)
            count += *text == '\n' || *text == '\r';
    }
    return count;
}

/* Docker splits lines of more than 16 KiB, the only ones without an end among others that have one.
 */
static void unwrap(results_set *set, const json_t *objects, results_lines *made)
{
    const size_t count = json_array_size(objects), room = count_ends(objects);
    int have_ends = 0, is_open = 0;
    for (size_t i = 0; i < count; i++) {
        const char *text = text_of(json_array_get(objects, i));
        have_ends |= text && strchr(text, '\n') != NULL;
    }
    *made = (results_lines){
        .list = results_keep(set, (room + 1) * sizeof *made->list), .sources = 1, .changed = 1};
    for (size_t i = 0; i < count; i++) {
        const json_t *object = json_array_get(objects, i);
        const char *text = text_of(object);
        if (!text)
            continue;
        if (is_open && made->count > 0)
            text = join(set, made, text);
        is_open = !add_texts(set, made, room, text, (int)i + 1) && have_ends;
    }
}

/* The list of a whole document: itself, or a member `events` or `entries`. */
static json_t *list_of(json_t *document)
{
    json_t *events = json_object_get(document, "events");
    if (!events)
        events = json_object_get(document, "entries");
    return json_is_array(document) ? document : events;
}

static json_t *read_objects(const results_lines *lines)
{
    json_t *objects = json_array();
    for (size_t i = 0; i < lines->count; i++) {
        json_t *one =
            lines->list[i].text[0] == '{' ? json_loads(lines->list[i].text, 0, NULL) : NULL;
        json_array_append_new(objects, one ? one : json_null());
    }
    return objects;
}

void results_lines_unwrap(results_set *set, const results_input *input, results_lines *lines)
{
    json_t *document = NULL, *list = NULL;
    const char *start = lines->count ? lines->list[0].text : "";
    (void)input;
    if (start[0] != '{' && start[0] != '[')
        return;
    if (start[0] == '{') {
        json_t *first = json_loads(start, 0, NULL);
        if (first && text_of(first) && !json_object_get(first, "size"))
            document = list = read_objects(lines);
        json_decref(first);
    }
    if (!document) {
        char *whole = results_lines_join(set, lines);
        document = json_loads(whole, 0, NULL);
        list = list_of(document);
    }
    if (list && json_array_size(list) > 0 && text_of(json_array_get(list, 0)) &&
        !json_object_get(json_array_get(list, 0), "size"))
        unwrap(set, list, lines);
    json_decref(document);
}
