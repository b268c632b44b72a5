#!/bin/bash
# Whether verify/tests/perf/repeatability tells repeated runs that agree from those that do
# not: on result files made for the test, and through a launcher that is a stub.
set -u
. verify/tests/support/tap.sh

# result FILE LOW HIGH: a result file with one size and that interval.
result() {
    {
        echo "collective,placement,bytes,contender,algo,dtype,redop,root,median_us,ci_low_us,ci_high_us"
        echo "allreduce,out,64,weir,packet,float,sum,-1,$(($2 + 1)),$2,$3"
        echo "allreduce,in,64,weir,packet,float,sum,-1,,,"
    } >"$scratch/$1"
}
says() { grep -qE -- "$1" "$out"; }
overlap() { verify/tests/perf/overlap.awk -v share=0.6 "$scratch"/*.csv; }

result 1.csv 10 12
result 2.csv 11 13
result 3.csv 12 14
check "intervals that overlap: all agree" ends_with 0 overlap
check "each size has its line" says '^allreduce +out +64 B weir +3 runs, median +11.00 to +13.00 us, 100%'
check "a failed row is no measurement" eval '! says "allreduce +in"'
result 3.csv 20 21
check "one run of three lies apart: a third of pairs is left" ends_with 1 overlap
check "and the share is told" says ' 33% of pairs overlap$'
rm "$scratch"/[23].csv
check "one run alone is nothing to compare" ends_with 1 overlap
check "and that is said" says '^nothing to compare'

# A benchmark that is a stub: it writes the file that it is told to.
result 1.csv 10 12
cat >"$scratch/launch" <<'END'
#!/bin/sh
case $* in *--version*) echo stub ;; *--fail*) echo broken >&2; exit 3 ;; *)
    for word; do file=$word; done
    cp "$RESULT" "$file" ;;
esac
END
chmod +x "$scratch/launch"
repeat() { RESULT=$scratch/1.csv MPIRUN=$scratch/launch verify/tests/perf/repeatability "$@"; }
check "the program runs as often as asked" ends_with 0 repeat -n 4 -r 2 ./program
check "and every run counts" says ' 4 runs, .* 100% of pairs overlap$'
check "a run that fails ends it" ends_with 3 repeat -n 2 ./program --fail
check "and is shown" grep -q '^broken$' "$err"
check "-n 1 is refused" ends_with 2 repeat -n 1
check "an unknown option is refused" ends_with 2 repeat -x
tap_done
