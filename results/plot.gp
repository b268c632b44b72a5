# Draws one plot of one collective. Called by results/plot, which loads the
# settings that weir-report --plot-data wrote and sets
#
#   measure  "bandwidth" or "latency"
#   format   "png" or "svg"
#   file     where it goes
#
# Columns of the points: bytes; median and its interval in us; bus bandwidth
# and its interval in GB/s; 1 if the row failed verification and has no numbers.

# Blue, vermilion, green, purple, orange, sky, black: distinguishable with every
# kind of colour vision, and by the shape of their points in print.
array colour[7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
array shape[7] = [7, 5, 9, 11, 13, 4, 6]
nth(i) = (i - 1) % 7 + 1

if (format eq "png") {
    if (strstrt(GPVAL_TERMINALS, " pngcairo ")) {
        set terminal pngcairo size 1200, 750 font "sans,13" noenhanced background "#FFFFFF"
    } else {
        set terminal png size 1200, 750 noenhanced
    }
} else {
    set terminal svg size 1200, 750 font "sans,15" noenhanced dynamic background "#FFFFFF"
}
set output file

if (measure eq "bandwidth") {
    heading = collective . ": bus bandwidth"
    y_label = "bus bandwidth (GB/s, 1 GB = 1e9 bytes)"
    y_low = gbs_low; y_high = gbs_high
    middle = 5; low = 6; high = 7
} else {
    heading = collective . ": time of one operation"
    y_label = "median time (microseconds)"
    y_low = us_low; y_high = us_high
    middle = 2; low = 3; high = 4
}

set tmargin 4.5
set rmargin 4
set label 1 heading at graph 0, graph 1 offset 0, 2.4 font ",18"
set label 2 subtitle at graph 0, graph 1 offset 0, 1 textcolor rgb "#555555"
set xlabel "message (bytes; K = 1024)"
set ylabel y_label
set border 3 linecolor rgb "#555555"
set tics nomirror out textcolor rgb "#333333"
set grid xtics ytics linetype 1 linewidth 0.6 linecolor rgb "#DDDDDD"
set key top left reverse Left samplen 4 spacing 1.25
if (lines > 9) { set rmargin -1; set key outside right top font ",11" }
set style fill transparent solid 0.18 noborder
set logscale x 2
set logscale y 10

# A tick at each power of two, or at every second, third... if they crowd.
unit(e) = e < 10 ? sprintf("%d", 2 ** e) : e < 20 ? sprintf("%dK", 2 ** (e - 10)) : \
    e < 30 ? sprintf("%dM", 2 ** (e - 20)) : sprintf("%dG", 2 ** (e - 30))
first = floor(log(bytes_low) / log(2) + 1e-9)
last = ceil(log(bytes_high) / log(2) - 1e-9)
step = ceil((last - first + 1) / 14.0)
set xtics () nomirror
do for [e = first:last:step] { set xtics add (unit(e) 2 ** e) }
# Room for the first and last points, also where there is but one.
set xrange [bytes_low / 1.3 : bytes_high * 1.3]

# Within two decades 1, 2, 5; beyond, powers of ten.
y_first = floor(log10(y_low))
y_last = ceil(log10(y_high))
set ytics () nomirror
do for [d = y_first:y_last] {
    set ytics add (sprintf("%.10g", 10.0 ** d) 10.0 ** d)
    if (y_last - y_first <= 2) {
        set ytics add (sprintf("%.10g", 2 * 10.0 ** d) 2 * 10.0 ** d, \
            sprintf("%.10g", 5 * 10.0 ** d) 5 * 10.0 ** d)
    }
}
# The key sits above the curves, which climb to the right.
floor_y = y_low / 1.8
set yrange [floor_y : y_high * 1.8]

plot for [i = 1:lines] line_file[i] using 1:low:high with filledcurves \
        linecolor rgb colour[nth(line_colour[i])] notitle, \
     for [i = 1:lines] line_file[i] using 1:middle with linespoints \
        linecolor rgb colour[nth(line_colour[i])] dashtype line_dash[i] linewidth 2.2 \
        pointtype shape[nth(i)] pointsize 1.1 title line_title[i], \
     for [i = 1:lines] line_file[i] using 1:($8 == 1 ? floor_y * 1.15 : NaN) with points \
        linecolor rgb colour[nth(line_colour[i])] pointtype 2 pointsize 1.6 linewidth 2.5 notitle, \
     for [i = 1:failures > 0] NaN with points linecolor rgb "#333333" pointtype 2 \
        pointsize 1.6 linewidth 2.5 title "failed verification"
