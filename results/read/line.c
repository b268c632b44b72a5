/* Lines and words of a text that is read. */
#include "results/read/lines.h"

#include <string.h>

char *results_next_line(char **at, const char *end)
{
    char *line = *at;
    if (line >= end)
        return NULL;
    char *stop = memchr(line, '\n', (size_t)(end - line));
    *at = stop ? stop + 1 : line + strlen(line);
    if (!stop) { /* a NUL inside the last line hides its rest */
        *at = line + (end - line);
        return line;
    }
    *stop = '\0';
    if (stop > line && stop[-1] == '\r')
        stop[-1] = '\0';
    return line;
}

int results_split(char *line, char **words, int most)
{
    int count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(line, " \t\r", &rest); word && count < most;
         word = strtok_r(NULL, " \t\r", &rest))
        words[count++] = word;
    return count;
}

int results_is_json_object(const char *text)
{
    text += strspn(text, " \t\r\n");
    return *text == '{' || (*text == '[' && text[1 + strspn(text + 1, " \t\r\n")] == '{');
}

char *results_lines_join(results_set *set, const results_lines *lines)
{
    size_t bytes = 1;
    for (size_t i = 0; i < lines->count; i++)
        bytes += strlen(lines->list[i].text) + 1;
    char *text = results_keep(set, bytes), *to = text;
    for (size_t i = 0; i < lines->count; i++) {
        const size_t length = strlen(lines->list[i].text);
        memcpy(to, lines->list[i].text, length);
        to += length;
        *to++ = '\n';
    }
    *to = '\0';
    return text;
}
