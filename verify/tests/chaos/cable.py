"""The network between emulated hosts: a process that carries Ethernet frames between their taps, and
loses, delays, reorders, duplicates and cuts as it is asked to.

The kernel's netem would do the same, but is missing from many kernels of containers, and its random
numbers cannot be seeded. A Cable is asked for conditions by use(); those not named are ideal:

  loss, duplicate   probability of a frame
  delay_s, jitter_s each frame takes delay_s +- jitter_s, so that jitter reorders frames
  reorder           probability that a frame is not delayed at all
  rate              bytes per second to each host; the queue holds QUEUE frames
  cut               numbers of hosts that nothing reaches or leaves
  links             other conditions between two hosts: {"0-2": {"delay_s": 0.01}, ...}
"""
import heapq
import json
import os
import random
import select
import signal
import socket
import time

QUEUE = 1000  # frames that wait for a host's turn, as in netem
FRAME = 65536


class Carrier:
    """The carrying process's state."""

    def __init__(self, taps, seed):
        self.taps, self.random = taps, random.Random(seed)
        self.conditions, self.queue, self.count = {}, [], 0
        self.free_at = {}  # of a host or, if it has conditions, of a link to it
        self.waiting = [0] * len(taps)
        self.place = {}  # of a hardware address

    def read(self, source):
        for _ in range(64):
            try:
                frame = os.read(self.taps[source], FRAME)
            except BlockingIOError:
                return
            self.place[frame[6:12]] = source
            known = self.place.get(frame[:6])
            for host in [known] if known is not None else range(len(self.taps)):
                if host != source:
                    self.accept(source, host, frame)

    def asked_of(self, source, host):
        """Returns the conditions from one host to another, and what has them."""
        name = f"{min(source, host)}-{max(source, host)}"
        link = self.conditions.get("links", {}).get(name)
        return (self.conditions, host) if link is None else ({**self.conditions, **link}, (source, host))

    def accept(self, source, host, frame):
        draw, (asked, _) = self.random.random, self.asked_of(source, host)
        cut = asked.get("cut", ())
        if source in cut or host in cut or draw() < asked.get("loss", 0):
            return
        for _ in range(2 if draw() < asked.get("duplicate", 0) else 1):
            self.put(source, host, frame)

    def put(self, source, host, frame):
        draw, now = self.random.random, time.monotonic()
        asked, place = self.asked_of(source, host)
        due = now
        if asked.get("rate"):
            if self.waiting[host] >= QUEUE:
                return
            due = max(now, self.free_at.get(place, 0)) + len(frame) / asked["rate"]
            self.free_at[place] = due
        if draw() >= asked.get("reorder", 0):
            due += max(0, asked.get("delay_s", 0) + asked.get("jitter_s", 0) * (2 * draw() - 1))
        if due <= now:
            self.write(host, frame)
            return
        self.count += 1
        self.waiting[host] += 1
        heapq.heappush(self.queue, (due, self.count, host, frame))

    def write(self, host, frame):
        try:
            os.write(self.taps[host], frame)
        except OSError:  # the interface is full: a loss
            pass

    def deliver(self):
        """Delivers what is due, and returns the time until the next frame is."""
        while self.queue:
            wait = self.queue[0][0] - time.monotonic()
            if wait > 0:
                return wait
            _, _, host, frame = heapq.heappop(self.queue)
            self.waiting[host] -= 1
            if host not in self.conditions.get("cut", ()):
                self.write(host, frame)
        return None

    def run(self, control):
        numbers = {tap: host for host, tap in enumerate(self.taps)}
        while True:
            ready = select.select(list(numbers) + [control], [], [], self.deliver())[0]
            if control in ready:
                text = control.recv(FRAME)
                if not text:  # the worker has ended
                    return
                self.conditions = json.loads(text)
            for tap in ready:
                if tap in numbers:
                    self.read(numbers[tap])


class Cable:
    def __init__(self, hosts, seed):
        self.control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            self.control.close()
            try:
                Carrier([host.tap for host in hosts], seed).run(other)
            finally:
                os._exit(0)
        other.close()

    def use(self, conditions):
        self.control.send(json.dumps(conditions).encode())

    def remove(self):
        self.control.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
