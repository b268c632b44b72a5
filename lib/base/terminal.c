/* Colours and progress: see terminal.h. */
#include "base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double silent_s = 3, terminal_s = 0.5, line_s = 10;

/* A launcher passes output on: the pseudo-terminal that Open MPI gives a rank says nothing about
 * where mpirun writes. */
static int is_passed_on(void)
{
    static const char *const launchers[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                            "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (getenv(launchers[i]))
            return 1;
    return 0;
}

static int is_terminal(FILE *stream)
{
    const char *term = getenv("TERM");
    const int fd = fileno(stream);
    return fd >= 0 && isatty(fd) && !(term && strcmp(term, "dumb") == 0) && !is_passed_on();
}

int weiri_terminal_has_colours(FILE *stream)
{
    const char *none = getenv("NO_COLOR");
    return !(none && *none) && is_terminal(stream);
}

const char *weiri_terminal_colour(FILE *stream, weiri_colour colour)
{
    static const char *const codes[] = {"\033[0m", "\033[32m", "\033[31m"};
    return weiri_terminal_has_colours(stream) ? codes[colour] : "";
}

static double monotonic_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void weiri_progress_begin(weiri_progress *progress, FILE *to, const char *program, int quiet)
{
    *progress = (weiri_progress){.to = to, .program = program, .quiet = quiet,
                                 .terminal = is_terminal(to), .now_s = monotonic_s};
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
    if (!progress->to || now - progress->began_s < silent_s)
        return 0;
    if (progress->terminal)
        return progress->shown_s == 0 || now - progress->shown_s >= terminal_s;
    const double last = progress->shown_s == 0 ? progress->began_s : progress->shown_s;
    return !progress->quiet && now - last >= line_s;
}

void weiri_progress_show(weiri_progress *progress, const char *what, double done)
{
    if (!progress->now_s)
        return;
    const double now = progress->now_s(), spent = now - progress->began_s;
    if (!progress_is_due(progress, now))
        return;
    progress->shown_s = now;
    fprintf(progress->to, "%s%s: %s: %d%%, ", progress->terminal ? "\r\033[K" : "",
            progress->program, what, (int)(100 * done));
    if (done > 0) {
        progress_write_duration(progress->to, spent / done - spent);
        fputs(" left", progress->to);
    } else {
        progress_write_duration(progress->to, spent);
        fputs(" so far", progress->to);
    }
    if (!progress->terminal)
        fputc('\n', progress->to);
    fflush(progress->to);
}

void weiri_progress_clear(weiri_progress *progress)
{
    if (!progress->terminal || progress->shown_s == 0)
        return;
    fputs("\r\033[K", progress->to);
    fflush(progress->to);
    progress->shown_s = 0;
}
