"""Several processes that train one model: sums over all of them, one device each.

Started by torchrun; alone, every operation is the identity. gloo on CPU, NCCL on GPU.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from convs2s.errors import UserError

T = TypeVar("T")
BUCKET = 1 << 24  # elements summed over the processes in one message


@dataclass(frozen=True)
class World:
    """This process among all: its rank, their number, its device."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    def sum(self, values: Sequence[float]) -> list[float]:
        """Element by element, in float64, the same result on every rank."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return [float(value) for value in total]

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Replace every gradient by its sum over the ranks; a missing one counts as zero."""
        if self.size == 1:
            return
        grads = []
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            grads.append(parameter.grad)
        bucket: list[Tensor] = []
        for i, grad in enumerate(grads):
            bucket.append(grad)
            if i == len(grads) - 1 or sum(part.numel() for part in bucket) >= BUCKET:
                flat = torch.cat([part.flatten() for part in bucket])
                dist.all_reduce(flat)
                pieces = torch.split(flat, [part.numel() for part in bucket])
                torch._foreach_copy_(bucket, [x.view_as(part) for x, part in zip(pieces, bucket, strict=True)])
                bucket = []

    def gather(self, value: T) -> list[T]:
        """The value of every rank, in their order, on all ranks; plain types."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values


def resolve_device(name: str, local_rank: int = 0, option: str = "device") -> torch.device:
    """auto, cpu, cuda or cuda:N as a device; UserError that names the ``option`` where it is not there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"{option}={name}: give auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda":
        device = torch.device("cuda", local_rank if device.index is None else device.index)
        if not torch.cuda.is_available() or (device.index or 0) >= torch.cuda.device_count():
            raise UserError(
                f"{option}={name}: this machine has {torch.cuda.device_count()} CUDA devices; try {option}=cpu"
            )
    elif device.type != "cpu":
        raise UserError(f"{option}={name}: give auto, cpu, cuda or cuda:N")
    return device


def agree(store: Any, rank: int, size: int) -> str:
    """A name for this start, the same on all ranks and on no others.

    torchrun keeps its store over restarts, so a restarted process finds what dead ones left there; and its count of
    restarts differs between hosts, since a host that only joins the others' restart does not count it. So the first
    rank proposes a name, every other answers with a token of its own, and goes by the name that names its token.
    """
    own = uuid.uuid4().hex
    if rank == 0:
        store.set("start", own)
        tokens = [store.get(f"{own}/{other}").decode() for other in range(1, size)]  # waits for them
        store.set(f"{own}/all", " ".join(tokens))
        return own
    answered = ""
    while True:
        name: str = store.get("start").decode()
        if name != answered:
            store.set(f"{name}/{rank}", own)
            answered = name
        if store.check([f"{name}/all"]) and own in store.get(f"{name}/all").decode().split():
            return name
        time.sleep(0.02)


@contextmanager
def connected(device_name: str) -> Iterator[World]:
    """Join the processes that torchrun started, if it did. Raises UserError for a device that is not there."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    device = resolve_device(device_name, int(os.environ.get("LOCAL_RANK", "0")), "training.device")
    if size == 1:
        yield World(0, 1, device)
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    store, rank, size = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
    store = dist.PrefixStore(agree(store, rank, size), store)  # type: ignore[attr-defined]
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    try:
        try:
            yield World(rank, size, device)
        except RuntimeError as error:  # gloo's own are plain ones
            if isinstance(error, dist.DistError) or "gloo" in str(error):
                raise UserError(
                    "another process of this training has ended; the same command goes on from the last checkpoint"
                ) from error
            raise
        # Nobody leaves while others still wait for its part of a sum; who comes last may find the others gone.
        with suppress(RuntimeError):
            dist.barrier()
    finally:
        dist.destroy_process_group()
