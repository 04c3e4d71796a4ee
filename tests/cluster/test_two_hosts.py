"""Training over two hosts, which are real to everything but the electricity bill: `make test-cluster`."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from rlcb.runs.checkpoint import load_checkpoint
from tests.cluster.hosts import WHY_NOT, Host, can_make_hosts, two_hosts

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(not can_make_hosts(), reason=WHY_NOT)]

SMALL = ["--num-envs", "8", "--n-steps", "16", "--save-interval", "2", "--seed", "7", "--output-dir", "run"]
START_SECONDS, END_SECONDS = 90.0, 240.0


@pytest.fixture
def hosts() -> Iterator[list[Host]]:
    with two_hosts() as both:
        yield both


def start(
    hosts: list[Host], folder: Path, *words: str, nodes: int = 2, part: str = ""
) -> list[subprocess.Popen[bytes]]:
    common = ["train", "--mode", "cluster", "--nodes", str(nodes), "--master-addr", hosts[0].address, *words]
    return [host.start(folder, f"host{host.number}{part}.log", *common) for host in hosts]


def wait_for(what: Callable[[], object], seconds: float, why: Callable[[], str]) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, why()
        time.sleep(0.2)


def logs(folder: Path) -> str:
    return "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in sorted(folder.glob("*.log")))


def ended(agents: list[subprocess.Popen[bytes]], folder: Path, seconds: float = END_SECONDS) -> list[int]:
    def over() -> bool:
        codes = [agent.poll() for agent in agents]
        assert not any(code not in (None, 0, 143, -9, 137) for code in codes), logs(folder)
        return None not in codes

    wait_for(over, seconds, lambda: logs(folder))
    return [agent.returncode for agent in agents]


def updates(folder: Path) -> int:
    files = list(folder.glob("run/logs/*/metrics.jsonl"))
    return len(files[0].read_text().splitlines()) if files else 0


@pytest.mark.parametrize(
    "words",
    [
        ["--algo", "ppo", "--num-workers", "2", "--batch-size", "64"],
        ["--algo", "a2c", "--num-workers", "4"],
        ["--algo", "impala", "--num-actors", "2"],
        ["--algo", "a3c", "--num-workers", "2"],
    ],
    ids=lambda words: words[1],
)
def test_every_algorithm(hosts: list[Host], tmp_path: Path, words: list[str]) -> None:
    agents = start(hosts, tmp_path, *words, "--total-timesteps", "640", *SMALL)
    assert ended(agents, tmp_path) == [0, 0], logs(tmp_path)
    summary = json.loads((tmp_path / "run/training_summary.json").read_text())
    assert summary["status"] == "finished"
    assert summary["total_timesteps"] >= 640


def test_it_is_the_experiment_of_one_machine(hosts: list[Host], tmp_path: Path) -> None:
    words = ["--algo", "ppo", "--num-workers", "2", "--batch-size", "64", "--total-timesteps", "640", *SMALL]
    agents = start(hosts, tmp_path, *words)
    assert ended(agents, tmp_path) == [0, 0], logs(tmp_path)
    alone = tmp_path / "alone"
    alone.mkdir()
    one = hosts[0].start(alone, "one.log", "train", "--mode", "parallel", *words)
    assert ended([one], alone) == [0], logs(alone)
    far = load_checkpoint(tmp_path / "run/checkpoints/ppo_cluster_final.pt")["execution"]
    near = load_checkpoint(alone / "run/checkpoints/ppo_parallel_final.pt")["execution"]
    assert all(torch.equal(a, b) for a, b in zip(far["envs"]["games"], near["envs"]["games"], strict=True))
    for name, weights in near["model"].items():
        torch.testing.assert_close(far["model"][name], weights)
    memory = [
        json.loads((run / "training_summary.json").read_text())["peak_memory_gb"]
        for run in (tmp_path / "run", alone / "run")
    ]
    assert memory[0] > memory[1], "memory of the second host is counted: it shares nothing with the first"


def test_nothing_listens_where_it_was_not_asked_to(hosts: list[Host], tmp_path: Path) -> None:
    agents = start(hosts, tmp_path, "--algo", "ppo", "--num-workers", "2", "--batch-size", "64", *SMALL)
    wait_for(lambda: updates(tmp_path) >= 2, START_SECONDS, lambda: logs(tmp_path))
    for host in hosts:
        listening = [line.split()[3] for line in host.run("ss", "-Hltn").splitlines()]
        assert listening
        assert {place.rpartition(":")[0] for place in listening} <= {host.address}
    agents[1].send_signal(15)  # one node's signal is enough
    codes = ended(agents, tmp_path)
    assert codes == [143, 143], logs(tmp_path)
    assert json.loads((tmp_path / "run/training_summary.json").read_text())["status"] == "interrupted"


def test_the_others_go_on_without_a_lost_host(hosts: list[Host], tmp_path: Path) -> None:
    words = ["--algo", "ppo", "--num-workers", "2", "--min-nodes", "1", "--timeout", "10", "--batch-size", "64", *SMALL]
    agents = start(hosts, tmp_path, *words, "--total-timesteps", "5120")
    wait_for(lambda: updates(tmp_path) >= 5, START_SECONDS, lambda: logs(tmp_path))
    hosts[1].kill()
    codes = ended(agents, tmp_path)
    assert codes[0] == 0, logs(tmp_path)
    assert updates(tmp_path) == 40
    assert json.loads((tmp_path / "run/training_summary.json").read_text())["total_timesteps"] == 5120


def test_a_cut_cable_ends_in_a_checkpoint_to_go_on_from(hosts: list[Host], tmp_path: Path) -> None:
    words = ["--algo", "ppo", "--num-workers", "2", "--timeout", "5", "--batch-size", "64", *SMALL]
    agents = start(hosts, tmp_path, *words, "--total-timesteps", "2560")
    wait_for(lambda: updates(tmp_path) >= 5, START_SECONDS, lambda: logs(tmp_path))
    hosts[1].cable("down")
    wait_for(lambda: agents[1].poll() is not None, 120, lambda: logs(tmp_path))
    assert "does not answer any more" in (tmp_path / "host2.log").read_text()
    agents[0].terminate()
    agents[0].wait(60)
    hosts[1].cable("up")
    agents = [
        host.start(
            tmp_path,
            f"host{host.number}_again.log",
            *("train", "--mode", "cluster", "--resume", "run", "--total-timesteps", "2560"),
        )
        for host in hosts
    ]
    assert ended(agents, tmp_path) == [0, 0], logs(tmp_path)
    assert updates(tmp_path) == 20
