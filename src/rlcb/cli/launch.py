"""start a training over several nodes: through Slurm or PBS, by ssh, or by commands to type on each node"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlcb.cli.parser import NO_LIMIT, Door, Parser, whole_numbers
from rlcb.errors import UserError

if TYPE_CHECKING:
    from rlcb.cluster.jobs import Job

HOWS = ("slurm", "pbs", "ssh", "manual")
SUBMIT = {"slurm": "sbatch", "pbs": "qsub"}
TIME = re.compile(r"\d+:[0-5]\d:[0-5]\d")


def add_flags(parser: Parser, door: Door) -> None:
    parser.add_argument("how", metavar="slurm|pbs|ssh|manual", help="who starts it; manual prints the commands")
    parser.add_argument("--nodes", default="1", metavar="N", help="machines (default: 1)")
    parser.add_argument("--min-nodes", metavar="N", help="go on with so many when nodes are lost (default: all)")
    parser.add_argument("--hosts", metavar="A,B,…", help="names of the machines (ssh, manual); the first one leads")
    parser.add_argument("--cpus-per-node", metavar="N", help="cores to ask the scheduler for")
    parser.add_argument("--time", metavar="H:MM:SS", help="time limit of the job; it saves before, and is queued again")
    parser.add_argument("--partition", "--queue", dest="queue", metavar="NAME", help="of the scheduler")
    parser.add_argument("--account", metavar="NAME", help="of the scheduler")
    parser.add_argument("--job-name", default="rlcb", metavar="NAME", help="(default: rlcb)")
    parser.add_argument("--master-port", default="29500", metavar="PORT", help="of the first node (default: 29500)")
    parser.add_argument("--interface", metavar="NAME", help="network interface that the nodes talk over")
    parser.add_argument("--output-dir", default="runs/cluster", metavar="DIR", help="of the run, on shared storage")
    parser.add_argument("--script", metavar="FILE", help="where to write the job script (default: <job name>.sh)")
    parser.add_argument("--dry-run", action="store_true", help="write or print only; start nothing")
    parser.epilog = "After -- come the flags of rlcb train: rlcb launch slurm --nodes 2 -- --algo ppo --num-workers 8"


def run(args: argparse.Namespace, door: Door) -> int:
    from rlcb.cluster.jobs import by_hand, pbs, slurm

    job, hosts = _job(args)
    if args.how in SUBMIT:
        text = slurm(job) if args.how == "slurm" else pbs(job)
        return _submit(SUBMIT[args.how], text, Path(args.script or f"{job.name}.sh"), args.dry_run)
    commands = by_hand(job, hosts, resume=(job.output_dir / "config.yaml").exists())
    if args.how == "manual" or args.dry_run:
        for host, command in commands:
            print(f"# on {host}\n{command if args.how == 'manual' else _ssh(host, command)}")
        return 0
    return _over_ssh(commands)


def _job(args: argparse.Namespace) -> tuple[Job, list[str]]:
    """What is to be started, and where, if that is known here. The training's own settings are checked too, before
    anything waits in a queue."""
    from rlcb.cli.train import problems_of
    from rlcb.cluster.jobs import Job

    least = dict.fromkeys(("nodes", "min_nodes", "cpus_per_node"), (1, NO_LIMIT))
    numbers, problems = whole_numbers(args, {**least, "master_port": (1, 65535)})
    problems = [*args.problems, *problems]
    hosts = [host for host in (args.hosts or "").split(",") if host]
    if args.how not in HOWS:
        problems.append(f"{args.how}: not a way to start; use {', '.join(HOWS)}")
    elif args.how in ("ssh", "manual") and not hosts:
        problems.append(f"--hosts: {args.how} needs the names of the machines; for example --hosts node1,node2")
    if args.time is not None and not TIME.fullmatch(args.time):
        problems.append(f"--time {args.time} is not hours:minutes:seconds; for example --time 4:00:00")
    nodes = len(hosts) or numbers.get("nodes", 1)
    problems += problems_of([*args.after, "--mode", "cluster", "--nodes", str(nodes)])
    if problems:
        raise UserError(problems)
    job = Job(
        name=args.job_name,
        nodes=nodes,
        cpus=numbers.get("cpus_per_node"),
        time=args.time,
        queue=args.queue,
        min_nodes=numbers.get("min_nodes"),
        port=numbers["master_port"],
        interface=args.interface,
        python=sys.executable,
        directory=Path.cwd(),
        output_dir=Path(args.output_dir).absolute(),
        flags=args.after,
        account=args.account,
    )
    return job, hosts


def _submit(command: str, text: str, script: Path, dry: bool) -> int:
    script.write_text(text, encoding="utf-8")
    print(f"Job script: {script}")
    if dry:
        return 0
    try:
        return subprocess.run([command, str(script)]).returncode
    except FileNotFoundError as error:
        raise UserError(f"{command}: not found on this machine; submit {script} where it is") from error


def _ssh(host: str, command: str) -> str:
    return shlex.join(["ssh", "-tt", host, command])


def _over_ssh(commands: list[tuple[str, str]]) -> int:
    """All nodes at once; what they print comes here. Ctrl-C reaches them through their terminals."""
    agents = [subprocess.Popen(["ssh", "-tt", host, command]) for host, command in commands]
    try:
        codes = [agent.wait() for agent in agents]
    except KeyboardInterrupt:
        codes = [agent.wait() for agent in agents]
    return max(codes)
