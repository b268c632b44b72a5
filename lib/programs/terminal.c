/* Colours and progress: see terminal.h. */
#include "programs/terminal.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double silent_s = 3, terminal_s = 0.5, line_s = 10;

static int is_passed_on = -1; /* -1: not detected yet */

void weiri_terminal_detect(void)
{
    static const char *const launchers[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                            "SLURM_PROCID"};
    is_passed_on = 0;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        is_passed_on |= getenv(launchers[i]) != NULL;
}

static int is_terminal(FILE *stream)
{
    const char *term = getenv("TERM");
    const int fd = fileno(stream);
    if (is_passed_on < 0)
        weiri_terminal_detect();
    return fd >= 0 && isatty(fd) && !(term && strcmp(term, "dumb") == 0) && !is_passed_on;
}

const char *weiri_terminal_colour(FILE *stream, weiri_colour colour)
{
    static const char *const codes[] = {"\033[0m", "\033[32m", "\033[31m"};
    const char *none = getenv("NO_COLOR");
    return !(none && *none) && is_terminal(stream) ? codes[colour] : "";
}

void weiri_progress_begin(weiri_progress *progress, FILE *to, const char *program, int quiet)
{
    *progress = (weiri_progress){.to = quiet ? NULL : to,
                                 .program = program,
                                 .terminal = !quiet && is_terminal(to),
                                 .now_s = weiri_clock_s};
    progress->began_s = progress->now_s();
}

/* "45 s", "3 min 20 s", "2 h 5 min". */
static void progress_write_duration(FILE *to, double seconds)
{
    const long s = (long)(seconds + 0.5);
    if (s < 60)
        fprintf(to, "%ld s", s);
    else if (s < 3600)
        fprintf(to, "%ld min %ld s", s / 60, s % 60);
    else
        fprintf(to, "%ld h %ld min", s / 3600, s % 3600 / 60);
}

static int progress_is_due(const weiri_progress *progress, double now)
{
    if (now - progress->began_s < silent_s)
        return 0;
    if (progress->terminal)
        return progress->shown_s == 0 || now - progress->shown_s >= terminal_s;
    const double last = progress->shown_s == 0 ? progress->began_s : progress->shown_s;
    return now - last >= line_s;
}

void weiri_progress_show(weiri_progress *progress, const char *what, double done)
{
    if (!progress || !progress->to)
        return;
    const double now = progress->now_s(), spent = now - progress->began_s;
    if (!progress_is_due(progress, now))
        return;
    progress->shown_s = now;
    progress->visible = progress->terminal;
    fprintf(progress->to, "%s%s: %s: ", progress->terminal ? "\r\033[K" : "", progress->program,
            what);
    if (done > 0) {
        fprintf(progress->to, "%d%%, ", (int)(100 * done));
        progress_write_duration(progress->to, done < 1 ? spent / done - spent : 0);
        fputs(" left", progress->to);
    } else {
        progress_write_duration(progress->to, spent);
        fputs(" so far", progress->to);
    }
    /* Output of others begins on the same line of a terminal and overwrites it. */
    fputc(progress->terminal ? '\r' : '\n', progress->to);
    fflush(progress->to);
}

void weiri_progress_clear(weiri_progress *progress)
{
    if (!progress->visible)
        return;
    fputs("\r\033[K", progress->to);
    fflush(progress->to);
    progress->visible = 0;
}
