"""CPUs for runs that go on at the same time."""

from __future__ import annotations

from pathlib import Path

from rlcb.cpu.machine import usable_cpus


def divided(jobs: int) -> list[set[int]]:
    """Equal parts, of whole cores where there are enough of them; what does not divide rests, since runs that are to be
    compared get the same machine."""
    cpus = usable_cpus()
    assert 1 <= jobs <= len(cpus)
    cores: dict[str, set[int]] = {}
    for cpu in sorted(cpus):
        cores.setdefault(_core(cpu), set()).add(cpu)
    units = list(cores.values()) if len(cores) >= jobs else [{cpu} for cpu in sorted(cpus)]
    each = len(units) // jobs
    return [set().union(*units[job * each : (job + 1) * each]) for job in range(jobs)]


def _core(cpu: int) -> str:
    """Two hyperthreads of a core give the same."""
    try:
        return Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)
