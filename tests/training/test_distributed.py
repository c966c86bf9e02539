"""Several processes train as one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from runs import assert_same_state, metrics, tiny_config, trained

from convs2s.training import checkpoint
from convs2s.training.distributed import agree

WORKER = Path(__file__).parent / "worker.py"


def command(folder: Path, run: str, flags: tuple[str, ...], events: tuple[int, ...], **options: Any) -> list[str]:
    """How torchrun is started on the tiny training; flags are torchrun's, events the worker's."""
    tiny_config(folder)  # writes the corpus
    torchrun = [sys.executable, "-m", "torch.distributed.run", *flags]
    return [*torchrun, str(WORKER), str(folder), run, json.dumps(options), *map(str, events)]


def launch(
    folder: Path, run: str, processes: int, *flags: str, events: tuple[int, ...] = (), status: int = 0, **options: Any
) -> str:
    """Train in so many processes of this machine; returns what they said."""
    flags = ("--standalone", f"--nproc-per-node={processes}", *flags)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command(folder, run, flags, events, **options), env=environment, capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr[:6000]
    return done.stderr


def last(folder: Path, run: str) -> dict[str, Any]:
    return checkpoint.load(folder / run / "checkpoints" / "last.pt")


@pytest.mark.timeout(280)
def test_ranks_equal_one_process(tmp_path: Path) -> None:
    """Fault: gradients are averaged over ranks, clipped before they are summed, a rank without a batch hangs all, or
    the ranks do not meet again after validation.

    The epoch's 8 batches make groups of 6 and 2: in the second, ranks have one batch or none.
    """
    options = {
        "model__dropout": 0.0,
        "training__max_epochs": 3,
        "training__validation_bleu": True,
        "search__max_length": 8,
    }
    torch.set_default_dtype(torch.float64)
    try:
        one = trained(tiny_config(tmp_path, "alone", training__accumulate=6, **options))
    finally:
        torch.set_default_dtype(torch.float32)
    for processes in (2, 3):
        launch(tmp_path, f"ranks{processes}", processes, training__accumulate=6 // processes, **options)
        other = last(tmp_path, f"ranks{processes}")
        assert other["progress"]["update"] == one["progress"]["update"] == 6
        for name, weight in one["model"].items():
            assert weight.dtype == torch.float64
            assert (weight - other["model"][name]).abs().max() < 1e-9, name
        assert abs(one["progress"]["best_loss"] - other["progress"]["best_loss"]) < 1e-9
        assert one["progress"]["best_bleu"] == other["progress"]["best_bleu"]
        run = tmp_path / f"ranks{processes}"
        assert len(metrics(tiny_config(tmp_path, run.name)).splitlines()) == 5, "only one process writes"


def test_every_start_agrees_on_a_name_of_its_own() -> None:
    """Fault: a process that comes back, before the others do, takes up the connection of the dead ones."""
    store = dist.HashStore()  # type: ignore[attr-defined]

    def start(ranks: list[int]) -> set[str]:
        """The names that the ranks agree on, coming in this order."""
        with ThreadPoolExecutor(3) as threads:
            names = []
            for rank in ranks:
                names.append(threads.submit(agree, store, rank, 3))
                time.sleep(0.1)
            return {name.result(timeout=60) for name in names}

    starts = [start([0, 1, 2]), start([1, 2, 0]), start([2, 0, 1])]
    assert [len(names) for names in starts] == [1, 1, 1]
    assert len(set.union(*starts)) == 3


@pytest.mark.timeout(280)
def test_a_killed_worker_comes_back(tmp_path: Path) -> None:
    """Fault: after a restart the ranks disagree on the data, or the lock of the dead process keeps the run; or when
    torchrun is told to end, the ranks stop at different updates, save nothing, or do not go on from there."""
    options = {"training__save_every": 2}
    launch(tmp_path, "whole", 2, **options)
    said = launch(tmp_path, "killed", 2, "--max-restarts=2", events=(5, 6), status=1, **options)
    assert (tmp_path / "died").exists()
    assert "got signal: 15" in said
    assert last(tmp_path, "killed")["progress"]["update"] == 7
    launch(tmp_path, "killed", 2, **options)
    whole, killed = last(tmp_path, "whole"), last(tmp_path, "killed")
    for part in ("model", "optimizer", "schedule", "progress"):
        assert_same_state(whole[part], killed[part], part)
    assert metrics(tiny_config(tmp_path, "whole")) == metrics(tiny_config(tmp_path, "killed"))


@pytest.fixture
def two_hosts() -> Iterator[list[tuple[str, str]]]:
    """Two network namespaces that see nothing but each other: (name, address) of each."""
    hosts = [(f"convs2s{os.getpid()}{side}", f"10.217.3.{i}") for i, side in enumerate("ab", start=1)]
    (one, _), (other, _) = hosts
    made = [["netns", "add", one], ["netns", "add", other]]
    made.append(["link", "add", "pair", "netns", one, "type", "veth", "peer", "name", "pair", "netns", other])
    for name, address in hosts:
        made += [["-n", name, "address", "add", f"{address}/24", "dev", "pair"]]
        made += [["-n", name, "link", "set", device, "up"] for device in ("lo", "pair")]
    try:
        for arguments in made:
            if shutil.which("ip") is None or subprocess.run(["ip", *arguments], capture_output=True).returncode:
                pytest.skip("this machine allows no network namespaces")
        yield hosts
    finally:
        for name, _ in hosts:
            if shutil.which("ip") is not None:
                subprocess.run(["ip", "netns", "delete", name], capture_output=True)


@pytest.mark.timeout(280)
def test_two_hosts(tmp_path: Path, two_hosts: list[tuple[str, str]]) -> None:
    """Fault: processes of another host do not find the first one's, or not again after one was killed."""
    options = {"model__dropout": 0.0, "training__save_every": 2}
    torch.set_default_dtype(torch.float64)
    try:
        one = trained(tiny_config(tmp_path, "alone", training__accumulate=2, **options))
    finally:
        torch.set_default_dtype(torch.float32)
    agents = []
    for i, (name, address) in enumerate(two_hosts):
        flags = ("--nnodes=2", "--nproc-per-node=1", "--max-restarts=3", f"--local-addr={address}")
        rendezvous = ("--rdzv-backend=c10d", f"--rdzv-endpoint={two_hosts[0][1]}:29400", "--rdzv-id=tiny")
        rendezvous = (*rendezvous, f"--rdzv-conf=is_host={1 - i}")  # it would ask the name service
        start = ["ip", "netns", "exec", name, *command(tmp_path, "hosts", (*flags, *rendezvous), (5,), **options)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "pair"}
        agents.append(subprocess.Popen(start, env=environment, stderr=subprocess.PIPE, text=True))
    try:
        said = [agent.communicate()[1] for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    assert [agent.returncode for agent in agents] == [0, 0], "".join(text[-3000:] for text in said)
    assert (tmp_path / "died").exists()
    other = last(tmp_path, "hosts")
    assert other["progress"]["update"] == one["progress"]["update"]
    for name, weight in one["model"].items():
        assert (weight - other["model"][name]).abs().max() < 1e-9, name
