#!/usr/bin/env python3
"""Runs the commands that the guides show with their output, and compares what they print.

    verify/tests/support/guides.py [--print] SCRATCH PAGE...       in the repository's root, with all programs built

A command is a line of a fenced block that begins with "$ "; the lines up to the next one are its output. Each must
occur in what the command prints, in this order; "..." stands for lines that the page leaves out, and at the end of a
line for its rest. Measured numbers and what differs from run to run (SAME) may differ, all else must be equal. The
folder SCRATCH gets links to the programs and the files that the commands read (prepare); "$ cat FILE" on a page
makes a file that does not exist. Prints a TAP line without
its number for each command: "ok - TEXT" or "not ok - TEXT", with the reason. --print prints the real outputs instead.
"""
import json
import os
import re
import subprocess
import sys

# Commands that this test does not run, and what they need.
NOT_RUN = ((r"^for i in", "six runs, which are prepared"), (r"bench_p2p -g", "an idle core for each rank"),
           (r"srun|sbatch", "Slurm"), (r"support/fleet", "emulated hosts"),
           (r"ci/nightly.*--baseline", "two builds"), (r"--nccl-graph", "a file of NCCL"),
           (r"torchrun|python program.py", "PyTorch or the Python package"), (r"ras_client", "a running job"),
           (r"all_reduce_perf|--backend cuda|--peer nccl", "GPUs and NCCL"), (r"^make |apt-get|pip |weir-mpirun", "an installation"))
LONG = r"-e (4|8|16)M"  # commands for `make test-long` only
# What may differ between two runs, or two processors: (expression, its replacement).
SAME = ((r"\b(?:weir )?(?:packet|fused)(?= \S+ us)|\bweir (?:packet|fused)\b", "ALGORITHM"), (r", (?:in|out), ALGORITHM", ", ALGORITHM"),
        (r"\b(?:packet|fused) \d+(?: to \d+)? B", "ALGORITHM"),
        (r"\S+ takes +[\d.]+x as long \[[^\]]*\]|no difference shown \[[^\]]*\]", "RATIO"),
        (r"(?<![\w.])-?\d+\.\d+(?:e[-+]\d+)?", "N"), (r"\b[\d,]+x?\d* iterations", "N iterations"),
        (r"\b(pid|process|call|took|of|worth) \d+", r"\1 N"), (r"\bexpected \d+, seen \d+", "expected N, seen N"),
        (r"got -?\d+, expected -?\d+", "got N, expected N"), (r"\b[0-9a-f]{16}\b", "ID"), (r"\(\d+,", "(N,"), (r"\b\d+%", "N%"),
        (r" +", " "))
NUMBERS = r"(?:^|(?<=[ \[(]))\d+(?=[ ,\])x%]|$)"  # whole numbers: of weir-check, whose machine decides


def blocks(page):
    """Yields (line number, command, expected lines) of a page."""
    inside, command, at, expected = False, None, 0, []
    with open(page, encoding="utf-8") as file:
        for number, line in enumerate(file.read().split("\n"), 1):
            if line.startswith("```") or (inside and line.startswith("$ ")):
                if command:
                    yield at, command, expected
                inside = not inside if line.startswith("```") else inside
                command, at, expected = (line[2:], number, []) if line.startswith("$ ") and inside else (None, 0, [])
            elif command and command.endswith("\\"):
                command = command[:-1].rstrip() + " " + line.strip()
            elif command and line.strip():
                expected.append(line)


def plain(line, command):
    """A line without what may differ."""
    for pattern, text in SAME:
        line = re.sub(pattern, text, line)
    if "skip-signal" in command:  # on a busy machine, a rank that is to report may answer too late
        line = line.replace(", which does not answer", "").replace("no answer; last seen in ", "")
    if "weir-check" in command:
        line = re.sub(NUMBERS, "N", line)
    if "before.csv after.csv" in command or "good now" in command:  # of one run, about which a busy machine leaves rows open
        line = re.sub(r"(regressed|inconclusive: .*)$", "VERDICT", line)
        line = re.sub(r"\b\d+ (regressed|inconclusive)\b", r"N \1", line)
        line = re.sub(r"\[ *", "[", line)  # a wide interval leaves no room for a blank
    return line.strip()


def difference(expected, printed, command):
    """The first line of the page that the output lacks, or None."""
    exact = re.match(r"\./weir-(plan|topo --(xml|diff|nodes)) ", command)
    simple = (lambda line: " ".join(line.split())) if exact else (lambda line: plain(line, command))
    at = 0
    lines = [simple(line) for line in printed]
    for line in expected:
        wanted = simple(line)
        if wanted == "...":
            continue
        open_end = wanted.endswith("...")
        wanted = wanted[:-3].rstrip() if open_end else wanted
        matching = [i for i in range(at, len(lines)) if (lines[i].startswith(wanted) if open_end else lines[i] == wanted)]
        if not matching:
            return line
        at = matching[0] + 1
    return None


def joined(lines):
    """Lines of a page that are one line of output: the page breaks long messages, and indents what follows."""
    out = []
    for line in lines:
        if out and re.match(r"^ {2}\S", line) and re.match(r"^ {2}(race|deadlock|result|balance):", out[-1]) and \
                not re.match(r"^ {2}(race|deadlock|result|balance):", line):
            out[-1] += " " + line.strip()
        else:
            out.append(line)
    return out


