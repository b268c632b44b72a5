/*
 * Numbers of command lines and environment variables, read strictly: the whole text is the number,
 * without blanks, a sign before it, or hexadecimal digits. All functions return 0, or -1 and leave
 * the value alone. Pure.
 */
#ifndef WEIR_PROGRAMS_NUMBERS_H
#define WEIR_PROGRAMS_NUMBERS_H

#include <stddef.h>

/* Reads a whole number from low to high; a minus sign is part of it if low is below 0. */
int weiri_whole_read(const char *text, long long low, long long high, long long *value);
/* Reads a number such as 12.5 or 1e9. */
int weiri_decimal_read(const char *text, double *value);
/* Reads a number of bytes: a whole number; or a decimal number, without an exponent, with the unit
 * K, M, G or T, of which only the first letter counts, as in nccl-tests: 64K, 64k, 64KB, 64KiB and
 * "64 KB" are 65536. A fraction of a byte is dropped, but what is above 0 must have one byte. */
int weiri_bytes_read(const char *text, size_t *bytes);

#endif
