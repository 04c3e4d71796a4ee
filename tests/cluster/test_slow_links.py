"""Long, bad and narrow cables: are they what they say, and does training over them come to the same?"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest
import torch
from torch import Tensor

from rlcb.runs.checkpoint import load_checkpoint
from tests.cluster.hosts import ROOT, WHY_NOT, Host, can_make_hosts, two_hosts
from tests.cluster.relay import QUEUE_BYTES, Way
from tests.cluster.training import PPO, START_SECONDS, ended, logs, records, start, updates, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(not can_make_hosts(), reason=WHY_NOT)]

PORT = 5000
STEPS = ["--total-timesteps", "1280"]


@pytest.mark.parametrize("ping_ms", [0.0, 10.0, 50.0])
def test_latency_is_what_ping_shows(ping_ms: float) -> None:
    with two_hosts(ping_ms=ping_ms) as (first, second):
        first.ping(second)  # the first one asks who has that address, too
        times = [1000 * (first.ping(second) or float("inf")) for _ in range(20)]
    assert ping_ms <= min(times)
    assert median(times) < ping_ms + 2


def test_loss_is_a_share_of_the_frames_and_the_others_keep_their_order() -> None:
    sent, loss = 2000, 0.2
    with two_hosts(ping_ms=4, loss=loss) as (first, second):
        wait_for(lambda: first.ping(second), 30, lambda: "nobody answers")
        with first.socket(socket.SOCK_DGRAM) as sender, second.socket(socket.SOCK_DGRAM) as receiver:
            receiver.bind((second.address, PORT))
            receiver.settimeout(1)

            def send() -> None:
                for number in range(sent):
                    sender.sendto(number.to_bytes(4, "big"), (second.address, PORT))
                    time.sleep(0.0002)

            thread = threading.Thread(target=send)
            thread.start()
            arrived = []
            with suppress(TimeoutError):
                while True:
                    arrived.append(int.from_bytes(receiver.recv(16), "big"))
            thread.join()
    assert arrived == sorted(set(arrived))
    assert abs(len(arrived) / sent - (1 - loss)) < 0.05  # five and a half standard deviations


@pytest.mark.parametrize("cable", [{}, {"ping_ms": 10.0}], ids=["veth", "relay"])
def test_a_narrow_cable_takes_its_time(cable: dict[str, float]) -> None:
    megabytes, mbit = 4, 20
    with two_hosts(mbit=mbit, **cable) as hosts:
        seconds = transfer(hosts, megabytes)
    assert 0.95 * 8 * megabytes / mbit < seconds < 1.25 * 8 * megabytes / mbit + 0.2


def test_the_relay_is_no_bottleneck() -> None:
    """Half a gigabit is more than two workers of one core each have to say."""
    with two_hosts(ping_ms=0.001) as hosts:
        assert 8 * 100 / transfer(hosts, 100) > 500


def transfer(hosts: list[Host], megabytes: int) -> float:
    """Seconds that it takes from the first to the second."""
    first, second = hosts
    with second.socket() as listener, first.socket() as sender:
        listener.bind((second.address, PORT))
        listener.listen(1)
        sender.connect((second.address, PORT))
        receiver, _ = listener.accept()
        with receiver:
            begin = time.perf_counter()
            thread = threading.Thread(target=sender.sendall, args=(bytes(megabytes * 10**6),))
            thread.start()
            left, buffer = megabytes * 10**6, bytearray(2**20)
            receiver.settimeout(60)
            while left:
                left -= receiver.recv_into(buffer)
            thread.join()
            return time.perf_counter() - begin


def test_what_is_under_way_is_bounded() -> None:
    source, end = os.pipe()
    os.set_blocking(source, False)
    os.set_blocking(end, False)
    way = Way(source, target=end, delay=3600, loss=0)
    for _ in range(QUEUE_BYTES // 2**16 + 10):
        os.write(end, bytes(2**16))
        way.take()
    os.close(source)
    os.close(end)
    assert QUEUE_BYTES - 2**16 < way.bytes_under_way <= QUEUE_BYTES


def test_the_relay_does_not_outlive_who_started_it() -> None:
    script = (
        "import time, psutil; from tests.cluster.hosts import two_hosts\n"
        "with two_hosts(ping_ms=1):\n"
        "    print(psutil.Process().children()[0].pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE) as starter:
        assert starter.stdout is not None
        relay = Path("/proc", starter.stdout.readline().decode().strip())
        assert relay.is_dir()
        starter.kill()
    wait_for(lambda: not relay.exists(), 5, lambda: "the relay is still there")
    with two_hosts():  # what a killed one has left is in nobody's way
        pass


def weights(folder: Path) -> dict[str, Tensor]:
    model: dict[str, Tensor] = load_checkpoint(folder / "run/checkpoints/ppo_cluster_final.pt")["execution"]["model"]
    return model


@pytest.fixture(scope="module")
def over_a_fast_cable(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    folder = tmp_path_factory.mktemp("fast")
    with two_hosts() as hosts:
        assert ended(start(hosts, folder, *PPO, *STEPS), folder) == [0, 0], logs(folder)
    return weights(folder)


def assert_the_same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize("cable", [{"ping_ms": 10.0}, {"loss": 0.01}, {"mbit": 200.0}], ids=["long", "bad", "narrow"])
def test_the_cable_changes_time_and_nothing_else(
    cable: dict[str, float], over_a_fast_cable: dict[str, Tensor], tmp_path: Path
) -> None:
    with two_hosts(**cable) as hosts:
        assert ended(start(hosts, tmp_path, *PPO, *STEPS), tmp_path) == [0, 0], logs(tmp_path)
        if "loss" in cable:
            assert min(sent_again(host) for host in hosts) > 0
    assert_the_same(weights(tmp_path), over_a_fast_cable)


def sent_again(host: Host) -> int:
    """Segments of TCP."""
    names, values = (line.split() for line in host.run("cat", "/proc/net/snmp").splitlines() if line.startswith("Tcp:"))
    return int(dict(zip(names, values, strict=True))["RetransSegs"])


def test_a_short_cut_costs_time_and_nothing_else(over_a_fast_cable: dict[str, Tensor], tmp_path: Path) -> None:
    """Shorter than --timeout: what was under way is sent again."""
    with two_hosts() as hosts:
        agents = start(hosts, tmp_path, *PPO, *STEPS)
        wait_for(lambda: updates(tmp_path) >= 2, START_SECONDS, lambda: logs(tmp_path))
        hosts[1].cable("down")
        time.sleep(3)
        hosts[1].cable("up")
        assert ended(agents, tmp_path) == [0, 0], logs(tmp_path)
    times = [record["time/elapsed_seconds"] for record in records(tmp_path)]
    assert max(later - earlier for earlier, later in pairwise(times)) > 3
    assert records(tmp_path)[-1]["system/lost_processes"] == 0
    assert_the_same(weights(tmp_path), over_a_fast_cable)
