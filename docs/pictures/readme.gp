# Draws the README's picture, allreduce on 4 H200, from results/record/gpu-4-h200.csv:
#
#   gnuplot docs/pictures/readme.gp        in the root of the repository
#
# Left: time of short messages; right: bus bandwidth of long ones. Each point of "NCCL, best mode" is
# the fastest of NCCL's three modes at that size.
record = "results/record/gpu-4-h200.csv"
# The points of one line: bytes, us, GB/s of the candidates whose names match, the fastest of each size.
points(name) = "< awk -F, '$5 == \"allreduce\" && $15 == \"out\" && $10 ~ /" . name . \
    "/ { if (!($16 in us) || $19 + 0 < us[$16]) { us[$16] = $19 + 0; bus[$16] = $26 } } " . \
    "END { for (b in us) print b, us[b], bus[b] }' " . record . " | sort -n"

set terminal svg size 1200, 470 font "sans,15" noenhanced dynamic background "#FFFFFF"
set output "docs/pictures/readme.svg"
set multiplot layout 1, 2
set border 3 linecolor rgb "#555555"
set tics nomirror out textcolor rgb "#333333"
set grid xtics ytics linetype 1 linewidth 0.6 linecolor rgb "#DDDDDD"
set key top left reverse Left samplen 3 spacing 1.2
set logscale x 2
set xlabel "message (bytes)"
set style line 1 linecolor rgb "#0072B2" linewidth 3 pointtype 7 pointsize 0.8
set style line 2 linecolor rgb "#D55E00" linewidth 2 pointtype 5 pointsize 0.7
set style line 3 linecolor rgb "#888888" linewidth 2 pointtype 9 pointsize 0.8

set title "Short messages: time (us), lower is better"
set xrange [6:700000]
set xtics ("8" 8, "64" 64, "512" 512, "4K" 4096, "32K" 32768, "256K" 262144)
set yrange [0:17]
plot points("^weir") using 1:2 with linespoints linestyle 1 title "weir", \
    points("^nccl") using 1:2 with linespoints linestyle 2 title "NCCL, best mode", \
    points("^nccl:[0-9.]+$") using 1:2 with linespoints linestyle 3 title "NCCL, default mode"

set title "Long messages: bus bandwidth (GB/s), higher is better"
set xrange [400000:2800000000]
set xtics ("512K" 524288, "4M" 4194304, "32M" 33554432, "256M" 268435456, "2G" 2147483648)
set yrange [0:400]
set key bottom right reverse Left
plot points("^weir") using 1:3 with linespoints linestyle 1 title "weir", \
    points("^nccl") using 1:3 with linespoints linestyle 2 title "NCCL, best mode", \
    points("^nccl:[0-9.]+$") using 1:3 with linespoints linestyle 3 title "NCCL, default mode"
