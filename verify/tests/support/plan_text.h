/*
 * A short text form of plans, converted to the JSON that the reader reads. Included by tests.
 *
 *   allreduce 2 i4 o4 s4 inplace double        collective, ranks, chunks, flags
 *   sem 0 1                                    initial values of the next ranks' semaphores
 *   0.1                                        rank 0, thread block 1; its operations follow
 *   put i0+2 > 1:s4+2 @m1                      sources > destinations; 1: is of rank 1
 *   glres g0s0+1 > g0s0+1                      g: the switch channel of all ranks
 *   signal @m1 m2/1                            memory channel to rank 1; the second to rank 2
 *   barrier #0/2                               id, thread blocks
 *   sem_acquire $0 1
 *   copy i0+2 > s0+2 %0/2                      part 0 of 2
 *   pipeline 1024*2                            unit, chunks; its operations follow, until
 *   end
 *
 * Every rank has two memory channels and one port channel to each other rank, a switch channel over
 * each of its buffers, and access to all ranks' buffers.
 */
#ifndef VERIFY_TESTS_SUPPORT_PLAN_TEXT_H
#define VERIFY_TESTS_SUPPORT_PLAN_TEXT_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct plan_text {
    char *json;
    size_t used, room;
    char collective[32];
    int nranks, inplace, doubled;
    int chunks[3];
    char semaphores[256];
    int rank, block; /* that are open; -1 */
    int op_written, in_body;
} plan_text;

__attribute__((format(printf, 2, 3))) static void put_text(plan_text *to, const char *format, ...)
{
    va_list arguments;
    for (;;) {
        va_start(arguments, format);
        int wrote = vsnprintf(to->json + to->used, to->room - to->used, format, arguments);
        va_end(arguments);
        if ((size_t)wrote < to->room - to->used) {
            to->used += (size_t)wrote;
            return;
        }
        to->room = 2 * to->room + (size_t)wrote + 64;
        to->json = realloc(to->json, to->room);
        if (!to->json)
            abort();
    }
}

enum { TEXT_LINKS = 2 /* memory channels to each rank */, TEXT_WORDS = 128 /* of a line */ };

static int peer_place(const plan_text *to, int peer)
{
    (void)to;
    return peer < to->rank ? peer : peer - 1;
}

static void put_list(plan_text *to, int times)
{
    const char *comma = "";
    for (int t = 0; t < times; t++)
        for (int peer = 0; peer < to->nranks; peer++)
            if (peer != to->rank) {
                put_text(to, "%s%d", comma, peer);
                comma = ",";
            }
}

static void put_count(plan_text *to, int count)
{
    for (int i = 0; i < count; i++)
        put_text(to, i ? ",%d" : "%d", i);
}

static void open_rank(plan_text *to, int rank)
{
    static const char letters[] = "ios";
    to->rank = rank;
    put_text(to, "%s{\"id\":%d,\"input_chunks\":%d,\"output_chunks\":%d,\"scratch_chunks\":%d,",
             rank ? "," : "", rank, to->chunks[0], to->chunks[1], to->chunks[2]);
    put_text(to, "\"channels\":[{\"channel_type\":\"memory\",\"connected_to\":[");
    put_list(to, TEXT_LINKS);
    put_text(to, "]},{\"channel_type\":\"port\",\"connected_to\":[");
    put_list(to, 1);
    put_text(to, "]}");
    for (int b = 0; b < 3; b++) {
        put_text(to,
                 ",{\"channel_type\":\"switch\",\"buffer_type\":\"%c\",\"rank_groups\":"
                 "[{\"size\":1,\"ranks\":[",
                 letters[b]);
        put_count(to, to->nranks);
        put_text(to, "]}]}");
    }
    put_text(to, "],\"remote_buffers\":[");
    const char *comma = "";
    for (int peer = 0; peer < to->nranks; peer++)
        for (int b = 0; b < 3 && peer != rank; b++) {
            put_text(to,
                     "%s{\"rank\":%d,\"type\":\"%c\",\"access_channel_types\":[\"memory\","
                     "\"port\"]}",
                     comma, peer, letters[b]);
            comma = ",";
        }
    put_text(to, "],\"semaphores\":[%s],\"threadblocks\":[", to->semaphores);
    to->block = -1;
}

