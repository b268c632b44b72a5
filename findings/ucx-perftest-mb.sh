#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
debian_packages ucx-utils=1.13.1-1 libucx0=1.13.1-1
lib=$(echo root/usr/lib/*-linux-gnu*/)
export LD_LIBRARY_PATH=$work/${lib%/}:$work/${lib}ucx UCX_TLS=tcp UCX_NET_DEVICES=lo UCX_WARN_UNUSED_ENV_VARS=n
perftest=$work/root/usr/bin/ucx_perftest
ldd "$perftest" | grep -q 'not found' && lacks "libraries of UCX are not installed: $(ldd "$perftest" | sed -n 's/ => not found//p' | xargs)"
says "a MB of ucx_perftest is 2^20 bytes, 5% more than the million of OSU's and Intel's benchmarks: 16 messages of 64 KiB per second are 1 MB/s"
port=$((20000 + $$ % 10000))
timeout 100 "$perftest" -p $port >server.log 2>&1 &
sleep 1
timeout 90 "$perftest" -p $port 127.0.0.1 -t tag_bw -s 65536 -n 3000 -w 50 -f -v >client.log 2>&1
wait
# The last line: iterations, three latencies, average and overall bandwidth, average and overall rate.
expect "MB/s of one message of 64 KiB per second, times 16" 1.00 "$(awk -F, 'END { if ($8 > 0) printf "%.2f", 16 * $6 / $8 }' client.log)"
finish
