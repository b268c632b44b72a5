#!/usr/bin/awk -f
# Reads the CSV files of mpi-peers, named COLLECTIVE.RANKS.KIND.LIBRARY.ROUND.csv. Prints for each
# collective, number of ranks and kind of buffers a line for each size: weir's time, the time of the
# fastest library, the ratio of the two with its interval, and the ratios of the other libraries;
# then the geometric mean of the ratios to each library, and to the fastest at each size.
#
# A ratio is the geometric mean, over the rounds, of the library's median divided by weir's median of
# the same run; above 1 weir is faster. The fastest library is the one with the least ratio, because
# weir's time differs between runs. The interval joins the intervals of all medians in quadrature, on
# the logarithmic scale; from 3 rounds on it is no narrower than Student's 95% interval of the rounds.
# Ends with 1 if results of weir or of a library are wrong.

# The 97.5% quantile of Student's t.
function student(degrees) { return degrees in quantile ? quantile[degrees] : 2.23 }
function larger(a, b) { return a > b ? a : b }

# Adds the run whose rows were read last.
function add_run(    i, key, at, ratio) {
    for (i = 1; i <= nread; i++) {
        key = read[i]
        if (!(key in ours) || !(key in theirs)) continue
        if (!(key in seen)) { seen[key] = 1; keys[++nkeys] = key; group_of[key] = group }
        if (!(library in known)) { known[library] = 1; libraries[++nlibraries] = library }
        at = key SUBSEP library
        ratio = theirs[key] - ours[key]
        runs[at]++
        ratio_sum[at] += ratio
        ratio_squares[at] += ratio * ratio
        our_sum[at] += ours[key]
        their_sum[at] += theirs[key]
        below[at] += their_below[key] ^ 2 + our_above[key] ^ 2
        above[at] += their_above[key] ^ 2 + our_below[key] ^ 2
    }
    split("", ours); split("", theirs); split("", in_run)
    nread = 0
}

# Half of the width of the rounds' interval.
function spread(at,    n, variance) {
    n = runs[at]
    if (n < 3) return 0
    variance = (ratio_squares[at] - ratio_sum[at] ^ 2 / n) / (n - 1)
    return student(n - 1) * sqrt(larger(variance, 0) / n)
}
function ratio_of(at) { return exp(ratio_sum[at] / runs[at]) }
function low_of(at) { return ratio_of(at) * exp(-larger(sqrt(below[at]) / runs[at], spread(at))) }
function high_of(at) { return ratio_of(at) * exp(larger(sqrt(above[at]) / runs[at], spread(at))) }

function fastest(key,    i, best) {
    best = ""
    for (i = 1; i <= nlibraries; i++)
        if ((key SUBSEP libraries[i]) in runs &&
            (best == "" || ratio_sum[key, libraries[i]] / runs[key, libraries[i]] < ratio_sum[key, best] / runs[key, best]))
            best = libraries[i]
    return best
}

function verdict(at) {
    if (high_of(at) < 1) return "weir is slower"
    return low_of(at) > 1 ? "" : "no difference shown"
}

function add_to_mean(group, name, at) {
    if (!((group, name) in rows)) means[group] = means[group] SUBSEP name
    rows[group, name]++
    logs[group, name] += log(ratio_of(at))
    if (ratio_of(at) < 1) under[group, name]++
    if (high_of(at) < 1) slower[group, name]++
}

function print_row(key,    part, best, at, i, line) {
    split(key, part, SUBSEP)
    best = fastest(key)
    at = key SUBSEP best
    line = sprintf("%-4s %-10s %-4s %10d %11.2f %11.2f  %-9s %5.2f [%.2f, %.2f]", part[4], part[6], part[7], part[5],
        exp(our_sum[at] / runs[at]), exp(their_sum[at] / runs[at]), best, ratio_of(at), low_of(at), high_of(at))
    for (i = 1; i <= nlibraries; i++) {
        at = key SUBSEP libraries[i]
        if (!(at in runs)) { line = line ", no " libraries[i]; continue }
        if (libraries[i] != best) line = line sprintf(", %s %.2f", libraries[i], ratio_of(at))
        add_to_mean(group_of[key], libraries[i], at)
    }
    at = key SUBSEP best
    add_to_mean(group_of[key], "the best at each size", at)
    print line (verdict(at) == "" ? "" : ": " verdict(at))
}

function print_means(group,    name, i, n) {
    n = split(means[group], name, SUBSEP)
    for (i = 2; i <= n; i++)
        printf "# ratio to %s: geometric mean %.2f of %d rows, %d below 1, %d of them beyond the interval\n", name[i],
            exp(logs[group, name[i]] / rows[group, name[i]]), rows[group, name[i]], under[group, name[i]], slower[group, name[i]]
}

BEGIN {
    FS = ","
    nquantiles = split("12.71 4.30 3.18 2.78 2.57 2.45 2.36 2.31 2.26", quantile, " ")
}
FNR == 1 {
    add_run()
    for (i = 1; i <= NF; i++) column[$i] = i
    n = split(FILENAME, path, "/")
    n = split(path[n], part, ".")
    library = part[4]
    for (i = 5; i <= n - 2; i++) library = library "." part[i]
    group = part[1] ", " part[2] " ranks, " part[3] " buffers"
    prefix = part[1] SUBSEP part[2] SUBSEP part[3]
    next
}
{
    key = prefix SUBSEP $column["placement"] SUBSEP $column["bytes"] SUBSEP $column["dtype"] SUBSEP \
        $column["redop"] SUBSEP $column["root"]
    is_peer = $column["contender"] ~ /^mpi:/
    if ($column["median_us"] <= 0) {
        if ($column["verify"] != "pass") wrong[++nwrong] = group ": " library ": " $column["contender"] ", " $column["bytes"] " bytes, " \
            ($column["placement"] == "in" ? "in place" : "out of place") ": " $column["verify"] ", " $column["wrong"] " wrong elements"
        next
    }
    if (!(key in in_run)) { in_run[key] = 1; read[++nread] = key }
    middle = log($column["median_us"])
    down = $column["ci_low_us"] > 0 ? middle - log($column["ci_low_us"]) : 0
    up = $column["ci_high_us"] > 0 ? log($column["ci_high_us"]) - middle : 0
    if (is_peer) { theirs[key] = middle; their_below[key] = down; their_above[key] = up }
    else { ours[key] = middle; our_below[key] = down; our_above[key] = up }
}
END {
    add_run()
    for (k = 1; k <= nkeys; k++) {
        if (group_of[keys[k]] != last) {
            if (last != "") print_means(last)
            last = group_of[keys[k]]
            printf "# %s: ratio [95%% interval] of the fastest library's time to weir's, then of the others\n", last
            printf "#%-3s %-10s %-4s %10s %11s %11s  %-9s\n", "", "type", "op", "bytes", "weir us", "fastest us", "fastest"
        }
        print_row(keys[k])
    }
    if (last != "") print_means(last)
    for (i = 1; i <= nwrong; i++) print "# wrong: " wrong[i]
    if (!nkeys) print "# nothing to compare: no run has both weir and a library"
    exit nwrong > 0 || !nkeys
}
