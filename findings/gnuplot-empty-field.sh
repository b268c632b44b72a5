#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
debian_packages gnuplot-nox=5.4.4+dfsg1-2+b2 gnuplot-data=5.4.4+dfsg1-2
plain=$work/root/usr/bin/gnuplot
[ -x "$plain" ] || plain=$(find root/usr/bin -name 'gnuplot*' -type f | head -n 1)
ldd "$plain" | grep -q 'not found' && lacks "libraries of gnuplot are not installed: $(ldd "$plain" | sed -n 's/ => not found//p' | xargs)"
says "gnuplot draws a line across an empty field of a CSV file, and across a word, as if the row were not there; only NaN makes a gap"
# The x of the points of each piece of the line, from a curve with the second of three points missing.
pieces() {
    printf '1,1\n2,%s\n3,3\n' "$1" >points.csv
    "$plain" -e "set datafile separator ','; set terminal svg size 300,200; set output 'plot.svg'; set xrange [0:4]; set yrange [0:4]; plot 'points.csv' using 1:2 with lines linecolor rgb '#00ff00' notitle" 2>&1
    grep -c "stroke='rgb(  0, 255,   0)'.* L" plot.svg
}
expect "second of three fields empty: lines drawn" 1 "$(pieces '')"
expect "second of three fields a word: lines drawn" 1 "$(pieces failed)"
expect "second of three fields NaN: lines drawn" 0 "$(pieces NaN)"
finish