def without_nops(plan, places):
    """A plan without the operations at some places: (rank, index in its first thread block)."""
    with open(plan, encoding="utf-8") as file:
        made = json.load(file)
    for rank, index in sorted(places, reverse=True):
        operations = made["gpus"][rank]["threadblocks"][0]["ops"]
        assert operations[index]["name"] == "nop", operations[index]
        del operations[index]
    return json.dumps(made)


def scaled(csv, factor, run):
    """The rows of a run with other times."""
    lines = csv.split("\n")
    names = lines[0].split(",")
    for number, line in enumerate(lines[1:], 1):
        fields = line.split(",")
        if len(fields) != len(names):
            continue
        for name in ("median_us", "min_us", "max_us", "p99_us", "ci_low_us", "ci_high_us", "algbw_gbs", "busbw_gbs"):
            place = names.index(name)
            value = float(fields[place]) * (1 / factor if name.endswith("gbs") else factor)
            fields[place] = f"{value:.5g}"
        fields[names.index("run_id")] = run
        lines[number] = ",".join(fields)
    return "\n".join(lines)


def prepare(scratch, root):
    """Links to the programs, and the files that commands of the guides read."""
    for name in os.listdir(root):
        if re.match(r"bench_|weir-|(?:lib|topo|ci|verify|examples|results|build)$", name):
            os.symlink(os.path.join(root, name), os.path.join(scratch, name))
    os.chdir(scratch)

    def write(name, text):
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)

    def run(*words):
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    write("floors.txt", "allreduce 64K >= 20 GB/s\nallreduce 8 place=out <= 6.5 us\nallreduce 32K <= 0.5 us\n")
    # Six runs that differ by a few percent, and six of a build that is slower by a fifth: one run's rows, scaled.
    run("./bench_allreduce", "-g", "2", "-b", "8", "-e", "64K", "-f", "4", "--csv", "one.csv")
    with open("one.csv", encoding="utf-8") as file:
        one = file.read()
    with open("one.json", encoding="utf-8") as file:
        manifest = json.load(file)
    for side, slower in (("good", 1), ("now", 1.25)):
        os.mkdir(side)
        for number, noise in enumerate((1, 1.02, 0.97, 1.05, 0.99, 1.03), 1):
            write(f"{side}/run{number}.csv", scaled(one, slower * noise, f"{side}{number}"))
            write(f"{side}/run{number}.json", json.dumps(dict(manifest, run_id=f"{side}{number}", warnings=[])))
    run("./weir-plan", "make", "allreduce_ring", "-n", "3", "-o", "ring.json")
    write("bad.json", without_nops("ring.json", [(0, 1)]))
    run("./weir-plan", "make", "allgather_direct", "-n", "2", "-o", "direct.json")
    with open("direct.json", encoding="utf-8") as file:
        names = [one["name"] for one in json.load(file)["gpus"][0]["threadblocks"][0]["ops"]]
    write("mine.json", without_nops("direct.json", [(0, index) for index, name in enumerate(names) if name == "nop"][:2]))
    with open("topo/machines/8-gpu-8-nic.xml", encoding="utf-8") as file:
        machine = file.read()
    slow = re.sub(r'(pci_busid="0000:13:00.0" .* pci_link_speed=")63\.\d+', r"\g<1>31.507692", machine)
    write("good.xml", machine)
    write("slow.xml", re.sub(r'(name="mlx5_3".*?WeirLinkGbits" value=")400', r"\g<1>200", slow, flags=re.S))
    os.mkdir("records")
    for number in range(1, 4):
        write(f"records/node{number}.xml", machine)
    os.symlink("../topo/machines/2-core.xml", "records/login.xml")


def main():
    arguments = [word for word in sys.argv[1:] if word != "--print"]
    if len(arguments) < 2:
        print("usage: verify/tests/support/guides.py [--print] SCRATCH PAGE...", file=sys.stderr)
        return 2
    root = os.getcwd()
    pages = [os.path.abspath(page) for page in arguments[1:]]
    prepare(arguments[0], root)
    os.environ["WEIR_BACKEND"] = "host"  # the outputs are of host memory
    failed = 0
    for page in pages:
        for number, command, expected in blocks(page):
            expected = joined(expected)
            name = f"{os.path.relpath(page, root)}:{number}: {command}"
            needs = next((what for pattern, what in NOT_RUN if re.search(pattern, command)), None)
            if os.environ.get("TEST_LONG") != "1" and re.search(LONG, command):
                needs = "a long run (TEST_LONG=1)"
            if needs:
                print(f"ok - {name} # SKIP needs {needs}")
                continue
            shown = re.fullmatch(r"cat ([\w.-]+)", command)
            if shown and not os.path.exists(shown.group(1)):
                with open(shown.group(1), "w", encoding="utf-8") as file:
                    file.write("\n".join(expected) + "\n")
            done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=120, check=False, stdin=subprocess.DEVNULL)
            if "--print" in sys.argv:
                print(f"{name}\n{done.stdout}")
                continue
            lacks = difference(expected, done.stdout.split("\n"), command)
            failed += lacks is not None
            print(f"{'not ok' if lacks is not None else 'ok'} - {name}")
            if lacks is not None:
                print(f"# the output lacks: {lacks}\n# it is, without what may differ:")
                print("\n".join("#   " + plain(line, command) for line in done.stdout.split("\n")[-60:]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
