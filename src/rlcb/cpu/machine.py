"""What this machine is: CPU, cores, memory."""

from __future__ import annotations

import os
import platform
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import psutil


class Machine(NamedTuple):
    cpu: str
    cores: int  # physical, usable by this process
    threads: int  # logical, usable by this process
    memory_gb: float
    system: str
    python: str


@cache
def machine() -> Machine:
    return Machine(
        cpu=_cpu_model(),
        cores=physical_cores(),
        threads=len(usable_cpus()),
        memory_gb=round(psutil.virtual_memory().total / 2**30, 1),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
    )


def usable_cpus() -> set[int]:
    """Those this process may run on: schedulers, containers and taskset give less than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def physical_cores() -> int:
    """Of those, and no more than the job was given where a scheduler counts CPUs but binds nobody to them."""
    return min(_cores(usable_cpus()), _allotted())


def _allotted() -> int:
    for name in ("SLURM_CPUS_PER_TASK", "NCPUS"):  # the second is PBS's
        number = os.environ.get(name, "")
        if number.isdecimal() and int(number) > 0:
            return int(number)
    return sys.maxsize


def _cores(usable: set[int]) -> int:
    """Two hyperthreads of a core count once: a convolution keeps all of a core busy."""
    firsts = set()
    for cpu in usable:
        try:
            siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        except OSError:
            return len(usable)
        firsts.add(siblings.strip())
    return len(firsts)


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
