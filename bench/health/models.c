/* Rules by hardware model: models.txt, which is compiled into the program, or a file. */
#include "base/error.h"
#include "bench/health/expect.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* The file as a string. The path is relative to the top folder. */
__asm__(".pushsection .rodata\nweiri_health_models:\n.incbin \"bench/health/models.txt\"\n"
        ".byte 0\n.popsection\n");
extern const char weiri_health_models[] __attribute__((visibility("hidden")));

/* What a rule's MODEL is compared with. */
typedef enum model_kind { MODEL_GPU, MODEL_CPU, MODEL_NIC, MODEL_KINDS } model_kind;
static const char *const model_words[MODEL_KINDS] = {"gpu ", "cpu ", "nic "};

typedef struct model_rule {
    model_kind kind;
    char model[96], check[HEALTH_ID_BYTES], source[HEALTH_TEXT_BYTES];
    health_relation relation;
    double value;
} model_rule;

/* Copies a field up to the next '|' without surrounding blanks. Returns what follows, or NULL if
 * the field is empty or too long. */
static const char *models_field(const char *at, char *field, size_t bytes)
{
    size_t length = strcspn(at, "|");
    const char *next = at[length] ? at + length + 1 : at + length;
    while (length && (*at == ' ' || *at == '\t')) {
        at++;
        length--;
    }
    while (length && strchr(" \t\r", at[length - 1]))
        length--;
    if (length == 0 || length >= bytes)
        return NULL;
    memcpy(field, at, length);
    field[length] = '\0';
    return next;
}

static int models_relation(const char *text, model_rule *rule)
{
    char word[3], rest;
    if (sscanf(text, "%2[<>=] %lf %c", word, &rule->value, &rest) != 2)
        return -1;
    rule->relation = strcmp(word, ">=") == 0   ? HEALTH_AT_LEAST
                     : strcmp(word, "<=") == 0 ? HEALTH_AT_MOST
                     : strcmp(word, "=") == 0  ? HEALTH_EQUAL
                                               : HEALTH_ANY;
    return rule->relation == HEALTH_ANY ? -1 : 0;
}

/* Parses a line. Returns 0, or -1 if it is malformed. */
static int models_parse(const char *line, model_rule *rule)
{
    char device[128], relation[64];
    const char *at = models_field(line, device, sizeof device);
    at = at ? models_field(at, rule->check, sizeof rule->check) : NULL;
    at = at ? models_field(at, relation, sizeof relation) : NULL;
    at = at ? models_field(at, rule->source, sizeof rule->source) : NULL;
    rule->kind = MODEL_GPU;
    while (rule->kind < MODEL_KINDS && strncmp(device, model_words[rule->kind], 4) != 0)
        rule->kind++;
    if (!at || *at || rule->kind == MODEL_KINDS)
        return -1;
    snprintf(rule->model, sizeof rule->model, "%.95s", device + 4);
    return models_relation(relation, rule);
}

static void models_apply_rule(const model_rule *rule, health_report *report)
{
    const char *model = rule->kind == MODEL_GPU ? report->gpu_model : report->cpu_model;
    for (size_t i = 0; i < report->count; i++) {
        health_check *check = &report->checks[i];
        if (strstr(rule->kind == MODEL_NIC ? check->device : model, rule->model) &&
            check->relation == HEALTH_ANY && fnmatch(rule->check, check->id, 0) == 0)
            health_expect(check, rule->relation, rule->value,
                          rule->relation == HEALTH_EQUAL ? HEALTH_MISSING : HEALTH_SLOW,
                          rule->source);
    }
}

static weir_status models_apply_text(const char *text, const char *name, health_report *report)
{
    char line[512];
    for (int number = 1; *text; number++) {
        const size_t length = strcspn(text, "\n");
        model_rule rule;
        snprintf(line, sizeof line, "%.*s", (int)length, text);
        text += length + (text[length] == '\n');
        const char *first = line + strspn(line, " \t\r");
        if (*first == '\0' || *first == '#')
            continue;
        if (length >= sizeof line || models_parse(line, &rule) != 0)
            return weiri_fail(
                WEIR_ERR_INVALID,
                "%s:%d: expected \"gpu|cpu|nic MODEL | CHECK | >=, <= or = VALUE | source\"", name,
                number);
        models_apply_rule(&rule, report);
    }
    return WEIR_OK;
}

weir_status health_models_apply(const char *path, health_report *report)
{
    enum { MOST = 1 << 20 };
    if (!path)
        return models_apply_text(weiri_health_models, "models.txt", report);
    FILE *file = fopen(path, "r");
    char *text = file ? calloc(1, MOST + 1) : NULL;
    const size_t bytes = text ? fread(text, 1, MOST, file) : 0;
    weir_status status = WEIR_OK;
    if (!file || !text || ferror(file))
        status = weiri_fail_errno(WEIR_ERR_SYSTEM, errno, "--models %s", path);
    else if (bytes == MOST || memchr(text, '\0', bytes))
        status = weiri_fail(WEIR_ERR_INVALID, "--models %s: not a file of rules", path);
    else
        status = models_apply_text(text, path, report);
    free(text);
    if (file)
        fclose(file);
    return status;
}
