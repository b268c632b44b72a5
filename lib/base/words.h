/*
 * Words of messages that depend on numbers. A message takes the letter after the noun:
 * printf("%d rank%s", n, weiri_s(n)).
 */
#ifndef WEIR_BASE_WORDS_H
#define WEIR_BASE_WORDS_H

/* "" for one thing, "s" for any other number. Pure. */
static inline const char *weiri_s(unsigned long long number)
{
    return number == 1 ? "" : "s";
}

#endif
