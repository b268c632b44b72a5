/* Failure lines: see note.h. */
#include "bench/job/note.h"

#include <stdio.h>

weir_status bench_note_list(bench_note *note, weir_status status, const char *format,
                            va_list arguments)
{
    vsnprintf(note->text, sizeof note->text, format, arguments);
    return status;
}

weir_status bench_note_write(bench_note *note, weir_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    bench_note_list(note, status, format, arguments);
    va_end(arguments);
    return status;
}
