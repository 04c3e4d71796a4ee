"""start a training over several nodes: through Slurm or PBS, by ssh, or by commands to type on each node"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

from rlcb.cli.parser import Door, Parser
from rlcb.errors import UserError

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
    from rlcb.cluster.jobs import Job, by_hand, pbs, slurm

    problems = list(args.problems)
    numbers: dict[str, int | None] = {}
    for name in ("nodes", "min_nodes", "cpus_per_node", "master_port"):
        text = getattr(args, name)
        if text is not None and not (text.isdecimal() and int(text) >= 1):
            problems.append(f"--{name.replace('_', '-')} {text} is not a whole number from 1 on")
        else:
            numbers[name] = None if text is None else int(text)
    hosts = [host for host in (args.hosts or "").split(",") if host]
    if args.how not in HOWS:
        problems.append(f"{args.how}: not a way to start; use {', '.join(HOWS)}")
    elif args.how in ("ssh", "manual") and not hosts:
        problems.append(f"--hosts: {args.how} needs the names of the machines; for example --hosts node1,node2")
    if args.time is not None and not TIME.fullmatch(args.time):
        problems.append(f"--time {args.time} is not hours:minutes:seconds; for example --time 4:00:00")
    flags = args.after
    problems += _problems_of(flags, hosts, numbers)
    if problems:
        raise UserError(problems)
    nodes = len(hosts) if hosts else numbers["nodes"] or 1
    job = Job(
        name=args.job_name,
        nodes=nodes,
        cpus=numbers["cpus_per_node"],
        time=args.time,
        queue=args.queue,
        min_nodes=numbers["min_nodes"],
        port=numbers["master_port"] or 29500,
        interface=args.interface,
        python=sys.executable,
        directory=Path.cwd(),
        output_dir=Path(args.output_dir).absolute(),
        flags=flags,
        account=args.account,
    )
    if args.how in SUBMIT:
        text = slurm(job) if args.how == "slurm" else pbs(job)
        return _submit(SUBMIT[args.how], text, Path(args.script or f"{job.name}.sh"), args.dry_run)
    commands = by_hand(job, hosts, resume=(job.output_dir / "config.yaml").exists())
    if args.how == "manual" or args.dry_run:
        for host, command in commands:
            print(f"# on {host}\n{command if args.how == 'manual' else _ssh(host, command)}")
        return 0
    return _over_ssh(commands)


def _problems_of(flags: list[str], hosts: list[str], numbers: dict[str, int | None]) -> list[str]:
    """The configuration is read here, before anything waits in a queue."""
    from rlcb.cli.train import problems_of

    nodes = len(hosts) if hosts else numbers.get("nodes") or 1
    return problems_of([*flags, "--mode", "cluster", "--nodes", str(nodes)])


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
