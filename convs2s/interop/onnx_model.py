"""Decoding with exported graphs: NumPy and onnxruntime, no PyTorch.

B sentences · S source length · T target length · V vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convs2s.errors import UserError

Array = NDArray[Any]
MODELS = ("encoder.onnx", "decoder_step.onnx")


class OnnxModel:
    """The two graphs of a folder that ``onnx_export`` wrote."""

    def __init__(self, folder: str | Path) -> None:
        """Raises UserError where the folder or onnxruntime is missing."""
        try:
            import onnxruntime
        except ImportError:
            raise UserError("exported models need onnxruntime: pip install -e '.[export]'") from None
        folder = Path(folder)
        try:
            self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            self.config["windows"]
            for name in MODELS:
                (folder / name).stat()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{folder}: not a folder that convert.py to=onnx wrote ({error!s:.80})") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self.encoder, self.step = (
            onnxruntime.InferenceSession(str(folder / name), options, providers=["CPUExecutionProvider"])
            for name in MODELS
        )

    def encode(self, source: Array) -> dict[str, Array]:
        """source (B, S) ids, padded on either side -> what the decoder's steps want, by name."""
        names = [output.name for output in self.encoder.get_outputs()]
        return dict(zip(names, self.encoder.run(None, {"source": source}), strict=True))

    def start(self, batch: int, beam: int = 1) -> dict[str, Array]:
        """Windows before the first word."""
        shapes = self.config["windows"]
        return {f"windows_{i}": np.zeros((batch, beam, *shape), np.float32) for i, shape in enumerate(shapes)}

    def advance(
        self, tokens: Array, position: int, encoded: dict[str, Array], windows: dict[str, Array]
    ) -> tuple[Array, Array, dict[str, Array]]:
        """tokens (B, K) -> log-probabilities (B, K, V), attention (B, K, S) and the next windows."""
        feed = {"tokens": tokens, "position": np.array(position), **encoded, **windows}
        wanted = {node.name for node in self.step.get_inputs()}
        found = self.step.run(None, {name: value for name, value in feed.items() if name in wanted})
        following = {f"windows_{i}": value for i, value in enumerate(found[2:])}
        return found[0], found[1], following

    def greedy(self, sources: Sequence[Sequence[int]], max_length: int) -> list[list[int]]:
        """The most probable word, one after the other, until </s>; never </s> first.

        sources: ids with </s>, of one length where config.json says ``equal_lengths_only``.
        max_length: words before </s> at most, as in ``SearchConfig``.
        """
        pad, eos = self.config["ids"]["pad"], self.config["ids"]["eos"]
        longest = max(map(len, sources))
        source = np.array([[*ids, *[pad] * (longest - len(ids))] for ids in sources], np.int64)
        encoded, windows = self.encode(source), self.start(len(sources))
        tokens = np.full((len(sources), 1), eos, np.int64)
        results: list[list[int]] = [[] for _ in sources]
        limit = min(max_length, self.config["max_target_length"] - 1)
        for position in range(limit + 1):
            scores, _, windows = self.advance(tokens, position, encoded, windows)
            if position == 0:
                scores[..., eos] = -np.inf
            if position == limit:
                scores[..., np.arange(scores.shape[-1]) != eos] = -np.inf
            tokens = scores.argmax(-1)  # (B, 1)
            for ids, token in zip(results, tokens[:, 0], strict=True):
                if not ids or ids[-1] != eos:
                    ids.append(int(token))
            if all(ids[-1] == eos for ids in results):
                break
        return results
