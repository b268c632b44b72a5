/*
 * Text that comes from files and command lines, for people: control characters are written as
 * \xNN, so that a name cannot move the cursor, colour the screen or imitate another line.
 */
#ifndef WEIR_BASE_TEXT_H
#define WEIR_BASE_TEXT_H

#include <stddef.h>

/* Enough for the names of files and plans, and for a violation. */
enum { WEIRI_SHOWN_BYTES = 1024 };

/* Escapes control characters in text, which has room for `bytes` with the end; what no longer fits
 * is cut. Line ends and tabs stay, because messages of several lines have them. Returns the new
 * length. Async-signal-safe; local. */
size_t weiri_text_escape(char *text, size_t bytes);
/* Copies text to shown, at most bytes with the end, with line ends and tabs escaped too. Returns
 * shown. */
const char *weiri_text_shown(const char *text, char *shown, size_t bytes);
/* Writes a list such as "0-3,8". A list that exceeds bytes is cut after a number, and ends with
 * "...". */
void weiri_text_shorten_list(const char *list, char *text, size_t bytes);

#endif
