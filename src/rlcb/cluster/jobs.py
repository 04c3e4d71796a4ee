"""Job scripts: one agent per node, a signal before the time limit, requeue and resume."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

SIGNAL_SECONDS = 120  # before the time limit: enough to finish an update and to save
REQUEUE_CODE = 138  # how a run ends that a scheduler told to make room (128 + SIGUSR1)


@dataclass(frozen=True)
class Job:
    """A training over several nodes, as a scheduler needs to know it."""

    name: str
    nodes: int
    cpus: int | None  # per node
    time: str | None  # hours:minutes:seconds
    queue: str | None  # partition
    min_nodes: int | None
    port: int
    interface: str | None
    python: str  # interpreter, found under the same path on all nodes
    directory: Path  # where to run; on a file system that all nodes share
    output_dir: Path  # of the run, likewise
    flags: list[str]  # of rlcb train
    account: str | None = None

    def cluster_flags(self, master: str, run_id: str) -> str:
        """Shell words; `master` and `run_id` may be shell variables."""
        words = ["--mode", "cluster", "--nodes", str(self.nodes), "--master-port", str(self.port)]
        words += ["--min-nodes", str(self.min_nodes)] if self.min_nodes else []
        words += ["--interface", self.interface] if self.interface else []
        return f"{shlex.join(words)} --master-addr {master} --run-id {run_id}"

    def training(self) -> str:
        """Shell lines that leave the words of the command in an array: a new run, or the one that is there."""
        new = shlex.join([*self.flags, "--output-dir", str(self.output_dir)])
        return (
            f"if [ -f {shlex.quote(str(self.output_dir / 'config.yaml'))} ]; then\n"
            f"  run=(--resume {shlex.quote(str(self.output_dir))})\n"
            "else\n"
            f"  run=({new})\n"
            "fi"
        )


def slurm(job: Job) -> str:
    options = {
        "job-name": job.name,
        "nodes": str(job.nodes),
        "ntasks-per-node": "1",
        "cpus-per-task": str(job.cpus) if job.cpus else None,
        "time": job.time,
        "partition": job.queue,
        "account": job.account,
        "signal": f"USR1@{SIGNAL_SECONDS}",
        "output": f"{job.name}-%j.log",
        "open-mode": "append",
    }
    head = "\n".join(f"#SBATCH --{name}={value}" for name, value in options.items() if value)
    agent = f"{shlex.quote(job.python)} -m rlcb train"
    return f"""#!/bin/bash
# Submit with: sbatch <this file>. One agent per node; {SIGNAL_SECONDS} seconds before the time limit the run saves and
# the job is queued again, to go on where it stopped.
{head}
#SBATCH --requeue
#SBATCH --no-kill
cd {shlex.quote(str(job.directory))}
master=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
{job.training()}
srun --kill-on-bad-exit=0 {agent} "${{run[@]}}" {job.cluster_flags('"$master"', '"$SLURM_JOB_ID"')}
code=$?
if [ $code -eq {REQUEUE_CODE} ]; then
  echo "Saved before the time limit; queued again"
  scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
"""


def pbs(job: Job) -> str:
    resources = f"select={job.nodes}" + (f":ncpus={job.cpus}" if job.cpus else "")
    options = [f"-N {job.name}", f"-l {resources}", "-l place=scatter", "-r y", "-j oe"]
    options += [f"-l walltime={job.time}"] if job.time else []
    options += [f"-q {job.queue}"] if job.queue else []
    options += [f"-A {job.account}"] if job.account else []
    head = "\n".join(f"#PBS {option}" for option in options)
    agent = f"{shlex.quote(job.python)} -m rlcb train"
    return f"""#!/bin/bash
# Submit with: qsub <this file>. One agent per node, started by pbsdsh; {SIGNAL_SECONDS} seconds before the time limit
# the run saves and the job is submitted again, to go on where it stopped.
{head}
cd {shlex.quote(str(job.directory))}
mapfile -t hosts < <(sort -u "$PBS_NODEFILE")
master=${{hosts[0]}}
{job.training()}
printf -v command '%q ' {agent} "${{run[@]}}" {job.cluster_flags('"$master"', '"$PBS_JOBID"')}
agents=()
for index in "${{!hosts[@]}}"; do
  pbsdsh -n "$index" -- bash -c "cd $(printf %q "$PWD") && $command" &
  agents+=($!)
done
trap 'kill -USR1 "${{agents[@]}}"' USR1 TERM
{_alarm(job)}code=0
for agent in "${{agents[@]}}"; do
  while kill -0 "$agent" 2>/dev/null; do wait "$agent"; done
  wait "$agent"; status=$?
  [ $status -gt $code ] && [ $status -ne 127 ] && code=$status
done
if [ $code -eq {REQUEUE_CODE} ]; then
  echo "Saved before the time limit; submitted again"
  qsub "$0"
fi
exit $code
"""


def _alarm(job: Job) -> str:
    """PBS sends no signal of its own before the end: the script does."""
    if not job.time:
        return ""
    return f"(sleep {max(1, seconds(job.time) - SIGNAL_SECONDS)}; kill -USR1 $$) &\n"


def seconds(time: str) -> int:
    """Of hours:minutes:seconds."""
    hours, minutes, rest = (int(part) for part in time.split(":"))
    return 3600 * hours + 60 * minutes + rest


def by_hand(job: Job, hosts: list[str], resume: bool) -> list[tuple[str, str]]:
    """The command for each node: host and shell words. The id is random, so that two runs never meet."""
    run_id = uuid4().hex[:16]
    run = ["--resume", str(job.output_dir)] if resume else [*job.flags, "--output-dir", str(job.output_dir)]
    words = shlex.join([job.python, "-m", "rlcb", "train", *run])
    command = f"cd {shlex.quote(str(job.directory))} && {words} {job.cluster_flags(hosts[0], run_id)}"
    return [(host, command) for host in hosts]
