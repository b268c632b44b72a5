/* What is wrong with the source of a kernel, and with the parameter of a launch. */
#include "algo/kernel.h"

#include "base/error.h"
#include "base/log.h"
#include <weir/kernel.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Rewrites "file(3): error" (NVRTC) as "file:3: error" (cc), in place. */
static void diagnostic_use_colons(char *line)
{
    char *open = strstr(line, "): error");
    char *digits = open;
    while (digits && digits > line && isdigit((unsigned char)digits[-1]))
        digits--;
    if (!digits || digits == open || digits == line || digits[-1] != '(')
        return;
    digits[-1] = ':';
    memmove(open, open + 1, strlen(open));
}

weir_status weiri_kernel_refuse_source(const weiri_kernel_job *job, const char *output)
{
    static const char *const words[] = {"undefined reference", "error:", "error"};
    char line[400];
    const char *chosen = NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words && !chosen; i++) {
        const char *found = strstr(output, words[i]);
        while (found && found > output && found[-1] != '\n')
            found--;
        chosen = found;
    }
    if (!chosen)
        chosen = output;
    snprintf(line, sizeof line, "%.*s", (int)strcspn(chosen, "\n"), chosen);
    diagnostic_use_colons(line);
    weiri_log(WEIRI_LOG_INFO, "output of the compiler for %s:\n%s", job->file, output);
    const char *name = strrchr(job->file, '/') ? strrchr(job->file, '/') + 1 : job->file;
    int has_place = strncmp(line, job->file, strlen(job->file)) == 0;
    return weiri_fail(WEIR_ERR_INVALID, "%s%s%s (WEIR_LOG=info shows the compiler's whole output)",
                      has_place ? "" : name, has_place ? "" : " does not compile: ", line);
}

weir_status weiri_kernel_check_params(const weir_kernel *kernel, const weir_params *params,
                                      size_t expected_bytes)
{
    size_t unit = params->alignment ? params->alignment : 1;
    size_t bytes = (params->used_bytes + unit - 1) / unit * unit;
    if (params->failed)
        return weiri_fail(WEIR_ERR_INVALID,
                          "kernel %s: the parameter was not packed: it has more than %d bytes, or "
                          "an alignment is not a power of two up to 16",
                          kernel->name, WEIR_PARAMS_BYTES);
    if (bytes != expected_bytes)
        return weiri_fail(WEIR_ERR_INVALID,
                          "kernel %s of %s takes a parameter of %zu bytes, not %zu: pack all "
                          "members of its structure, in order",
                          kernel->name, kernel->file, expected_bytes, bytes);
    return WEIR_OK;
}
