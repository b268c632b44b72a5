# Parses the output of an nccl-tests program by the words of its comment lines and by columns,
# without knowledge of weir. Prints for each row of the table
#
#   row SIZE COUNT TYPE REDOP ROOT TIME ALGBW BUSBW WRONG TIME ALGBW BUSBW WRONG
#
# then "devices N", "errors N VERDICT" and "average X". A line that nccl-tests would not print is
# reported with its number, exit code 1.

function number(text) {
    return text ~ /^-?([0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?|nan|inf)$/
}
function broken(why) {
    print FILENAME ": line " FNR ": " why ": " $0 > "/dev/stderr"
    bad = 1
    exit 1
}
/^# nThread [0-9]+ nGpus [0-9]+ minBytes [0-9]+ maxBytes [0-9]+ step: [0-9]+\((factor|bytes)\) warmup iters: [0-9]+ iters: [0-9]+ agg iters: [0-9]+ validation: [0-9]+ graph: [0-9]+/ { config = 1 }
/^# Collective test starting: / { name = $NF }
/^# Collective test concluded: / { if ($NF != name) broken("another test ended") }
/^#  Rank +[0-9]+ Group +[0-9]+ Pid +[0-9]+ on +[^ ]+ device +[0-9]+ \[[0-9a-f]+:[0-9a-f]+:[0-9a-f]+\] / { devices++ }
/^# +size +count +type/ {
    half = 4
    for (i = 1; i <= NF; i++) if ($i == "i_cv%") half = 8
    headed = 1
}
/^# Out of bounds values *: / { errors = $7 " " $8 }
/^# Avg bus bandwidth *: / { average = $6 }
/^#/ || /^$/ { next }
{
    if (!headed) broken("a row before the headings")
    if (NF != 5 + 2 * half && NF != 7 + 2 * half) broken("not " 5 + 2 * half " columns")
    if ($1 !~ /^[0-9]+$/ || $2 !~ /^[0-9]+$/ || $5 !~ /^-?[0-9]+$/) broken("size, count or root")
    line = "row"
    for (i = 1; i <= 5; i++) line = line " " $i
    for (i = 6; i <= 6 + half; i += half) {
        for (j = i; j < i + 3; j++) if (!number($j)) broken("column " j " is no number")
        if ($(i + 3) != "N/A" && !number($(i + 3))) broken("#wrong")
        line = line " " $i " " $(i + 1) " " $(i + 2) " " $(i + 3)
    }
    print line
}
END {
    if (bad) exit 1
    if (!config || !name || errors == "" || average == "") {
        print FILENAME ": header or footer is missing" > "/dev/stderr"
        exit 1
    }
    print "devices " devices
    print "errors " errors
    print "average " average
}