static void close_block(plan_text *to)
{
    if (to->block >= 0)
        put_text(to, "]}");
    to->block = -1;
}

static void open_block(plan_text *to, int rank, int block)
{
    static const char *const types[] = {"memory", "port", "switch"};
    close_block(to);
    while (to->rank < rank) {
        if (to->rank >= 0)
            put_text(to, "]}");
        open_rank(to, to->rank + 1);
    }
    int counts[] = {TEXT_LINKS * (to->nranks - 1), to->nranks - 1, 3};
    put_text(to, "%s{\"id\":%d,\"channels\":[", block ? "," : "", block);
    for (int i = 0; i < 3; i++) {
        put_text(to, "%s{\"channel_type\":\"%s\",\"channel_ids\":[", i ? "," : "", types[i]);
        put_count(to, counts[i]);
        put_text(to, "]}");
    }
    put_text(to, "],\"remote_buffer_refs\":[");
    for (int i = 0; i < 2; i++) {
        put_text(to, "%s{\"access_channel_type\":\"%s\",\"remote_buffer_ids\":[", i ? "," : "",
                 types[i]);
        put_count(to, 3 * (to->nranks - 1));
        put_text(to, "]}");
    }
    put_text(to, "],\"ops\":[");
    to->block = block;
    to->op_written = 0;
}

static int buffer_number(char letter)
{
    return letter == 'i' ? 0 : letter == 'o' ? 1 : 2;
}

static void put_ref(plan_text *to, const char *word)
{
    int peer, group;
    unsigned index, size;
    char letter;
    if (sscanf(word, "g%d%c%u+%u", &group, &letter, &index, &size) == 4)
        put_text(to, "{\"switch_channel_id\":%d,\"index\":%u,\"size\":%u}", buffer_number(letter),
                 index, size);
    else if (sscanf(word, "%d:%c%u+%u", &peer, &letter, &index, &size) == 4)
        put_text(to, "{\"buffer_id\":%d,\"index\":%u,\"size\":%u}",
                 3 * peer_place(to, peer) + buffer_number(letter), index, size);
    else if (sscanf(word, "%c%u+%u", &letter, &index, &size) == 3)
        put_text(to, "{\"type\":\"%c\",\"index\":%u,\"size\":%u}", letter, index, size);
}

/* "m1/1" or "p2": a channel's id and its type's letter. */
static int channel_number(const plan_text *to, const char *word)
{
    int peer = 0, ordinal = 0;
    sscanf(word + 1, "%d/%d", &peer, &ordinal);
    return word[0] == 'g' ? peer : ordinal * (to->nranks - 1) + peer_place(to, peer);
}

/* Lists of an operation: the text from a mark to the next mark. */
static void put_words(plan_text *to, char **words, int count, char mark)
{
    static const char marks[] = ">@$#%*";
    char now = '<';
    const char *comma = "";
    for (int i = 1; i < count; i++) {
        const char *word = words[i];
        if (strchr(marks, word[0])) {
            now = word[0];
            word++;
        }
        if (now != mark || !*word)
            continue;
        put_text(to, "%s", comma);
        comma = ",";
        if (mark == '<' || mark == '>')
            put_ref(to, word);
        else if (mark == '@')
            put_text(to, "%d", channel_number(to, word));
        else
            put_text(to, "%s", word);
    }
}

/* Operations whose channel is only a type, unless channels are given. */
static int needs_type(const char *name)
{
    static const char *const names = " put get res rre rres ppkt rppkt respkt recspkt glre glres "
                                     "gstore gstorepkt ";
    const char *found = strstr(names, name);
    return found && found[-1] == ' ' && found[strlen(name)] == ' ';
}

