/* The verdict of a floor: see floor.h. */
#include "bench/output/floor.h"

#include "base/words.h"
#include "programs/terminal.h"

int bench_floor_is_met(const bench_options *options, double average_gbs)
{
    return !options->floor_name || average_gbs >= options->floor_gbs;
}

const char *bench_floor_word(const bench_options *options, double average_gbs)
{
    if (!options->floor_name)
        return "";
    return bench_floor_is_met(options, average_gbs) ? "OK" : "FAILED";
}

void bench_floor_print(FILE *out, const bench_options *options, double average_gbs,
                       unsigned long long wrong)
{
    const int is_met = bench_floor_is_met(options, average_gbs), passes = is_met && !wrong;
    if (!options->floor_name)
        return;
    fprintf(out,
            "# %s%s%s: ", weiri_terminal_colour(out, passes ? WEIRI_COLOUR_GOOD : WEIRI_COLOUR_BAD),
            passes ? "PASS" : "FAIL", weiri_terminal_colour(out, WEIRI_COLOUR_NONE));
    if (wrong)
        fprintf(out, "%llu wrong result%s; ", wrong, weiri_s((long long)wrong));
    fprintf(out, "average bus bandwidth %g GB/s, %s %g GB/s (%s)\n", average_gbs,
            is_met ? "at least" : "below", options->floor_gbs, options->floor_name);
    fflush(out);
}
