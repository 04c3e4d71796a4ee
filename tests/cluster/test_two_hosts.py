"""Training over two hosts, which are real to everything but the electricity bill: `make test-cluster`."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlcb.runs.checkpoint import load_checkpoint
from tests.cluster.hosts import WHY_NOT, Host, can_make_hosts, two_hosts
from tests.cluster.training import PPO, SIZES, START_SECONDS, ended, logs, records, start, summary, updates, wait_for
from tests.conftest import assert_equal

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(not can_make_hosts(), reason=WHY_NOT)]


IMPALA = ["--algo", "impala", "--num-actors", "2", *SIZES]
A3C = ["--algo", "a3c", "--num-workers", "2", *SIZES]


@pytest.fixture
def hosts() -> Iterator[list[Host]]:
    with two_hosts() as both:
        yield both


@pytest.mark.parametrize(
    "words",
    [
        PPO,
        ["--algo", "a2c", "--num-workers", "4", *SIZES],
        IMPALA,
        A3C,
    ],
    ids=lambda words: words[1],
)
def test_every_algorithm(hosts: list[Host], tmp_path: Path, words: list[str]) -> None:
    agents = start(hosts, tmp_path, *words, "--total-timesteps", "640")
    assert ended(agents, tmp_path) == [0, 0], logs(tmp_path)
    assert summary(tmp_path)["status"] == "finished"
    assert summary(tmp_path)["total_timesteps"] >= 640


def test_a3c_goes_on_with_another_number_of_hosts(hosts: list[Host], tmp_path: Path) -> None:
    """Each of them does its part of what is left, and no more."""
    words = ["--algo", "a3c", "--num-workers", "2", "--total-timesteps", "640", *SIZES]
    one = start(hosts[:1], tmp_path, *words)
    assert ended(one, tmp_path) == [0], logs(tmp_path)
    for number, steps in ((2, 1280), (1, 1920)):
        again = ["--resume", "run", "--total-timesteps", str(steps)]
        agents = start(hosts[:number], tmp_path, *again, part=f"_{number}")
        assert ended(agents, tmp_path) == [0] * number, logs(tmp_path)
        assert steps <= summary(tmp_path)["total_timesteps"] < steps + 256


@pytest.mark.parametrize("workers", ["2", "4"])
def test_it_is_the_experiment_of_one_machine(workers: str, hosts: list[Host], tmp_path: Path) -> None:
    """Bit for bit."""
    words = [*PPO, "--total-timesteps", "640", "--num-workers", workers]
    agents = start(hosts, tmp_path, *words)
    assert ended(agents, tmp_path) == [0, 0], logs(tmp_path)
    alone = tmp_path / "alone"
    alone.mkdir()
    one = hosts[0].start(alone, "one.log", "train", "--mode", "parallel", *words)
    assert ended([one], alone) == [0], logs(alone)
    far = load_checkpoint(tmp_path / "run/checkpoints/ppo_cluster_final.pt")["execution"]
    near = load_checkpoint(alone / "run/checkpoints/ppo_parallel_final.pt")["execution"]
    assert_equal(far, near)
    memory = [summary(folder)["peak_memory_gb"] for folder in (tmp_path, alone)]
    assert memory[0] > memory[1], "memory of the second host is counted: it shares nothing with the first"


@pytest.fixture
def named(hosts: list[Host]) -> Iterator[list[Host]]:
    """The first calls itself by an address of the loopback, as machines with Debian do."""
    folders = [Path("/etc/netns", host.name) for host in hosts]
    for folder, address in zip(folders, ("127.0.1.1", hosts[0].address), strict=True):
        folder.mkdir(parents=True)
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{address} node1\n")
    yield hosts
    for folder in folders:
        shutil.rmtree(folder)


def test_a_first_host_that_calls_itself_by_the_loopback(named: list[Host], tmp_path: Path) -> None:
    first = ["train", "--mode", "cluster", "--nodes", "2", "--master-addr", "node1"]
    alone = named[0].start(tmp_path, "alone.log", *first, *PPO)
    assert alone.wait(60) == 2
    assert "others cannot reach (127.0.1.1)" in logs(tmp_path)
    agents = [
        host.start(
            tmp_path, f"{host.name}.log", *first, "--interface", host.interface, *PPO, "--total-timesteps", "640"
        )
        for host in named
    ]
    assert ended(agents, tmp_path) == [0, 0], logs(tmp_path)


def test_nothing_listens_where_it_was_not_asked_to(hosts: list[Host], tmp_path: Path) -> None:
    agents = start(hosts, tmp_path, *PPO)
    wait_for(lambda: updates(tmp_path) >= 2, START_SECONDS, lambda: logs(tmp_path))
    for host in hosts:
        listening = [line.split()[3] for line in host.run("ss", "-Hltn").splitlines()]
        assert listening
        assert {place.rpartition(":")[0] for place in listening} <= {host.address}
    agents[1].send_signal(15)  # one node's signal is enough
    codes = ended(agents, tmp_path)
    assert codes == [143, 143], logs(tmp_path)
    assert summary(tmp_path)["status"] == "interrupted"


@pytest.mark.parametrize("words", [PPO, IMPALA, A3C], ids=["ppo", "impala", "a3c"])
def test_the_others_go_on_without_a_lost_host(hosts: list[Host], tmp_path: Path, words: list[str]) -> None:
    agents = start(hosts, tmp_path, *words, "--min-nodes", "1", "--timeout", "10", "--total-timesteps", "5120")
    wait_for(lambda: updates(tmp_path) >= 5, START_SECONDS, lambda: logs(tmp_path))
    hosts[1].kill()
    codes = ended(agents, tmp_path)
    assert codes[0] == 0, logs(tmp_path)
    assert summary(tmp_path)["status"] == "finished"
    assert 5120 <= summary(tmp_path)["total_timesteps"] < 5120 + 256
    if words is PPO:
        assert updates(tmp_path) == 40


def test_a_cut_cable_ends_in_a_checkpoint_to_go_on_from(hosts: list[Host], tmp_path: Path) -> None:
    agents = start(hosts, tmp_path, *PPO, "--timeout", "5", "--total-timesteps", "2560")
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


def test_a_frozen_first_host_ends_in_a_checkpoint_to_go_on_from(hosts: list[Host], tmp_path: Path) -> None:
    agents = start(hosts, tmp_path, *PPO, "--timeout", "10", "--total-timesteps", "10_000_000")
    wait_for(lambda: updates(tmp_path) >= 5, START_SECONDS, lambda: logs(tmp_path))
    hosts[0].send(signal.SIGSTOP)
    wait_for(lambda: agents[1].poll() is not None, 60, lambda: logs(tmp_path))
    assert agents[1].returncode == 1
    assert "does not answer any more" in (tmp_path / "host2.log").read_text()
    hosts[0].kill()
    agents[0].wait(60)
    agents = start(hosts, tmp_path, "--resume", "run", "--total-timesteps", "2560", part="_again")
    assert ended(agents, tmp_path) == [0, 0], logs(tmp_path)


@pytest.mark.parametrize("lost", ["power", "cable"])
def test_a_lost_host_that_comes_back_is_taken_in_again(hosts: list[Host], tmp_path: Path, lost: str) -> None:
    words = [*PPO, "--min-nodes", "1", "--timeout", "10", "--save-interval", "50", "--total-timesteps", "10_000_000"]
    first, second = start(hosts, tmp_path, *words)
    wait_for(lambda: workers(tmp_path) == 2, START_SECONDS, lambda: logs(tmp_path))
    hosts[1].kill() if lost == "power" else hosts[1].cable("down")
    wait_for(lambda: second.poll() is not None, 120, lambda: logs(tmp_path))
    wait_for(lambda: workers(tmp_path) == 1, 120, lambda: logs(tmp_path))
    hosts[1].cable("up")
    (again,) = start(hosts, tmp_path, *words, on=hosts[1:], part="_again")
    wait_for(lambda: workers(tmp_path) == 2, 120, lambda: logs(tmp_path))
    again.terminate()
    assert ended([first, again], tmp_path) == [143, 143], logs(tmp_path)
    counted = [record["updates"] for record in records(tmp_path)]
    assert counted == list(range(1, len(counted) + 1)), "an update is missing, or was counted twice"


def workers(folder: Path) -> int:
    """That took part in the last update."""
    learnt = [name for record in records(folder)[-1:] for name in record if name.endswith("learn_seconds")]
    return max(1, sum(name.startswith("worker_") for name in learnt)) if learnt else 0
