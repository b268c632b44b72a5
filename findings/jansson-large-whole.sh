#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
needs gcc
debian_packages libjansson4=2.14-2 libjansson-dev=2.14-2
says "jansson refuses a whole document for one whole number beyond 2^63 - 1, such as an unsigned hash of 64 bits, that JSON allows; with JSON_DECODE_INT_AS_REAL it reads it, and with it every other whole number as a real one"
cat >read.c <<'C'
#include <jansson.h>
#include <stdio.h>

static void read(size_t flags)
{
    json_error_t error;
    json_t *value = json_loads("{\"ranks\": 2, \"hash\": 18446744073709551615}", flags, &error);
    printf("%s %s\n", value ? "read" : "refused",
           !value ? error.text : json_is_integer(json_object_get(value, "ranks")) ? "whole" : "real");
}

int main(void)
{
    read(0);
    read(JSON_DECODE_INT_AS_REAL);
    return 0;
}
C
lib=root/usr/lib/$(gcc -print-multiarch)
gcc -o read read.c -Iroot/usr/include -L"$lib" -ljansson 2>compile.log || { tail -n 3 compile.log; exit 2; }
expect "as it is; with the flag: the number of ranks is" \
    "refused too big integer near '18446744073709551615' read real" "$(LD_LIBRARY_PATH=$work/$lib ./read | xargs -d '\n')"
finish
