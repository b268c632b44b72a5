#!/usr/bin/awk -f
# Reads the CSV files of repeated runs of one benchmark. Prints for each size, placement, type,
# operation, candidate and algorithm the spread of the medians and the fraction of pairs of runs
# whose 95% intervals overlap. Ends with 1 if a fraction is below the variable `share`, or if nothing
# could be compared.
BEGIN {
    FS = ","
    format = "%-11s %-4s %10s B %-22s %4d runs, median %10.2f to %10.2f us, %3.0f%% of pairs overlap\n"
}
FNR == 1 {
    for (i = 1; i <= NF; i++) column[$i] = i
    next
}
$column["median_us"] != "" {
    key = $column["collective"] SUBSEP $column["placement"] SUBSEP $column["bytes"] SUBSEP \
        $column["contender"] SUBSEP $column["dtype"] SUBSEP $column["redop"] SUBSEP \
        $column["root"] SUBSEP $column["algo"]
    if (!(key in count)) order[++keys] = key
    n = ++count[key]
    median[key, n] = $column["median_us"] + 0
    low[key, n] = $column["ci_low_us"] + 0
    high[key, n] = $column["ci_high_us"] + 0
}
END {
    for (k = 1; k <= keys; k++) {
        key = order[k]
        n = count[key]
        if (n < 2) continue
        compared++
        least = most = median[key, 1]
        pairs = overlapping = 0
        for (i = 1; i <= n; i++) {
            if (median[key, i] < least) least = median[key, i]
            if (median[key, i] > most) most = median[key, i]
            for (j = 1; j < i; j++) {
                pairs++
                overlapping += low[key, i] <= high[key, j] && low[key, j] <= high[key, i]
            }
        }
        split(key, part, SUBSEP)
        printf format, part[1], part[2], part[3], part[4], n, least, most, 100 * overlapping / pairs
        if (overlapping < share * pairs) apart++
    }
    if (!compared) print "nothing to compare: no size was measured twice"
    else printf "%d of %d sizes repeat: at least %.0f%% of pairs overlap\n", compared - apart,
        compared, 100 * share
    exit !compared || apart > 0
}
