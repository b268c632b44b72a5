#!/bin/bash
# shellcheck source=findings/support.inc
. "$(dirname "$0")/support.inc"
debian_packages python3-simgrid=3.32-2+b2 libsimgrid3.32=3.32-2+b2 libboost-context1.74.0=1.74.0+ds1-21 libboost-stacktrace1.74.0=1.74.0+ds1-21 \
    libns3.37=3.37-2 libgfortran5=12.2.0-14+deb12u1 libgsl27=2.7.1+dfsg-5+deb12u1 libgslcblas0=2.7.1+dfsg-5+deb12u1
says "SimGrid's default network model takes 13 times the latency that a link is given, and no more than 4 MiB in flight: a byte over 10 us takes 130 us, and 1 GB over 10 GB/s with 1 ms takes 0.50 s instead of 0.1; the model CM02 without the window takes the link's own figures"
cat >send.py <<'P'
import sys
from simgrid import Actor, Engine, LinkInRoute, Mailbox, NetZone

latency, bandwidth, size = (float(word) for word in sys.argv[1:4])
engine = Engine(["send", "--log=root.threshold:critical"] + ["--cfg=" + word for word in sys.argv[4:]])
zone = NetZone.create_full_zone("zone")
hosts = [zone.create_host(name, 1e9) for name in "ab"]
link = zone.create_link("link", bandwidth).set_latency(latency).seal()
zone.add_route(hosts[0].netpoint, hosts[1].netpoint, None, None, [LinkInRoute(link)], True)
zone.seal()
box = Mailbox.by_name("box")
Actor.create("from", hosts[0], lambda: box.put("text", int(size)))
Actor.create("to", hosts[1], box.get)
engine.run()
print("%.3g" % Engine.clock)
P
python=$(find /usr/bin -name 'python3.11' | head -n 1)
[ -n "$python" ] || python=$(command -v python3.11) || lacks "no Python 3.11, for which the package is made"
export LD_LIBRARY_PATH=$work/root/usr/lib/x86_64-linux-gnu PYTHONPATH=$work/root/usr/lib/python3/dist-packages
"$python" -c 'import simgrid' 2>run.log || lacks "SimGrid cannot be loaded: $(tail -n 1 run.log)"
send() { timeout 60 "$python" send.py "$@" 2>run.log | tail -n 1; }
expect "1 byte, 10 us, 1 GB/s: seconds" 0.00013 "$(send 1e-5 1e9 1)"
expect "1 GB, 1 ms, 10 GB/s: seconds" 0.505 "$(send 1e-3 1e10 1e9)"
plain=(network/model:CM02 network/TCP-gamma:0)
expect "the same two with ${plain[*]}" "1e-05 0.106" "$(send 1e-5 1e9 1 "${plain[@]}") $(send 1e-3 1e10 1e9 "${plain[@]}")"
finish
