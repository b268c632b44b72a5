# Reads result files (CSV, RFC 4180) and writes what plot.gp draws: for each
# collective a file of settings, COLLECTIVE.gp, and a file of points for each
# line, COLLECTIVE.N.dat, into the folder `scratch`.
#
# A line is a contender, divided further by the columns that take several
# values for one contender (ranks, placement, ...). Columns that merely tell
# two measurements of the same point apart (algorithm, file, run) divide only
# where such a pair exists, so that a contender that changes its algorithm with
# the size stays one line.
#
# A row that failed verification has no numbers: it breaks its line, and is
# marked. It and every row that cannot be drawn are named on standard error.
# Ends with 2 if a file is no result file or nothing can be drawn.

BEGIN {
    split("contender nranks nnodes host backend transport dtype redop root placement dist", always, " ")
    split("algo file run_id", if_needed, " ")
    required = "collective contender algo bytes median_us busbw_gbs verify wrong " \
        "nranks nnodes host backend transport dtype redop root placement run_id " \
        "ci_low_us ci_high_us"
    required_count = split(required, required_name, " ")
    status = 0
}

function complain(text) { print "plot: " text >"/dev/stderr" }

function base_name(path) { sub(/^.*\//, "", path); return path }

# A number, and one that a logarithmic axis can show.
function drawable(text) { return text ~ /^[0-9.]+([eE][-+]?[0-9]+)?$/ && text + 0 > 0 }

# Splits a record into field[1..]; the number of fields.
function parse(record, field,    n, i, c, inside, text) {
    if (record !~ /"/) return split(record, field, ",")
    split("", field)
    n = 1
    for (i = 1; i <= length(record); i++) {
        c = substr(record, i, 1)
        if (inside && c == "\"" && substr(record, i + 1, 1) == "\"") { text = text c; i++ }
        else if (c == "\"") inside = !inside
        else if (c == "," && !inside) { field[n++] = text; text = "" }
        else text = text c
    }
    field[n] = text
    return n
}

function open_file(    i, n, field) {
    split("", column)
    sub(/^\357\273\277/, "", record)
    n = header_fields = parse(record, field)
    for (i = 1; i <= n; i++) column[field[i]] = i
    for (i = 1; i <= required_count; i++)
        if (!(required_name[i] in column)) {
            complain(FILENAME ": no column '" required_name[i] \
                "' in the first line, so this is no result file; results/README.md lists the columns")
            status = 2
            exit
        }
}

function value(field, name) { return name == "file" ? base_name(FILENAME) : field[column[name]] }

function keep_row(field, fails,    i) {
    rows++
    collective[rows] = value(field, "collective")
    gsub(/[^A-Za-z0-9_]/, "_", collective[rows]) # it names files
    for (i in always) cell[rows, always[i]] = value(field, always[i])
    for (i in if_needed) cell[rows, if_needed[i]] = value(field, if_needed[i])
    bytes[rows] = value(field, "bytes") + 0
    failed[rows] = fails
    median_us[rows] = value(field, "median_us")
    low_us[rows] = value(field, "ci_low_us")
    high_us[rows] = value(field, "ci_high_us")
    busbw_gbs[rows] = value(field, "busbw_gbs")
}

function read_row(    n, field, where, what) {
    where = FILENAME " line " FNR
    n = parse(record, field)
    if (n < header_fields) {
        complain(where ": " n " of " header_fields " fields, perhaps cut off; row left out")
        return
    }
    what = value(field, "collective") " of " value(field, "bytes") " bytes by " \
        value(field, "contender") (value(field, "algo") ? " (" value(field, "algo") ")" : "")
    if (value(field, "verify") == "fail") {
        complain(where ": " what " failed verification (" value(field, "wrong") \
            " wrong elements); it has no numbers to draw")
        if (drawable(value(field, "bytes"))) keep_row(field, 1)
    } else if (drawable(value(field, "bytes")) && drawable(value(field, "median_us"))) {
        keep_row(field, 0)
        drawable_rows[collective[rows]]++
    } else {
        complain(where ": " what " has no place on a logarithmic axis; row left out")
    }
}

{ sub(/\r$/, "") }
FNR == 1 { pending = "" }
{
    record = pending $0
    # A quoted field may hold a line end: the quotes are then uneven so far.
    quotes = record
    if (gsub(/"/, "", quotes) % 2) { pending = record "\n"; if (FNR > 1) next }
    pending = ""
}
FNR == 1 { files++; open_file(); next }
record == "" { next }
{ read_row() }

# Whether some contender of collective c has two values in this column.
function divides(c, name,    row, seen) {
    split("", seen)
    for (row = 1; row <= rows; row++) {
        if (collective[row] != c) continue
        if (!(cell[row, "contender"] in seen)) seen[cell[row, "contender"]] = cell[row, name]
        else if (seen[cell[row, "contender"]] != cell[row, name]) return 1
    }
    return 0
}

# Whether two rows of one line of collective c measure the same size, and
# differ in this column.
function collides(c, name,    row, at, seen) {
    split("", seen)
    for (row = 1; row <= rows; row++) {
        if (collective[row] != c) continue
        at = key[row] SUBSEP bytes[row]
        if (!(at in seen)) seen[at] = cell[row, name]
        else if (seen[at] != cell[row, name]) return 1
    }
    return 0
}

function words(name, text) {
    if (text == "" || text == "-") return ""
    if (name == "nranks") return text (text == 1 ? " rank" : " ranks")
    if (name == "nnodes") return text (text == 1 ? " node" : " nodes")
    if (name == "placement") return text == "in" ? "in place" : text == "out" ? "out of place" : text
    if (name == "root") return text == -1 ? "" : "root " text
    if (name == "backend") return text " memory"
    if (name == "run_id") return "run " text
    if (name == "redop" && text == "none") return ""
    return text
}

function join(list, text) { return list == "" ? text : text == "" ? list : list ", " text }

function divide(c, name,    row) {
    for (row = 1; row <= rows; row++)
        if (collective[row] == c) {
            key[row] = key[row] SUBSEP cell[row, name]
            label[row] = join(label[row], words(name, cell[row, name]))
        }
}

# The words that hold for every row of collective c, for the plot's second line.
function common(c, name,    row, seen, text) {
    for (row = 1; row <= rows; row++) {
        if (collective[row] != c || cell[row, name] == "") continue
        if (seen && cell[row, name] != text) return ""
        seen = 1
        text = cell[row, name]
    }
    return words(name, text)
}

function quoted(text) { gsub(/["\\`]/, "", text); return "\"" text "\"" }

function stretch(name, number) {
    if (!((name, "low") in range) || number < range[name, "low"]) range[name, "low"] = number
    if (!((name, "high") in range) || number > range[name, "high"]) range[name, "high"] = number
}

# Writes the points of one line, in order of size.
function write_line(c, n, wanted,    row, count, order, i, j, path, r, has, bw_low, bw_high) {
    for (row = 1; row <= rows; row++)
        if (collective[row] == c && key[row] == wanted) order[++count] = row
    for (i = 2; i <= count; i++) {
        r = order[i]
        for (j = i - 1; j > 0 && bytes[order[j]] > bytes[r]; j--) order[j + 1] = order[j]
        order[j + 1] = r
    }
    path = scratch "/" c "." n ".dat"
    for (i = 1; i <= count; i++) {
        r = order[i]
        if (i > 1 && bytes[r] == bytes[order[i - 1]])
            complain(c " of " bytes[r] " bytes by " label[r] " is there twice; both are drawn")
        stretch("bytes", bytes[r])
        if (failed[r]) {
            failures++
            print bytes[r], "nan nan nan nan nan nan 1" >path
            continue
        }
        has = drawable(low_us[r]) && drawable(high_us[r])
        stretch("us", median_us[r] + 0)
        if (drawable(busbw_gbs[r])) stretch("gbs", busbw_gbs[r] + 0)
        # Bandwidth is bytes by time: its interval is the time's, turned over.
        bw_low = has ? busbw_gbs[r] * median_us[r] / high_us[r] : "nan"
        bw_high = has ? busbw_gbs[r] * median_us[r] / low_us[r] : "nan"
        print bytes[r], median_us[r], has ? low_us[r] : "nan", has ? high_us[r] : "nan", \
            drawable(busbw_gbs[r]) ? busbw_gbs[r] : "nan", bw_low, bw_high, 0 >path
    }
    close(path)
}

# Orders the lines of collective c by contender: name[], title[] and, so that
# the eye can follow, one colour a contender and one dash a variant of it. With
# one contender, or more variants than dashes, every line has its own colour.
function arrange(c,    row, i, k, n, who, what, whos, whats, contender_number, variant_number, seen) {
    for (row = 1; row <= rows; row++) {
        if (collective[row] != c || (key[row]) in seen) continue
        seen[key[row]] = 1
        who = cell[row, "contender"]
        what = substr(key[row], length(SUBSEP who) + 1)
        if (!(who in contender_number)) contender_number[who] = ++whos
        if (!(what in variant_number)) variant_number[what] = ++whats
        n++
    }
    split("", seen)
    k = 0
    for (i = 1; i <= whos; i++)
        for (row = 1; row <= rows; row++) {
            who = cell[row, "contender"]
            if (collective[row] != c || contender_number[who] != i || (key[row]) in seen) continue
            seen[key[row]] = 1
            what = substr(key[row], length(SUBSEP who) + 1)
            name[++k] = key[row]
            title[k] = label[row]
            colour[k] = whos == 1 || whats > 4 ? k : i
            dash[k] = whos == 1 || whats > 4 ? int((k - 1) / 7) + 1 : variant_number[what]
        }
    return n
}

function write_collective(c,    i, row, n, path, subtitle) {
    split("", range)
    for (row = 1; row <= rows; row++) { key[row] = ""; label[row] = "" }
    divide(c, "contender")
    for (i = 2; i in always; i++) if (divides(c, always[i])) divide(c, always[i])
    for (i = 1; i in if_needed; i++) if (collides(c, if_needed[i])) divide(c, if_needed[i])

    path = scratch "/" c ".gp"
    subtitle = join(common(c, "dtype"), "")
    if (common(c, "redop") != "") subtitle = subtitle " " common(c, "redop")
    subtitle = join(subtitle, common(c, "nranks"))
    if (common(c, "nnodes") != "")
        subtitle = subtitle (common(c, "nranks") != "" ? " on " : ", ") common(c, "nnodes")
    subtitle = join(subtitle, join(common(c, "backend"), common(c, "placement")))
    subtitle = join(subtitle, common(c, "host"))
    n = arrange(c)
    failures = 0
    print "collective = " quoted(c) >path
    print "subtitle = " quoted(subtitle) >path
    print "lines = " n >path
    print "array line_title[" n "]; array line_file[" n "]" >path
    print "array line_colour[" n "]; array line_dash[" n "]" >path
    for (i = 1; i <= n; i++) {
        write_line(c, i, name[i])
        print "line_title[" i "] = " quoted(title[i]) >path
        print "line_colour[" i "] = " colour[i] >path
        print "line_dash[" i "] = " dash[i] >path
        print "line_file[" i "] = " quoted(scratch "/" c "." i ".dat") >path
    }
    for (i in range) {
        split(i, end_of, SUBSEP)
        print end_of[1] "_" end_of[2] " = " range[i] >path
    }
    print "failures = " failures >path
    print "has_bandwidth = " (("gbs", "low") in range) >path
    close(path)
    print c
}

END {
    if (status) exit status
    for (row = 1; row <= rows; row++) {
        if (collective[row] in written || !drawable_rows[collective[row]]) continue
        written[collective[row]] = 1
        write_collective(collective[row])
        plots++
    }
    if (!plots) {
        complain("nothing to draw: no row of " files + 0 " file" (files == 1 ? "" : "s") \
            " has a time; a benchmark's --csv FILE writes some")
        exit 2
    }
}
