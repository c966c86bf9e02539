"""How fast a model translates, per unit of what the machine can do (paper, tables 2 and 3).

The yardstick is the float32 rate of ``torch.mm`` on 2048 x 2048 matrices with the same threads in the same run.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import torch

from convs2s.config import SearchConfig, SearchPrecision
from convs2s.model import Seq2Seq
from convs2s.search.beam import search_sentences
from convs2s.text.vocabulary import EOS, SPECIALS

SIZE = 2048  # of the yardstick's matrices
TRIES = 5
GIB = 2**30


@dataclass
class Speed:
    """One measurement."""

    batch: int
    beam: int
    precision: str
    sentences: int
    sentences_per_second: float
    tokens_per_second: float  # target tokens of the best hypotheses, </s> included
    seconds_per_step: float  # over all batches; a step extends every hypothesis of a batch by a word
    yardstick_gflops: float  # fp32, measured right before and after
    sentences_per_second_per_gflops: float
    gflops: float  # arithmetic of the model in fp32 terms, per second
    share: float  # of the yardstick
    peak_gib: float  # of the device's memory, or of the process on the CPU, so far

    HEADER: ClassVar[str] = (
        "batch  beam  precision  sentences/s  tokens/s  ms/step  yardstick GFLOP/s  sentences/s per GFLOP/s  share  GiB"
    )

    def line(self) -> str:
        """A row under HEADER."""
        return (
            f"{self.batch:5}  {self.beam:4}  {self.precision:>9}  {self.sentences_per_second:11.2f}  "
            f"{self.tokens_per_second:8.0f}  {1000 * self.seconds_per_step:7.2f}  {self.yardstick_gflops:17.1f}  "
            f"{self.sentences_per_second_per_gflops:23.3f}  {self.share:5.2f}  {self.peak_gib:.2f}"
        )


def measure(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    batch: int,
    beam: int,
    precision: SearchPrecision,
    repeat: int,
    max_length: int,
    forced_length: bool = False,
) -> Speed:
    """Translate ``sources`` (ids with </s>) ``repeat`` times with a folded model; the fastest time counts.

    max_length: pieces that a translation may have; a few sentences reach any limit.
    forced_length: translations as long as their sources, for a random model, which would not know when to stop.
    """
    config = SearchConfig(beam=beam, batch_size=batch, batch_tokens=10**9, max_length=max_length)
    if forced_length:
        config.max_length_ratio, config.max_length = 1.0, 0
    steps = 0

    def counted(tokens: torch.Tensor, state: object) -> object:
        nonlocal steps
        steps += 1
        return raw_step(tokens, state)  # type: ignore[arg-type]

    device = next(model.parameters()).device
    raw_step = model.raw_step
    before = yardstick(device)
    seconds = float("inf")
    model.raw_step = counted  # type: ignore[method-assign,assignment]
    try:
        for _ in range(repeat):
            steps = 0
            start = time.perf_counter()
            found = search_sentences(model, sources, config)
            seconds = min(seconds, time.perf_counter() - start)
    finally:
        model.raw_step = raw_step  # type: ignore[method-assign]
    gflops = max(before, yardstick(device))
    best = [hypotheses[0] for hypotheses in found]
    rate = len(sources) / seconds
    arithmetic = sum(operations(model, [len(s) for s in sources], [len(h.ids) for h in best], beam)) / seconds / 1e9
    return Speed(
        batch,
        beam,
        precision.value,
        len(sources),
        rate,
        sum(len(hypothesis.ids) for hypothesis in best) / seconds,
        seconds / steps,
        gflops,
        rate / gflops,
        arithmetic,
        arithmetic / gflops,
        peak_gib(device),
    )


def operations(model: Seq2Seq, sources: Sequence[int], targets: Sequence[int], beam: int) -> list[float]:
    """Floating-point operations (2 per multiplication) of each sentence: weights x the positions they are applied to.

    Attention products are left out; the decoder counts ``beam`` rows for each token of the best hypothesis.
    """
    sides = matrix_weights(model)
    return [
        2.0 * (sides["encoder"] * source + sides["decoder"] * beam * target)
        for source, target in zip(sources, targets, strict=True)
    ]


def matrix_weights(model: Seq2Seq) -> dict[str, int]:
    """How many weights stand in the matrices of encoder and decoder; embeddings, gains and biases do not."""
    sides = {"encoder": 0, "decoder": 0}
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and parameter.shape[1] > 1 and ".embed_" not in name:
            sides[name.partition(".")[0]] += parameter.numel()
    return sides


def yardstick(device: torch.device) -> float:
    """GFLOP/s of a float32 product, the best of TRIES."""
    a = torch.randn(SIZE, SIZE, device=device)
    best = float("inf")
    for _ in range(TRIES):
        start = time.perf_counter()
        product = a @ a
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - start)
        del product
    return 2 * SIZE**3 / best / 1e9


def peak_gib(device: torch.device) -> float:
    """Most memory in use so far: of the GPU's allocator, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / GIB
    status = Path("/proc/self/status")
    if status.exists():  # there the system's figure also counts the process that this one was started from
        found = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return 1024 * int(found.split()[1]) / GIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / GIB


def random_sources(count: int, vocabulary: int, seed: int = 1) -> list[list[int]]:
    """Sentences of 4 to 24 random words and </s>."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(4, 25, (count,), generator=generator).tolist()
    return [
        [*torch.randint(len(SPECIALS), vocabulary, (length,), generator=generator).tolist(), EOS] for length in lengths
    ]


def spread(sources: Sequence[Sequence[int]], count: int) -> list[Sequence[int]]:
    """``count`` of them, evenly spread over their lengths."""
    ordered = sorted(sources, key=len)
    count = min(count, len(ordered))
    return [ordered[i * len(ordered) // count] for i in range(count)]


def as_json(speed: Speed) -> dict[str, object]:
    """A measurement for JSON, six decimals."""
    return {key: round(value, 6) if isinstance(value, float) else value for key, value in asdict(speed).items()}
