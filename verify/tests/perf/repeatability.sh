#!/bin/bash
# perf/repeatability distinguishes repeated runs that agree from those that do not: on synthetic
# result files, and through a simulated launcher. Run from the repository's root.
set -u
. verify/tests/support/tap.sh

# result FILE LOW HIGH: writes a result file with one size and that interval.
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
check "overlapping intervals end with 0" ends_with 0 overlap
check "each size has one line with the spread and the fraction of overlaps" \
    says '^allreduce +out +64 B weir +3 runs, median +11.00 to +13.00 us, 100%'
check "a row that failed verification is left out" eval '! says "allreduce +in"'
result 3.csv 20 21
check "one run of three that does not overlap ends with 1" ends_with 1 overlap
check "the fraction of overlapping pairs is printed" says ' 33% of pairs overlap$'
rm "$scratch"/[23].csv
check "a single run ends with 1" ends_with 1 overlap
check "a single run is reported as nothing to compare" says '^nothing to compare'

# The simulated benchmark writes the file that --csv names.
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
check "repeatability ends with 0 if all runs agree" ends_with 0 repeat -n 4 -r 2 ./program
check "-n runs are compared" says ' 4 runs, .* 100% of pairs overlap$'
check "a failing run ends repeatability with 3" ends_with 3 repeat -n 2 ./program --fail
check "the standard error of a failing run is shown" grep -q '^broken$' "$err"
check "-n 1 is a usage error" ends_with 2 repeat -n 1
check "an unknown option is a usage error" ends_with 2 repeat -x
tap_done
