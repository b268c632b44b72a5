/* Reading and writing files of measured links, and the bound of weiri_links_floor_us. */
#include "base/links.h"

#include "base/c_locale.h"
#include "base/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

weir_status weiri_links_create(int endpoints, weiri_links **links)
{
    weiri_links *made = calloc(1, sizeof *made);
    size_t pairs = (size_t)endpoints * (size_t)endpoints;
    if (made) {
        made->endpoints = endpoints;
        made->gbs = calloc(pairs, sizeof *made->gbs);
        made->us = calloc(pairs, sizeof *made->us);
    }
    if (!made || !made->gbs || !made->us) {
        weiri_links_free(made);
        return weiri_fail(WEIR_ERR_NO_MEMORY, "no memory for the links of %d endpoints", endpoints);
    }
    *links = made;
    return WEIR_OK;
}

void weiri_links_free(weiri_links *links)
{
    if (!links)
        return;
    free(links->gbs);
    free(links->us);
    free(links);
}

/* ------------------------------------------------------------------- reading */

enum { LINE_BYTES = 256, WORDS = 5 };

typedef struct links_reader {
    const char *path;
    int line;
    char text[LINE_BYTES];
    char *words[WORDS + 1]; /* one more, to detect excess words */
    int nwords;
    char machine[WEIRI_LINKS_WORD_BYTES], backend[WEIRI_LINKS_WORD_BYTES];
    weiri_links *links; /* NULL until the number of endpoints is known */
} links_reader;

static weir_status links_reject(const links_reader *in, const char *expected)
{
    return weiri_fail(WEIR_ERR_INVALID, "%s:%d: expected %s, as weir-topo --measure writes it",
                      in->path, in->line, expected);
}

static void links_split_line(links_reader *in)
{
    char *rest = in->text;
    in->text[strcspn(in->text, "#\r\n")] = '\0';
    in->nwords = 0;
    for (char *word; in->nwords <= WORDS && (word = strsep(&rest, " \t"));)
        if (*word)
            in->words[in->nwords++] = word;
}

/* Parses a number from 0 to most; -1 if it is not one. */
static double links_parse_number(const char *word, double most)
{
    char *end;
    double value = weiri_strtod(word, &end);
    return *end == '\0' && value >= 0 && value <= most ? value : -1;
}

static weir_status links_take_word(const links_reader *in, char *to)
{
    size_t length = strlen(in->words[1]);
    if (length >= WEIRI_LINKS_WORD_BYTES)
        return links_reject(in, "a shorter word");
    memcpy(to, in->words[1], length + 1);
    return WEIR_OK;
}

static weir_status links_take_endpoints(links_reader *in)
{
    double count = links_parse_number(in->words[1], WEIRI_LINKS_ENDPOINTS_MAX);
    if (in->links || count < 1 || count != floor(count))
        return links_reject(in, "endpoints once, 1 to 256");
    return weiri_links_create((int)count, &in->links);
}

static weir_status links_take_pair(links_reader *in)
{
    weiri_links *links = in->links;
    double last = links ? links->endpoints - 1 : -1;
    double from = links_parse_number(in->words[1], last),
           to = links_parse_number(in->words[2], last);
    double gbs = links_parse_number(in->words[3], 1e9), us = links_parse_number(in->words[4], 1e9);
    if (!links || from < 0 || to < 0 || from != floor(from) || to != floor(to) || gbs < 0 || us < 0)
        return links_reject(in, "pair FROM TO GBS US, after endpoints");
    size_t at = (size_t)from * (size_t)links->endpoints + (size_t)to;
    links->gbs[at] = gbs;
    links->us[at] = us;
    return WEIR_OK;
}

static weir_status links_take_together(links_reader *in)
{
    weiri_links *links = in->links;
    double bytes = links_parse_number(in->words[1], 1e15),
           gbs = links_parse_number(in->words[2], 1e9);
    int n = links ? links->nsizes : WEIRI_LINKS_SIZES_MAX;
    if (n == WEIRI_LINKS_SIZES_MAX || !(bytes >= 1) || !(gbs > 0) ||
        (n > 0 && bytes <= links->bytes[n - 1]))
        return links_reject(in, "together BYTES GBS, after endpoints, in order of BYTES");
    links->bytes[n] = bytes;
    links->together_gbs[n] = gbs;
    links->nsizes++;
    return WEIR_OK;
}

