"""Job scripts: one agent per node, a signal before the time limit, queued again and resumed; and commands to type.

What schedulers do with signals, and what the scripts make of it:
- Slurm signals the tasks of a step or all of their processes, depending on how it is set up, and the script with them.
  The script has a trap: it should be there for as long as the agents save.
- PBS sends no signal before the time limit: `timeout` sends it to the first agent, and one is enough. `pbsdsh` passes
  on neither SIGUSR1 nor exit codes, so the script starts the first agent itself.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

QUEUED_AGAIN = 138  # how a run ends that a scheduler told to make room (128 + SIGUSR1)
PARTING_SECONDS = 60  # for the other nodes, once one has ended
PORT = 29500  # where nobody says, and no job has a number
FIRST_PORT, PORTS = 20000, 10000  # by the job's number; below those that systems hand out


@dataclass(frozen=True)
class Resources:
    """What a scheduler is asked for."""

    name: str
    nodes: int
    cpus: int  # per node
    memory: int | None  # GB per node
    time: str | None  # hours:minutes:seconds
    save_seconds: int  # before that, to save
    queue: str | None  # partition
    account: str | None


@dataclass(frozen=True)
class Training:
    """One run over several nodes. Its python and its directories are found under the same paths on all of them."""

    python: str
    directory: Path  # where to run
    output_dir: Path
    words: list[str]  # after `rlcb train`, at first
    words_again: list[str]  # once the run is there
    cluster: list[str]  # words that say how the nodes find each other
    port: int | None  # of the first node; None: one that jobs on the same node do not share
    nodes: int
    fewer: bool  # whether it goes on when nodes are lost

    def command(self, master: str, run_id: str, job: str) -> str:
        """Shell lines that leave the agent's command in an array. What they are given are shell words, and the job's
        number as a shell's arithmetic finds it."""
        begun = shlex.quote(str(self.output_dir / "config.yaml"))
        port = self.port or f"$(({FIRST_PORT} + {job} % {PORTS}))"
        return f"""run=({shlex.join(self.words)})
[ -f {begun} ] && run=({shlex.join(self.words_again)})
agent=({shlex.quote(self.python)} -m rlcb train "${{run[@]}}" {shlex.join(self.cluster)})
agent+=(--master-addr {master} --master-port {port} --run-id {run_id})"""


@dataclass(frozen=True)
class SuiteRuns:
    """Every run of a suite by itself, as an array of jobs."""

    python: str
    directory: Path
    words: list[str]  # after `rlcb suite`
    number: int  # of runs

    def command(self, run: str) -> str:
        return f"{shlex.join([self.python, '-m', 'rlcb', 'suite', *self.words])} --only {run}"


def slurm_training(ask: Resources, work: Training) -> str:
    ends = "--no-kill --wait=0" if work.fewer else f"--wait={PARTING_SECONDS}"
    agent = 'exec "$@" --node-rank "$SLURM_NODEID"'
    if work.fewer:  # srun ends with the highest code of all, which may be that of a node that was lost
        others = 'trap : TERM USR1; "$@" --node-rank "$SLURM_NODEID"; exit 0'
        agent = f'[ "$SLURM_NODEID" = 0 ] || {{ {others}; }}; {agent}'
    return _script(
        "sbatch",
        ask,
        _slurm_head(ask, {"output": f"{ask.name}-%j.log", "no-kill": "" if work.fewer else None}),
        work.directory,
        f"""first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
master=$(scontrol show node "$first" | sed -n 's/.*NodeAddr=\\([^ ]*\\).*/\\1/p')
{work.command('"$master"', '"$SLURM_JOB_ID"', "SLURM_JOB_ID")}
srun --cpus-per-task={ask.cpus} --kill-on-bad-exit=0 {ends} \\
  bash -c '{agent}' agent "${{agent[@]}}"
code=$?""",
        'scontrol requeue "$SLURM_JOB_ID"',
    )


def slurm_suite(ask: Resources, work: SuiteRuns) -> str:
    return _script(
        "sbatch",
        ask,
        _slurm_head(ask, {"array": f"1-{work.number}", "output": f"{ask.name}-%A_%a.log"}),
        work.directory,
        f"""srun --cpus-per-task={ask.cpus} {work.command('"$SLURM_ARRAY_TASK_ID"')}
code=$?""",
        'scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"',  # SLURM_JOB_ID may stand for the whole array
    )


