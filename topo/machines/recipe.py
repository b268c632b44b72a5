#!/usr/bin/env python3
"""Writes the recorded machines of this folder: invented ones, in hwloc's XML.

Run it in this folder after a change here. hwloc 2.x reads the files; the
machines have no serial numbers, host names or addresses, and no real owner.
"""

import sys

GPU_CLASS, NIC_CLASS, IB_CLASS, BRIDGE_CLASS = "0302", "0200", "0207", "0604"


class Writer:
    """Indented XML, and hwloc's running number for objects."""

    def __init__(self):
        self.lines = []
        self.depth = 0
        self.next_gp = 1

    def line(self, text):
        self.lines.append("  " * self.depth + text)

    def open(self, type_name, **attributes):
        gp_index = self.next_gp
        self.next_gp += 1
        named = {"gp_index": gp_index, **attributes}
        text = " ".join(f'{name}="{value}"' for name, value in named.items())
        self.line(f'<object type="{type_name}" {text}>')
        self.depth += 1
        return gp_index

    def close(self):
        self.depth -= 1
        self.line("</object>")

    def info(self, name, value):
        self.line(f'<info name="{name}" value="{value}"/>')


def bitmap(indexes):
    """hwloc's text form of a set: 32-bit words, the highest first."""
    indexes = list(indexes)
    bits = sum(1 << index for index in indexes)
    words = []
    while True:
        words.insert(0, f"0x{bits & 0xffffffff:08x}")
        bits >>= 32
        if not bits:
            return ",".join(words)


def sets(cpus, nodes):
    cpuset, nodeset = bitmap(cpus), bitmap(nodes)
    return {"cpuset": cpuset, "complete_cpuset": cpuset,
            "nodeset": nodeset, "complete_nodeset": nodeset}


def cache(out, kind, number, level, size, cpus, node):
    out.open(kind, os_index=number, **sets(cpus, [node]), cache_size=size, depth=level,
             cache_linesize=64, cache_associativity=16, cache_type=1 if level == 1 else 0)


def core(out, number, cpus, node):
    cache(out, "L2Cache", number, 2, 1 << 20, cpus, node)
    cache(out, "L1Cache", number, 1, 32 << 10, cpus, node)
    out.open("Core", os_index=number, **sets(cpus, [node]))
    for cpu in cpus:
        out.open("PU", os_index=cpu, **sets([cpu], [node]))
        out.close()
    for _ in range(3):
        out.close()


def cpus_of_core(machine, number):
    ncores = machine["packages"] * machine["cores_per_package"]
    return [number + thread * ncores for thread in range(machine["threads_per_core"])]