static weir_status links_take_line(links_reader *in)
{
    const char *key = in->words[0];
    if (strcmp(key, "machine") == 0 && in->nwords == 2)
        return links_take_word(in, in->machine);
    if (strcmp(key, "backend") == 0 && in->nwords == 2)
        return links_take_word(in, in->backend);
    if (strcmp(key, "endpoints") == 0 && in->nwords == 2)
        return links_take_endpoints(in);
    if (strcmp(key, "pair") == 0 && in->nwords == 5)
        return links_take_pair(in);
    if (strcmp(key, "together") == 0 && in->nwords == 3)
        return links_take_together(in);
    return links_reject(in, "machine, backend, endpoints, pair or together with its values");
}

static weir_status links_read_lines(links_reader *in, FILE *from)
{
    int is_ours = 0;
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && fgets(in->text, sizeof in->text, from)) {
        in->line++;
        if (strlen(in->text) == sizeof in->text - 1)
            return links_reject(in, "a shorter line");
        links_split_line(in);
        if (in->nwords == 0)
            continue;
        if (is_ours)
            status = links_take_line(in);
        else if (in->nwords == 2 && strcmp(in->words[0], "weir-links") == 0 &&
                 strcmp(in->words[1], "1") == 0)
            is_ours = 1;
        else
            return links_reject(in, "'weir-links 1'");
    }
    if (status == WEIR_OK && ferror(from))
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot read %s", in->path);
    if (status == WEIR_OK && (!in->links || in->links->nsizes == 0))
        return links_reject(in, "an endpoints line and at least one together line");
    return status;
}

weir_status weiri_links_read(const char *path, weiri_links **links)
{
    links_reader in = {.path = path};
    FILE *from = fopen(path, "r");
    if (!from)
        return weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "cannot open %s", path);
    weir_status status = links_read_lines(&in, from);
    fclose(from);
    if (status != WEIR_OK) {
        weiri_links_free(in.links);
        return status;
    }
    memcpy(in.links->machine, in.machine, sizeof in.machine);
    memcpy(in.links->backend, in.backend, sizeof in.backend);
    *links = in.links;
    return WEIR_OK;
}

/* ------------------------------------------------------------------- writing */

/* Small numbers keep their digits, since 0 means "not measured". */
void weiri_links_write(const weiri_links *links, FILE *to)
{
    const locale_t before = weiri_c_locale_begin();
    int n = links->endpoints;
    fprintf(to, "weir-links 1\nmachine %s\nbackend %s\nendpoints %d\n", links->machine,
            links->backend, n);
    fprintf(to, "#    from to   GB/s       us\n");
    for (int from = 0; from < n; from++)
        for (int dest = 0; dest < n; dest++)
            if (from != dest)
                fprintf(to, "pair %4d %2d %6.4g %8.4g\n", from, dest, links->gbs[from * n + dest],
                        links->us[from * n + dest]);
    fprintf(to, "#           bytes   GB/s\n");
    for (int i = 0; i < links->nsizes; i++)
        fprintf(to, "together %8.0f %6.4g\n", links->bytes[i], links->together_gbs[i]);
    weiri_c_locale_end(before);
}

int weiri_links_asymmetry(const weiri_links *links, char *text, size_t bytes)
{
    const int n = links->endpoints;
    double worst = 0.75;
    int slow_from = -1, slow_to = -1;
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++) {
            const double gbs = links->gbs[from * n + to], back = links->gbs[to * n + from];
            if (gbs > 0 && back > 0 && gbs / back < worst) {
                worst = gbs / back;
                slow_from = from;
                slow_to = to;
            }
        }
    if (slow_from < 0)
        return 0;
    const locale_t before = weiri_c_locale_begin();
    snprintf(text, bytes, "the link from %d to %d has %.3g GB/s, the one from %d to %d %.3g GB/s",
             slow_from, slow_to, links->gbs[slow_from * n + slow_to], slow_to, slow_from,
             links->gbs[slow_to * n + slow_from]);
    weiri_c_locale_end(before);
    return 1;
}

/* --------------------------------------------------------- the lower bound of time */

static double links_bandwidth(const weiri_links *links, double bytes)
{
    const double *at = links->bytes, *gbs = links->together_gbs;
    int last = links->nsizes - 1, i = 1;
    if (bytes <= at[0])
        return gbs[0];
    if (bytes >= at[last])
        return gbs[last];
    while (at[i] < bytes)
        i++;
    double share = log(bytes / at[i - 1]) / log(at[i] / at[i - 1]);
    return gbs[i - 1] + share * (gbs[i] - gbs[i - 1]);
}

double weiri_links_floor_us(const weiri_links *links, double bytes)
{
    double fastest_us = 0;
    if (links->nsizes == 0)
        return 0;
    for (int i = 0; i < links->endpoints * links->endpoints; i++)
        if (links->us[i] > 0 && (fastest_us <= 0 || links->us[i] < fastest_us))
            fastest_us = links->us[i];
    return fastest_us + bytes / links_bandwidth(links, bytes) * 1e-3;
}
