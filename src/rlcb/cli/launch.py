"""start a training over several nodes, or the runs of a suite: through Slurm or PBS, by ssh, or by commands to type"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rlcb.cli.parser import NO_LIMIT, Door, Parser, whole_numbers
from rlcb.errors import UserError

if TYPE_CHECKING:
    from rlcb.cluster.jobs import Resources, SuiteRuns, Training

HOWS = ("slurm", "pbs", "ssh", "manual")
SUBMIT = {"slurm": "sbatch", "pbs": "qsub"}
TIME = re.compile(r"\d+:[0-5]\d:[0-5]\d")
NAME = re.compile(r"[A-Za-z][\w.+-]*")  # in a line that a scheduler reads
SAVE_SECONDS = 120
SSH_FAILED = 255  # its own exit code, where that is not the command's

# Flags by who has a use for them.
OF_SCHEDULERS = ("cpus_per_node", "memory_per_node", "time", "save_seconds", "queue", "account", "suite", "script")
OF_ONE_RUN = ("nodes", "min_nodes", "master_port", "interface", "output_dir", "resume")
# Flags of rlcb train that are settled here, and of rlcb suite that make no sense for one run of it.
SETTLED = {"--mode", "--nodes", "--min-nodes", "--master-addr", "--master-port", "--interface", "--run-id"}
SETTLED |= {"--node-rank", "--output-dir", "--resume", "--overwrite"}
NOT_FOR_ONE = {"--jobs", "--only", "--dry-run"}


def add_flags(parser: Parser, door: Door) -> None:
    parser.set_defaults(passes_on=True)  # what comes after `--` is for rlcb train, or rlcb suite
    parser.add_argument("how", metavar="slurm|pbs|ssh|manual", help="who starts it; manual prints the commands")
    parser.add_argument("--nodes", metavar="N", help="machines (default: 1)")
    parser.add_argument("--min-nodes", metavar="N", help="go on with so many when nodes are lost (default: all)")
    parser.add_argument("--hosts", metavar="A,B,…", help="names of the machines (ssh, manual); the first one leads")
    parser.add_argument(
        "--cpus-per-node", metavar="N", help="to ask the scheduler for (default: one for each process of the run)"
    )
    parser.add_argument("--memory-per-node", metavar="GB", help="to ask the scheduler for (default: what it gives)")
    parser.add_argument("--time", metavar="H:MM:SS", help="time limit of the job; it saves before, and is queued again")
    parser.add_argument(
        "--save-seconds", metavar="N", help=f"how long before the time limit it saves (default: {SAVE_SECONDS})"
    )
    parser.add_argument("--partition", "--queue", dest="queue", metavar="NAME", help="of the scheduler")
    parser.add_argument("--account", metavar="NAME", help="of the scheduler")
    parser.add_argument("--job-name", default="rlcb", metavar="NAME", help="(default: rlcb)")
    parser.add_argument(
        "--master-port", metavar="PORT", help="of the first node (default: 29500; slurm and pbs: by the job's number)"
    )
    parser.add_argument("--interface", metavar="NAME", help="network interface that the nodes talk over")
    parser.add_argument("--output-dir", metavar="DIR", help="of the run, on shared storage (default: runs/cluster)")
    parser.add_argument("--resume", action="store_true", help="continue the run in --output-dir")
    parser.add_argument("--suite", metavar="FILE", help="instead of one run: those of this suite, as an array of jobs")
    parser.add_argument(
        "--script", metavar="FILE", help="where to write the job script (default: beside the run, <output dir>.sh)"
    )
    parser.add_argument("--dry-run", action="store_true", help="write or print only; start nothing")
    parser.epilog = (
        "After -- come the flags of rlcb train: rlcb launch slurm --nodes 2 -- --algo ppo --num-workers 8; "
        "or those of rlcb suite: rlcb launch slurm --suite config/suites/seeds.yaml --cpus-per-node 4 -- --duration 0.5"
    )


def run(args: argparse.Namespace, door: Door) -> int:
    from rlcb.cluster import jobs

    hosts = [host for host in (args.hosts or "").split(",") if host]
    ask, work = _work(args, hosts)
    if isinstance(work, jobs.Training) and args.how not in SUBMIT:
        return _by_hand(jobs.by_hand(work, hosts), args)
    script = Path(args.script or _script_of(args, work)).absolute()
    if isinstance(work, jobs.SuiteRuns):
        text = jobs.slurm_suite(ask, work) if args.how == "slurm" else jobs.pbs_suite(ask, work, script)
    else:
        text = jobs.slurm_training(ask, work) if args.how == "slurm" else jobs.pbs_training(ask, work, script)
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(text, encoding="utf-8")
    print(f"Job script: {script}")
    if isinstance(work, jobs.SuiteRuns):
        print(f"{work.number} runs; once they are finished, the table: rlcb suite {shlex.join(work.words)}")
    return 0 if args.dry_run else _submit(SUBMIT[args.how], script)


def _script_of(args: argparse.Namespace, work: Training | SuiteRuns) -> str:
    """Every run has one of its own: jobs of PBS submit theirs again when time is up."""
    from rlcb.cluster.jobs import Training

    return f"{work.output_dir}.sh" if isinstance(work, Training) else f"{args.job_name}_{Path(args.suite).stem}.sh"


def _work(args: argparse.Namespace, hosts: list[str]) -> tuple[Resources, Training | SuiteRuns]:
    """What is to be started, and what it needs. All is checked before it waits in a queue, the runs too."""
    from rlcb.cluster.jobs import Resources

    least = dict.fromkeys(("nodes", "min_nodes", "cpus_per_node", "memory_per_node", "save_seconds"), (1, NO_LIMIT))
    numbers, problems = whole_numbers(args, {**least, "master_port": (1, 65535)})
    nodes = len(hosts) if hosts and args.how not in SUBMIT else numbers.get("nodes", 1)
    problems = [*args.problems, *problems, *_unfit(args, hosts, numbers, nodes)]
    work: Training | SuiteRuns | None = None
    cpus = numbers.get("cpus_per_node", 1)
    try:
        if args.suite is not None:
            work = _suite(args, cpus)
        else:
            work, needed = _training(args, numbers, nodes)
            cpus = numbers.get("cpus_per_node", needed)
    except UserError as error:
        problems += error.problems
    if problems or work is None:
        raise UserError(problems)
    if args.suite is None and cpus != needed:
        remedy = f"with --cpus-per-node {needed} none would wait, and none would be idle"
        print(f"Note: {needed} threads on {cpus} CPUs of every node; {remedy}", file=sys.stderr)
    save = numbers.get("save_seconds", SAVE_SECONDS)
    memory = numbers.get("memory_per_node")
    return Resources(args.job_name, nodes, cpus, memory, args.time, save, args.queue, args.account), work


def _unfit(args: argparse.Namespace, hosts: list[str], numbers: dict[str, int], nodes: int) -> list[str]:
    """Problems of flags with each other; numbers by themselves are fine."""
    given = {name for name in (*OF_SCHEDULERS, *OF_ONE_RUN) if getattr(args, name)}
    problems = []
    if args.how not in HOWS:
        problems.append(f"{args.how}: not a way to start; use {', '.join(HOWS)}")
    elif args.how in SUBMIT:
        problems += ["--hosts: the scheduler chooses the machines; leave it out"] if hosts else []
    else:
        if not hosts:
            problems.append(f"--hosts: {args.how} needs the names of the machines; for example --hosts node1,node2")
        elif numbers.get("nodes", nodes) != nodes:
            problems.append(f"--nodes {args.nodes}: --hosts names {nodes} machines; leave --nodes out")
        for name in OF_SCHEDULERS:
            if name in given:
                problems.append(f"{_flag(name)}: {args.how} asks no scheduler; leave it out, or use slurm or pbs")
    if args.suite is not None:
        for name in OF_ONE_RUN:
            if name in given:
                problems.append(f"{_flag(name)}: runs of a suite have one machine and a folder each; leave it out")
        if args.cpus_per_node is None:
            problems.append("--cpus-per-node: missing; how many CPUs does every run of the suite get?")
    elif numbers.get("min_nodes", 1) > nodes:
        problems.append(f"--min-nodes {args.min_nodes}: more than the {nodes} there are; use at most that")
    for flag, name in (("--job-name", args.job_name), ("--partition", args.queue), ("--account", args.account)):
        if name is not None and not NAME.fullmatch(name):
            problems.append(f"{flag} {name!r}: not a name; use letters, digits, '_', '-', '.' and '+'")
    return problems + _unfit_time(args, numbers.get("save_seconds", SAVE_SECONDS))


def _unfit_time(args: argparse.Namespace, save: int) -> list[str]:
    from rlcb.cluster.jobs import seconds

    if args.time is None:
        return ["--save-seconds: there is no limit to save before; give --time"] if args.save_seconds else []
    if not TIME.fullmatch(args.time):
        return [f"--time {args.time} is not hours:minutes:seconds; for example --time 4:00:00"]
    early = 60 if args.how == "slurm" else 0  # it looks at the clock once a minute
    if seconds(args.time) <= save + early:
        return [
            f"--time {args.time}: the run may be told to save from the start on; use more than {save + early} seconds"
        ]
    return []


def _flag(name: str) -> str:
    return "--partition" if name == "queue" else "--" + name.replace("_", "-")


def _training(args: argparse.Namespace, numbers: dict[str, int], nodes: int) -> tuple[Training, int]:
    """And how many threads it has on every node."""
    from rlcb.cli.train import checked
    from rlcb.cluster.jobs import Training

    place = Path(args.output_dir or "runs/cluster").absolute()
    again = ["--resume", str(place)]
    words = [*again, *args.after] if args.resume else [*args.after, "--output-dir", str(place)]
    cluster = ["--mode", "cluster", "--nodes", str(nodes)]
    cluster += ["--min-nodes", args.min_nodes] if args.min_nodes else []
    cluster += ["--interface", args.interface] if args.interface else []
    problems = [
        f"{flag}: settled by rlcb launch; give it before --, or leave it out"
        for flag in (word.partition("=")[0] for word in args.after)
        if flag in SETTLED
    ]
    if problems:
        raise UserError(problems)
    config = checked([*words, *cluster])
    assert config.crew is not None
    processes = config.crew.number // nodes + (config.algo == "impala")  # its learner
    fewer = numbers.get("min_nodes", nodes) < nodes
    words_again = words if args.resume else again
    work = Training(
        sys.executable, Path.cwd(), place, words, words_again, cluster, numbers.get("master_port"), nodes, fewer
    )
    return work, processes * (config.hardware.num_threads or 1)


def _suite(args: argparse.Namespace, cpus: int) -> SuiteRuns:
    from rlcb.cli.suite import checked
    from rlcb.cluster.jobs import SuiteRuns

    problems = [
        f"{flag}: not for the runs of a suite by themselves; leave it out"
        for flag in (word.partition("=")[0] for word in args.after)
        if flag in NOT_FOR_ONE
    ]
    if problems:
        raise UserError(problems)
    words = [args.suite, *args.after]
    return SuiteRuns(sys.executable, Path.cwd(), words, len(checked(words, cpus).jobs))


def _submit(command: str, script: Path) -> int:
    try:
        return subprocess.run([command, str(script)]).returncode
    except FileNotFoundError as error:
        raise UserError(f"{command}: not found on this machine; submit {script} where it is") from error


def _by_hand(commands: list[tuple[str, str]], args: argparse.Namespace) -> int:
    if args.how == "ssh" and not args.dry_run:
        return _over_ssh(commands)
    for host, command in commands:
        print(f"# on {host}\n{command if args.how == 'manual' else shlex.join(['ssh', '-tt', host, command])}")
    return 0


def _over_ssh(commands: list[tuple[str, str]]) -> int:
    """All nodes at once; what they print comes here. Ctrl-C reaches the first, through its terminal: enough. Of several
    that share a terminal, all but one would wait for the key that one has taken, and hear nothing else."""
    agents = [
        (host, subprocess.Popen(["ssh", "-tt", host, command], stdin=subprocess.DEVNULL if number else None))
        for number, (host, command) in enumerate(commands)
    ]
    left = list(agents)
    while left:
        for host, agent in list(left):
            with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                if agent.wait(timeout=0.2) == SSH_FAILED and len(left) > 1:
                    print(f"{host}: ssh failed; the others wait for this node, Ctrl-C ends them", file=sys.stderr)
                left.remove((host, agent))
    return max(agent.returncode for _, agent in agents)
