/* From the bytes of a log to its lines: see lines.h. */
#include "results/read/lines.h"

#include <string.h>

/* UTF-16 with a byte order mark, as PowerShell's redirection writes it. Other characters than
 * ASCII's become '?'. */
static void narrow(results_input *input)
{
    unsigned char *text = (unsigned char *)input->text;
    const int is_little = input->length >= 2 && text[0] == 0xff && text[1] == 0xfe;
    if (!is_little && !(input->length >= 2 && text[0] == 0xfe && text[1] == 0xff))
        return;
    size_t length = 0;
    for (size_t at = 2; at + 1 < input->length; at += 2) {
        const unsigned low = text[at + !is_little], high = text[at + is_little];
        text[length++] = high || low > 126 ? '?' : (unsigned char)low;
    }
    text[length] = '\0';
    input->length = length;
}

/* The end of the terminal's sequence that begins at the escape character. */
static char *sequence_end(char *at)
{
    at++;
    if (*at == '[') { /* parameters, intermediate bytes, and one final byte */
        at += 1 + strspn(at + 1, "0123456789:;<=>? !\"#$%&'()*+,-./");
        return *at ? at + 1 : at;
    }
    if (*at == ']' || *at == 'P' || *at == '_') { /* up to BEL or ESC \ */
        at += strcspn(at, "\a\033\n");
        return *at == '\a' ? at + 1 : *at == '\033' && at[1] == '\\' ? at + 2 : at;
    }
    if (*at == '(' || *at == ')')
        at++;
    return *at && *at != '\n' ? at + 1 : at;
}

/* Removes terminals' sequences and control characters. */
static int remove_controls(results_input *input)
{
    char *to = memchr(input->text, '\033', input->length);
    if (!to)
        return 0;
    for (char *at = to, *end = input->text + input->length; at < end;) {
        if (*at == '\033') {
            at = sequence_end(at);
        } else {
            if ((unsigned char)*at >= ' ' || strchr("\t\r\n", *at))
                *to++ = *at;
            at++;
        }
    }
    *to = '\0';
    input->length = (size_t)(to - input->text);
    return 1;
}

void results_narrow(results_input *input)
{
    narrow(input);
    if (strncmp(input->text, "\xef\xbb\xbf", 3) == 0) {
        input->text += 3;
        input->length -= 3;
    }
}

/* A carriage return inside a line begins it again, as progress does on a terminal. */
static char *last_overwrite(char *line)
{
    for (char *at; (at = strchr(line, '\r')) != NULL;) {
        if (!at[strspn(at, "\r")]) {
            *at = '\0';
            break;
        }
        line = at + 1;
    }
    return line;
}

static void split(results_set *set, results_input *input, results_lines *made)
{
    char *at = input->text, *end = input->text + input->length, *line;
    size_t room = 1;
    for (char *next = at; (next = memchr(next, '\n', (size_t)(end - next))) != NULL; next++)
        room++;
    made->list = results_keep(set, room * sizeof *made->list);
    while ((line = results_next_line(&at, end))) {
        made->list[made->count] =
            (results_line){last_overwrite(line), (int)made->count + 1, 0, made->count};
        made->count++;
    }
}

void results_lines_make(results_set *set, results_input *input, results_lines *made)
{
    *made = (results_lines){.sources = 1};
    made->changed = remove_controls(input);
    split(set, input, made);
    results_lines_unwrap(set, input, made);
    results_lines_unfold(set, made);
    results_lines_strip(set, made);
}
