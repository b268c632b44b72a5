# What the tests of weir-plan's command line share; sourced after tap.sh. WEIR_PLAN names another
# program than the one in the repository's root.
program=${WEIR_PLAN:-./weir-plan}

# refuses NAME CODE "ARGUMENTS" WORD...: weir-plan ends with CODE and prints one line with every
# word on standard error.
refuses() {
    local name=$1 code=$2
    read -ra arguments <<<"$3"
    shift 3
    check "$name" refused "$code" "$@"
}
refused() {
    local code=$1
    shift
    ends_with "$code" "$program" "${arguments[@]}" && [ ! -s "$out" ] && one_line_says "$@"
}
