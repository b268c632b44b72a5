#!/usr/bin/env python3
"""Checks and fixes the plans that MSCCL++'s DSL makes: those of its examples, and variants of its
multi-node default algorithms.

    verify/tests/clients/mscclpp_plans.py SOURCE OUT

SOURCE is a checkout of MSCCL++, of which only Python files are used; the plans go to the folder
OUT. Prints how many plans are accepted, and the rejected ones by what their first violation says,
each with whether weir-plan fix corrects it. Run from the repository's root after make.
README.md in this folder has the verdicts.
"""
import collections
import contextlib
import io
import json
import multiprocessing
import os
import re
import runpy
import shutil
import subprocess
import sys

RANKS = 2, 3, 4, 8
INSTANCES = 1, 2
NODES = (1, 2), (1, 4), (1, 8), (2, 1), (2, 2), (2, 4), (3, 1), (4, 1), (4, 2), (8, 1)  # nodes, ranks of each


def arguments(text):
    """Yields the arguments of an example for each number of ranks, and what they are called."""
    if "--num_gpus" not in text and "--gpus_per_node" not in text:
        yield "", []
        return
    for ranks in RANKS:
        if "--tbg_size" in text:
            for local in (1, 2, 4):
                if local < ranks and ranks % local == 0:
                    yield f".{ranks}x{local}", ["--num_gpus", ranks, "--gpus_per_node", local, "--tbg_size", 2]
        elif "--nnodes" in text:
            yield f".{ranks}", ["--gpus_per_node", ranks]
            if ranks % 2 == 0:
                yield f".2x{ranks // 2}", ["--gpus_per_node", ranks // 2, "--nnodes", 2]
        elif "--gpus_per_node" in text:  # two nodes
            if ranks % 2 == 0:
                yield f".{ranks}", ["--gpus_per_node", ranks // 2]
        else:
            yield f".{ranks}", ["--num_gpus", ranks]


def make_example(path, args, instances, file):
    import mscclpp.language.program as program

    class Program(program.CollectiveProgram):
        def __init__(self, *rest, **named):
            super().__init__(*rest, **named)
            self.instances = instances

    program.CollectiveProgram = Program
    name = ["--name", "example"] if '"--name"' in open(path, encoding="utf-8").read() else []
    sys.argv = [path, *name, *map(str, args)]
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        runpy.run_path(path, run_name="__main__")
    open(file, "w", encoding="utf-8").write(text.getvalue())


def make_default(kind, nodes, local, in_place, instances, group, file):
    from mscclpp import default_algos
    from mscclpp.language import collectives
    from mscclpp.language.utils import AlgoSpec
    collective = {"allgather": collectives.AllGather, "allreduce": collectives.AllReduce,
                  "reducescatter": collectives.ReduceScatter}[kind]
    spec = AlgoSpec(name=kind, collective=collective(nodes * local, 1, in_place), nranks_per_node=local,
                    world_size=nodes * local, in_place=in_place, instances=instances, protocol="LL", auto_sync=False,
                    reuse_resources=True, use_double_scratch_buffer=True)
    with contextlib.redirect_stdout(io.StringIO()):
        program = getattr(default_algos, f"{kind}_multi_nodes")(spec, *group)
        text = program.to_json()
    open(file, "w", encoding="utf-8").write(text)


def plans(packages, out):
    """Yields the calls that make the plans, each with the file."""
    tests = os.path.join(packages, "mscclpp/language/tests")
    for folder, _, files in sorted(os.walk(tests)):
        for path in sorted(os.path.join(folder, file) for file in files if file.endswith(".py")):
            name = os.path.relpath(path, tests)[:-3].replace("/", "_")
            for tag, args in arguments(open(path, encoding="utf-8").read()):
                for instances in INSTANCES:
                    file = f"{out}/{name}{tag}.i{instances}.json"
                    yield make_example, (path, args, instances, file)
    for nodes, local in NODES:
        for instances in (1, 2, 4):
            where = f"{nodes}x{local}.i{instances}"
            for in_place in (False, True):
                file = f"{out}/default_allgather.{where}.{'in' if in_place else 'out'}.json"
                yield make_default, ("allgather", nodes, local, in_place, instances, [], file)
            for group in (1, 2, 4):
                for kind in ("allreduce", "reducescatter"):
                    file = f"{out}/default_{kind}.{where}.t{group}.json"
                    yield make_default, (kind, nodes, local, True, instances, [group], file)


def judge(file):
    """Returns what the first violation says, without numbers; None: the plan is accepted."""
    run = subprocess.run(["./weir-plan", "check", "--json", file], capture_output=True, text=True, check=False)
    report = json.loads(run.stdout)[0]
    if report["accepted"]:
        return None
    first = report["violations"][0] if report["violations"] else {"text": report["error"].partition(": ")[2]}
    text = re.sub(r" \((at|tried).*|; fix:.*", "", first["text"])
    return re.sub(r"\d+", "N", f"{first.get('fault', 'not checked')}: {first.get('name', '-')} {text}")


def main():
    source, out = sys.argv[1:3]
    os.makedirs(out, exist_ok=True)
    packages = os.path.join(out, "packages")  # the package itself needs a GPU
    shutil.rmtree(packages, ignore_errors=True)
    for part in ("language", "default_algos"):
        shutil.copytree(os.path.join(source, "python/mscclpp", part), os.path.join(packages, "mscclpp", part))
    open(os.path.join(packages, "mscclpp/__init__.py"), "w", encoding="utf-8").close()
    sys.path.insert(0, packages)
    sys.stderr = open(os.path.join(out, "log"), "w", encoding="utf-8")  # some programs do not compile
    made, accepted, kinds = collections.Counter(), collections.Counter(), collections.defaultdict(list)
    for function, values in plans(packages, out):
        process = multiprocessing.Process(target=function, args=values)
        process.start()
        process.join()
        file = values[-1]
        if process.exitcode:
            continue
        part = "default algorithms" if function is make_default else "examples"
        verdict = judge(file)
        made[part] += 1
        accepted[part] += verdict is None
        if verdict:
            run = subprocess.run(["./weir-plan", "fix", file, "-o", file + ".fixed"], capture_output=True, check=False)
            kinds[verdict].append((os.path.basename(file), run.returncode == 0))
    for part in made:
        print(f"{part}: {made[part]} plans, {accepted[part]} accepted")
    for kind, files in sorted(kinds.items(), key=lambda item: -len(item[1])):
        print(f"{len(files)}, fixed {sum(fixed for _, fixed in files)}: {kind}\n    {files[0][0]} ... {files[-1][0]}")


if __name__ == "__main__":
    main()
