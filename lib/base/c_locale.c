#define _GNU_SOURCE /* uselocale */
#include "base/c_locale.h"

#include "base/float_env.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static locale_t c_locale; /* 0 if there is no memory: the locale then stays */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t weiri_c_locale_begin(void)
{
    const int error = errno;
    pthread_once(&once, make_c_locale);
    const locale_t before = uselocale(c_locale);
    errno = error;
    return before;
}

void weiri_c_locale_end(locale_t before)
{
    uselocale(before);
}

double weiri_strtod(const char *text, char **end)
{
    const locale_t before = weiri_c_locale_begin();
    const weiri_float_env environment = weiri_float_begin();
    const double number = strtod(text, end);
    weiri_float_end(environment);
    weiri_c_locale_end(before);
    return number;
}