def numa_node(out, machine, number):
    """A NUMA node with one or more last-level caches."""
    ncores, ncaches = cores_per_node(machine), machine.get("l3_per_node", 1)
    cores = range(number * ncores, (number + 1) * ncores)
    cpus = [cpu for each in cores for cpu in cpus_of_core(machine, each)]
    out.open("NUMANode", os_index=number, **sets(cpus, [number]),
             local_memory=machine["memory_gib_per_package"] // nodes_per_package(machine) << 30)
    out.close()
    for index in range(ncaches):
        below = cores[index * ncores // ncaches:(index + 1) * ncores // ncaches]
        cpus = [cpu for each in below for cpu in cpus_of_core(machine, each)]
        cache(out, "L3Cache", number * ncaches + index, 3, machine["l3_mib"] << 20, cpus, number)
        for each in below:
            core(out, each, cpus_of_core(machine, each), number)
        out.close()


def nodes_per_package(machine):
    return machine.get("nodes_per_package", 1)


def cores_per_node(machine):
    return machine["cores_per_package"] // nodes_per_package(machine)


def package(out, machine, number):
    """Several NUMA nodes of a package are groups in hwloc's tree; a single one needs none."""
    count = nodes_per_package(machine)
    nodes = range(number * count, (number + 1) * count)
    first = number * machine["cores_per_package"]
    cores = range(first, first + machine["cores_per_package"])
    cpus = [cpu for each in cores for cpu in cpus_of_core(machine, each)]
    out.open("Package", os_index=number, **sets(cpus, nodes))
    out.info("CPUModel", machine["processor"])
    for node in nodes:
        if count > 1:
            inside = [cpu for each in range(node * cores_per_node(machine),
                                            (node + 1) * cores_per_node(machine))
                      for cpu in cpus_of_core(machine, each)]
            out.open("Group", **sets(inside, [node]), kind=0, subkind=0)
        numa_node(out, machine, node)
        if count > 1:
            out.close()
    links = [io_root(out, root) for root in machine["roots"] if root["package"] == number]
    out.close()
    return [gpu for root in links for gpu in root]


def io_root(out, root):
    """A root complex with either one PCIe switch, or devices on its own ports.

    Buses: the root's first, then one for the switch's inside, then one a device.
    """
    bus, devices = root["bus"], root["devices"]
    inside = bus + (2 if root["switch"] else 1)
    last = inside + len(devices) - 1
    gpus = []
    out.open("Bridge", bridge_type="0-1", depth=0, bridge_pci=f"0000:[{bus:02x}-{last:02x}]")
    if root["switch"]:
        out.open("Bridge", bridge_type="1-1", depth=1,
                 bridge_pci=f"0000:[{bus + 1:02x}-{last:02x}]",
                 pci_busid=f"0000:{bus:02x}:01.0",
                 pci_type=f"{BRIDGE_CLASS} [1000:c030] [0000:0000] b0",
                 pci_link_speed="63.015385")
    for position, describe in enumerate(devices):
        gpus += describe(out, f"0000:{inside + position:02x}:00.0")
    out.close()
    if root["switch"]:
        out.close()
    return gpus


def pci_device(out, address, kind, ids, speed):
    out.open("PCIDev", pci_busid=address, pci_type=f"{kind} [{ids}] [0000:0000] 00",
             pci_link_speed=speed)


def gpu(number, model):
    def describe(out, address):
        pci_device(out, address, GPU_CLASS, "10de:2330", "63.015385")
        out.info("GPUModel", model)
        gp_index = out.open("OSDev", name=f"nvml{number}", subtype="NVML", osdev_type=1)
        out.close()
        out.open("OSDev", name=f"cuda{number}", subtype="CUDA", osdev_type=5)
        out.close()
        out.close()
        return [gp_index]
    return describe


def infiniband(number, gbits):
    def describe(out, address):
        pci_device(out, address, IB_CLASS, "15b3:1021", "63.015385")
        out.open("OSDev", name=f"ib{number}", osdev_type=2)
        out.info("WeirLinkState", "up")
        out.close()
        out.open("OSDev", name=f"mlx5_{number}", osdev_type=3)
        out.info("Port1State", 4)
        out.info("WeirLinkState", "up")
        out.info("WeirLinkGbits", gbits)
        out.close()
        out.close()
        return []
    return describe


def ethernet(name, gbits):
    def describe(out, address):
        pci_device(out, address, NIC_CLASS, "8086:1593", "15.753846")
        out.open("OSDev", name=name, osdev_type=2)
        out.info("WeirLinkState", "up")
        out.info("WeirLinkGbits", gbits)
        out.close()
        out.close()
        return []
    return describe


def counted(tag, words):
    text = " ".join(words)
    return f'<{tag} length="{len(text)}">{text}</{tag}>'


def nvlink(out, gpus, mb_per_s):
    """All GPUs joined through switches, as hwloc's NVML component reports it."""
    out.line(f'<distances2 type="OSDev" nbobjs="{len(gpus)}" kind="9" '
             'name="NVLinkBandwidth" indexing="gp">')
    out.line("  " + counted("indexes", [str(each) for each in gpus]))
    for row in gpus:
        values = ["1000000" if row == column else str(mb_per_s) for column in gpus]
        out.line("  " + counted("u64values", values))
    out.line("</distances2>")


def write(path, machine):
    out = Writer()
    packages = range(machine["packages"])
    nodes = range(machine["packages"] * nodes_per_package(machine))
    ncpus = (machine["packages"] * machine["cores_per_package"]
             * machine["threads_per_core"])
    out.line('<?xml version="1.0" encoding="UTF-8"?>')
    out.line('<!DOCTYPE topology SYSTEM "hwloc2.dtd">')
    out.line('<topology version="2.0">')
    out.depth += 1
    out.open("Machine", os_index=0, **sets(range(ncpus), nodes),
             allowed_cpuset=bitmap(range(ncpus)), allowed_nodeset=bitmap(nodes))
    out.info("Backend", "Linux")
    gpus = [gpu for number in packages for gpu in package(out, machine, number)]
    out.close()
    if machine["nvlink_mb_per_s"]:
        nvlink(out, gpus, machine["nvlink_mb_per_s"])
    out.depth -= 1
    out.line("</topology>")
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(out.lines) + "\n")


def switch_root(package_number, bus, first):
    """Two GPUs and two NICs below one PCIe switch."""
    model = "NVIDIA GPU 80GB"
    return {"package": package_number, "bus": bus, "switch": True,
            "devices": [infiniband(first, 400), gpu(first, model),
                        infiniband(first + 1, 400), gpu(first + 1, model)]}


MACHINES = {
    "8-gpu-8-nic.xml": {
        "packages": 2, "cores_per_package": 16, "threads_per_core": 2,
        "memory_gib_per_package": 512, "l3_mib": 64, "processor": "Server CPU, 16 cores",
        "roots": [switch_root(0, 0x10, 0), switch_root(0, 0x40, 2),
                  switch_root(1, 0x90, 4), switch_root(1, 0xc0, 6)],
        "nvlink_mb_per_s": 450000,
    },
    "4-gpu-1-nic.xml": {
        "packages": 1, "cores_per_package": 8, "threads_per_core": 1,
        "memory_gib_per_package": 128, "l3_mib": 32, "processor": "Workstation CPU, 8 cores",
        "roots": [{"package": 0, "bus": 0x00, "switch": False,
                   "devices": [ethernet("eth0", 25), gpu(0, "NVIDIA GPU 24GB"),
                               gpu(1, "NVIDIA GPU 24GB")]},
                  {"package": 0, "bus": 0x40, "switch": False,
                   "devices": [gpu(2, "NVIDIA GPU 24GB"), gpu(3, "NVIDIA GPU 24GB")]}],
        "nvlink_mb_per_s": 0,
    },
    "1-node-16-core.xml": {
        "packages": 1, "cores_per_package": 16, "threads_per_core": 1,
        "memory_gib_per_package": 128, "l3_mib": 300, "processor": "Server CPU, 16 cores",
        "roots": [], "nvlink_mb_per_s": 0,
    },
    "2-node-64-core.xml": {
        "packages": 2, "cores_per_package": 32, "threads_per_core": 2,
        "memory_gib_per_package": 256, "l3_mib": 48, "processor": "Server CPU, 32 cores",
        "roots": [], "nvlink_mb_per_s": 0,
    },
    "4-node-64-core.xml": {
        "packages": 1, "cores_per_package": 64, "threads_per_core": 2, "nodes_per_package": 4,
        "l3_per_node": 2, "memory_gib_per_package": 512, "l3_mib": 32,
        "processor": "Server CPU, 64 cores", "roots": [], "nvlink_mb_per_s": 0,
    },
    "2-core.xml": {
        "packages": 1, "cores_per_package": 2, "threads_per_core": 1,
        "memory_gib_per_package": 4, "l3_mib": 8, "processor": "Small CPU, 2 cores",
        "roots": [{"package": 0, "bus": 0x00, "switch": False,
                   "devices": [ethernet("eth0", 1)]}],
        "nvlink_mb_per_s": 0,
    },
}


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    for name, machine in MACHINES.items():
        write(f"{folder}/{name}", machine)


if __name__ == "__main__":
    main()
