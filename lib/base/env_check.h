/*
 * Checks of weir's variables as a whole: that the values have their form, and that the names exist.
 * A communicator's creation checks both, so that no variable is ignored without a word.
 */
#ifndef WEIR_BASE_ENV_CHECK_H
#define WEIR_BASE_ENV_CHECK_H

#include "base/env.h"

/* WEIR_ERR_INVALID for the first of weir's variables (WEIR_*) whose value does not have its form: a
 * number out of its range, or a word that is none of those it may be. */
weir_status weiri_env_check(void);
/* Returns the number of letters to insert, remove, replace or exchange with the next one, to make
 * one name of the other. Names are shorter than 64 bytes. Pure. */
int weiri_env_distance(const char *a, const char *b);
/* Logs a warning, once in a process, for each variable of the environment that begins with WEIR_
 * and is none of weir's, with the closest name that is. */
void weiri_env_warn_unknown(void);
/* Returns whether a variable "NAME=value" begins with WEIR_ and is none that some part of weir
 * reads; closest becomes the name of weir's that it resembles, or NULL. Pure. */
int weiri_env_is_unknown(const char *variable, const char **closest);

#endif