def _slurm_head(ask: Resources, more: dict[str, str | None]) -> list[str]:
    options = {
        "job-name": ask.name,
        "nodes": str(ask.nodes),
        "ntasks-per-node": "1",
        "cpus-per-task": str(ask.cpus),
        "mem": f"{ask.memory}G" if ask.memory else None,
        "time": ask.time,
        "signal": f"USR1@{ask.save_seconds}" if ask.time else None,
        "partition": ask.queue,
        "account": ask.account,
        "open-mode": "append",
        "requeue": "",
        **more,
    }
    given = {name: value for name, value in options.items() if value is not None}
    return [f"#SBATCH --{name}={value}" if value else f"#SBATCH --{name}" for name, value in given.items()]


def pbs_training(ask: Resources, work: Training, script: Path) -> str:
    """`script` is where this will be: the job submits it again."""
    there = shlex.quote(f"cd {shlex.quote(str(work.directory))} && exec ")
    return _script(
        "qsub",
        ask,
        _pbs_head(ask, []),
        work.directory,
        f"""mapfile -t hosts < "$PBS_NODEFILE"
job=${{PBS_JOBID%%[!0-9]*}}
{work.command('"${hosts[0]}"', '"$PBS_JOBID"', "job")}
for ((node = 1; node < {work.nodes}; node++)); do
  printf -v words "%q " "${{agent[@]}}" --node-rank "$node"
  pbsdsh -n "$node" -- /bin/bash -c {there}"$words" &
done
{_timeout(ask)}"${{agent[@]}}" --node-rank 0
code=$?
kill $(jobs -p) 2> /dev/null  # the first has saved; the others have nothing to save
wait""",
        f"qsub {shlex.quote(str(script))}",
    )


def pbs_suite(ask: Resources, work: SuiteRuns, script: Path) -> str:
    """A job that is submitted again is that of one run, and no array."""
    return _script(
        "qsub",
        ask,
        _pbs_head(ask, [f"-J 1-{work.number}"] if work.number > 1 else []),  # PBS knows no array of one
        work.directory,
        f"""number=${{RLCB_RUN:-${{PBS_ARRAY_INDEX:-1}}}}
{_timeout(ask)}{work.command('"$number"')}
code=$?""",
        f"sed '/^#PBS -J /d' {shlex.quote(str(script))} | qsub -v RLCB_RUN=\"$number\"",
    )


def _pbs_head(ask: Resources, more: list[str]) -> list[str]:
    chunk = f"select={ask.nodes}:ncpus={ask.cpus}:mpiprocs=1" + (f":mem={ask.memory}gb" if ask.memory else "")
    options = [f"-N {ask.name}", f"-l {chunk}", "-l place=scatter", "-r y", "-j oe"]
    options += [f"-l walltime={ask.time}"] if ask.time else []
    options += [f"-q {ask.queue}"] if ask.queue else []
    options += [f"-A {ask.account}"] if ask.account else []
    return [f"#PBS {option}" for option in options + more]


def _timeout(ask: Resources) -> str:
    """In the foreground it signals the agent alone, and once."""
    if ask.time is None:
        return ""
    return f"timeout --foreground --preserve-status --signal=USR1 {seconds(ask.time) - ask.save_seconds} "


def _script(submit: str, ask: Resources, head: list[str], directory: Path, work: str, again: str) -> str:
    """`work` leaves the run's exit code in `code`; `again` puts the job into the queue once more."""
    limit = f" {ask.save_seconds} seconds before the time limit the run saves, and the job is queued again to go on."
    return "\n".join(
        [
            "#!/bin/bash",
            f"# Submit with: {submit} <this file>.{limit if ask.time else ''}",
            *head,
            f"cd {shlex.quote(str(directory))} || exit 1",
            "trap : TERM  # the agents are told as well; be there until they have saved",
            work,
            f"if [ $code -eq {QUEUED_AGAIN} ]; then",
            '  echo "Saved before the time limit; queued again"',
            f"  {again}",
            "fi",
            "exit $code\n",
        ]
    )


def seconds(time: str) -> int:
    """Of hours:minutes:seconds."""
    hours, minutes, rest = (int(part) for part in time.split(":"))
    return 3600 * hours + 60 * minutes + rest


def by_hand(work: Training, hosts: list[str]) -> list[tuple[str, str]]:
    """The command for each node: host and shell words. The id is random, so that two runs never meet."""
    meeting = ["--master-addr", hosts[0], "--master-port", str(work.port or PORT), "--run-id", uuid4().hex[:16]]
    words = shlex.join([work.python, "-m", "rlcb", "train", *work.words, *work.cluster, *meeting])
    command = f"cd {shlex.quote(str(work.directory))} && {words}"
    return [(host, f"{command} --node-rank {node}") for node, host in enumerate(hosts)]
