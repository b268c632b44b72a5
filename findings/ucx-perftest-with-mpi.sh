#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
debian13_packages ucx-utils=1.18.1+ds-2+b1
says "ucx_perftest of Debian 13 refuses the usual way, a server and a client that names it, unless both get -P 0, because it is built with MPI"
cat >pair <<'P'
ucx_perftest -p 13401 -t tag_lat -n 100 "$@" >server 2>&1 &
sleep 1
timeout 30 ucx_perftest -p 13401 -t tag_lat -n 100 "$@" 127.0.0.1 >client 2>&1
echo $?
kill $! 2>/dev/null
wait
P
export UCX_TLS=tcp UCX_NET_DEVICES=lo UCX_WARN_UNUSED_ENV_VARS=n
expect "code of the client" 255 "$(in_debian13 bash pair)"
expect "its reason" "should be run with exactly 2 processes" "$(grep -o 'should be run with exactly 2 processes' client)"
expect "code with -P 0" 0 "$(in_debian13 bash pair -P 0)"
finish
