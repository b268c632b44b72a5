/*
 * Diagnosis of an output that the exact oracle rejects: the runs of wrong elements, and for each
 * run a hypothesis about the fault. A hypothesis is reported only if it reproduces the run element
 * by element.
 */
#ifndef VERIFY_FORENSICS_H
#define VERIFY_FORENSICS_H

#include "verify/expected.h"
#include "verify/guard.h"

/* Writes lines, each ended by a newline and all terminated, of at most bytes:
 *
 *   elements 256..511, 256 wrong: got 3, expected 5 (element 256): sum lacks rank 2
 *
 * Nothing where all is right, and for inexact data of reductions. c->seed must
 * be that of the call, previous_seed that of the one before. Local. */
void weirv_explain(const weirv_case *c, const void *out, uint64_t previous_seed, char *text,
                   size_t bytes);
/* Writes a line about changed input elements, or about changed canaries around the buffer called
 * `name`. Local. */
void weirv_explain_input(const weirv_case *c, const void *in, char *text, size_t bytes);
void weirv_explain_guard(const weirv_guard *guard, const char *name, char *text, size_t bytes);

#endif
