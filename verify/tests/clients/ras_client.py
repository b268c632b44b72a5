"""A RAS client, as NCCL's ncclras works: handshake, time limit, format, STATUS.

A process whose service does not answer within a second is left, and the connection made again: all
processes of a node share the port, and one of them may be stopped. As a program:
ras_client.py HOST:PORT [json|text|exporter]; exporter prints what a scraper would turn into metrics.
"""
import argparse
import json
import socket
import time

PROTOCOL = 2


def split(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


def connect(address, patience_s=5.0, timeout_s=None):
    """Returns a connected socket after the handshake, and its file."""
    end = time.monotonic() + patience_s
    while True:
        try:
            sock = socket.create_connection(split(address), timeout=1)
            file = sock.makefile("rwb", buffering=0)
            if exchange(file, f"CLIENT PROTOCOL {PROTOCOL}") != f"SERVER PROTOCOL {PROTOCOL}":
                raise RuntimeError("the server speaks another protocol")
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
    if timeout_s is not None and exchange(file, f"TIMEOUT {timeout_s}") != "OK":
        raise RuntimeError("TIMEOUT was refused")
    sock.settimeout(30)
    return sock, file


def exchange(file, line):
    file.write(line.encode() + b"\n")
    return file.readline().decode().rstrip("\n")


def status(address, form=None, verbose=False, **options):
    """Returns the status: a dictionary if form is json, else text."""
    sock, file = connect(address, **options)
    with sock:
        if form and exchange(file, f"SET FORMAT {form}") != "OK":
            raise RuntimeError(f"format {form} was refused")
        file.write(b"VERBOSE STATUS\n" if verbose else b"STATUS\n")
        text = b"".join(iter(lambda: sock.recv(65536), b"")).decode()
    return json.loads(text) if form == "json" else text


def exported(document):
    """Yields lines of metrics, made as exporters of NCCL's RAS status make them."""
    for comm in document["communicators"]:
        label = f'comm="{comm["hash"]}"'
        yield f'nccl_ras_ranks{{{label}}} {comm["ranks_count"]}'
        yield f'nccl_ras_missing_ranks{{{label}}} {comm["missing_ranks_count"]}'
        for rank in comm["ranks"]:
            for name, count in rank["collective_counts"].items():
                yield (f'nccl_ras_collectives{{{label},rank="{rank["rank"]}",'
                       f'collective="{name}"}} {count}')
        for rank in comm["missing_ranks"]:
            state = "dead" if rank["status"]["considered_dead"] else "unresponsive"
            yield f'nccl_ras_missing{{{label},rank="{rank["rank"]}",state="{state}"}} 1'


def main():
    made = argparse.ArgumentParser(description="Prints the RAS status of a job.")
    made.add_argument("address", metavar="HOST:PORT")
    made.add_argument("form", nargs="?", choices=("text", "json", "exporter"), default="text",
                      help="exporter: what a scraper would turn into metrics")
    options = made.parse_args()
    if options.form == "text":
        print(status(options.address), end="")
    elif options.form == "json":
        print(json.dumps(status(options.address, "json"), indent=2))
    else:
        print("\n".join(exported(status(options.address, "json"))))


if __name__ == "__main__":
    main()
