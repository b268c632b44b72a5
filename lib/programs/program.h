/*
 * The start of a program. What a process inherits from its parent (descriptors, signals, umask, and
 * what loaded libraries have set) must not change what a program does.
 * docs/developer/inherited-state.md lists each of these states and how it is treated. The library
 * itself leaves the process of its caller alone.
 */
#ifndef WEIR_PROGRAMS_PROGRAM_H
#define WEIR_PROGRAMS_PROGRAM_H

/* Brings the inherited state into the form that all programs expect. The first call in main, before
 * a file is opened or a thread starts. */
void weiri_program_begin(void);

#endif