static void put_op(plan_text *to, char **words, int count)
{
    unsigned a, b;
    unsigned long long unit;
    char channels[2] = "";
    for (int i = 1; i < count; i++)
        channels[0] = words[i][0] == '@' ? '@' : channels[0];
    if (strcmp(words[0], "end") == 0) {
        put_text(to, "]}");
        to->op_written = 1;
        return;
    }
    put_text(to, "%s{\"name\":\"%s\",\"src_buff\":[", to->op_written ? "," : "", words[0]);
    put_words(to, words, count, '<');
    put_text(to, "],\"dst_buff\":[");
    put_words(to, words, count, '>');
    put_text(to, "]");
    if (!strchr(channels, '@') && needs_type(words[0]))
        put_text(to, ",\"channel_type\":\"%s\"",
                 words[0][0] == 'g' && words[0][1] != 'e' ? "switch" : "memory");
    for (int i = 1; i < count; i++) {
        if (words[i][0] == '@')
            put_text(to, ",\"channel_type\":\"%s\"",
                     words[i][1] == 'm'   ? "memory"
                     : words[i][1] == 'p' ? "port"
                                          : "switch");
        if (words[i][0] == '@' || words[i][0] == '$') {
            put_text(to, ",\"%s\":[", words[i][0] == '@' ? "channel_ids" : "semaphore_ids");
            put_words(to, words, count, words[i][0]);
            put_text(to, "]");
        }
        if (sscanf(words[i], "#%u/%u", &a, &b) == 2)
            put_text(to, ",\"barrier_id\":%u,\"num_threadblocks\":%u", a, b);
        if (sscanf(words[i], "%%%u/%u", &a, &b) == 2)
            put_text(to, ",\"tbg_info\":{\"tb_id\":%u,\"tbg_size\":%u}", a, b);
        if (sscanf(words[i], "%llu*%u", &unit, &a) == 2)
            put_text(to, ",\"iter_context\":{\"unit_size\":%llu,\"num_chunks\":%u},\"ops\":[", unit,
                     a);
    }
    int is_loop = strcmp(words[0], "pipeline") == 0;
    if (!is_loop)
        put_text(to, "}");
    to->op_written = !is_loop;
}

static void put_head(plan_text *to, char **words, int count)
{
    snprintf(to->collective, sizeof to->collective, "%s", words[0]);
    to->nranks = atoi(words[1]);
    for (int i = 2; i < count; i++)
        if (strcmp(words[i], "inplace") == 0)
            to->inplace = 1;
        else if (strcmp(words[i], "double") == 0)
            to->doubled = 1;
        else
            to->chunks[buffer_number(words[i][0])] = atoi(words[i] + 1);
    put_text(to,
             "{\"name\":\"test\",\"collective\":\"%s\",\"inplace\":%s,"
             "\"use_double_scratch_buffer\":%s,\"gpus\":[",
             to->collective, to->inplace ? "true" : "false", to->doubled ? "true" : "false");
}

static void put_line(plan_text *to, char **words, int count)
{
    int rank, block;
    char rest;
    if (to->nranks == 0) {
        put_head(to, words, count);
    } else if (strcmp(words[0], "sem") == 0) {
        to->semaphores[0] = 0;
        for (int i = 1; i < count; i++)
            snprintf(to->semaphores + strlen(to->semaphores),
                     sizeof to->semaphores - strlen(to->semaphores), "%s{\"init_value\":%s}",
                     i > 1 ? "," : "", words[i]);
    } else if (count == 1 && sscanf(words[0], "%d.%d%c", &rank, &block, &rest) == 2) {
        open_block(to, rank, block);
    } else {
        put_op(to, words, count);
    }
}

/* The JSON of a text; free it. Lines end with a new line or a semicolon. */
static char *plan_json(const char *text)
{
    plan_text to = {.rank = -1, .block = -1};
    char *copy = strdup(text), *line_state, *word_state;
    put_text(&to, "%s", "");
    for (char *line = strtok_r(copy, "\n;", &line_state); line;
         line = strtok_r(NULL, "\n;", &line_state)) {
        char *words[TEXT_WORDS];
        int count = 0;
        for (char *word = strtok_r(line, " ", &word_state); word && count < TEXT_WORDS;
             word = strtok_r(NULL, " ", &word_state))
            words[count++] = word;
        if (count)
            put_line(&to, words, count);
    }
    close_block(&to);
    while (to.rank < to.nranks - 1) {
        if (to.rank >= 0)
            put_text(&to, "]}");
        open_rank(&to, to.rank + 1);
    }
    put_text(&to, "]}]}");
    free(copy);
    return to.json;
}

#endif
