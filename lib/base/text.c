/* Escapes control characters: see text.h. */
#include "base/text.h"

#include <string.h>

enum { ESCAPE_BYTES = 4 };

/* The number of bytes of the control character at text: ASCII's, or one of C1 in UTF-8, which
 * terminals obey too; 0: another character. */
static size_t text_control_bytes(const unsigned char *text)
{
    if (text[0] == 0xc2 && text[1] >= 0x80 && text[1] <= 0x9f)
        return 2;
    return text[0] < 0x20 || text[0] == 0x7f;
}

static size_t text_put_escape(char *to, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    to[0] = '\\';
    to[1] = 'x';
    to[2] = digits[byte >> 4];
    to[3] = digits[byte & 15];
    return ESCAPE_BYTES;
}

/* Returns the length of what was written. */
static size_t text_copy(const char *text, char *to, size_t bytes, int keeps_lines)
{
    const unsigned char *from = (const unsigned char *)text;
    size_t at = 0;
    for (size_t step; *from; from += step) {
        size_t control = text_control_bytes(from);
        int stays = !control || (keeps_lines && (*from == '\n' || *from == '\t'));
        step = control && !stays ? control : 1;
        if (at + (stays ? 1 : step * ESCAPE_BYTES) >= bytes)
            break;
        for (size_t i = 0; i < step; i++)
            if (stays)
                to[at++] = (char)from[i];
            else
                at += text_put_escape(to + at, from[i]);
    }
    to[at] = '\0';
    return at;
}

size_t weiri_text_escape(char *text, size_t bytes)
{
    enum { MOST = 1024 };
    char copy[MOST];
    const unsigned char *c = (const unsigned char *)text;
    while (*c && (!text_control_bytes(c) || *c == '\n' || *c == '\t'))
        c++;
    size_t clean = (size_t)((const char *)c - text);
    if (!*c)
        return clean;
    size_t rest = strlen(text + clean);
    rest = rest < MOST - 1 ? rest : MOST - 1;
    memcpy(copy, text + clean, rest);
    copy[rest] = '\0';
    return clean + text_copy(copy, text + clean, bytes - clean, 1);
}

const char *weiri_text_shown(const char *text, char *shown, size_t bytes)
{
    text_copy(text, shown, bytes, 0);
    return shown;
}

void weiri_text_shorten_list(const char *list, char *text, size_t bytes)
{
    static const char rest[] = "...";
    const size_t length = strlen(list);
    if (length < bytes) {
        memcpy(text, list, length + 1);
        return;
    }
    size_t kept = bytes - sizeof rest;
    while (kept > 0 && list[kept - 1] != ',')
        kept--;
    memcpy(text, list, kept);
    memcpy(text + kept, rest, sizeof rest);
}
