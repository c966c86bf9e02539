"""Options that only models of the PyTorch release use: residuals, shared output, target positions, gradient scale."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers import EOS, build, gradients, pad, random_sentences, shift, small_config

from convs2s.config import EncoderGradient, ModelConfig
from convs2s.errors import UserError
from convs2s.model import ConvS2S


def config(encoder: list[int] | None = None, decoder: list[int] | None = None, **options: Any) -> ModelConfig:
    """Three layers a side, with these residuals."""
    made = small_config([(6, 3), (4, 3), (6, 3)], [(6, 3), (4, 2), (6, 3)], **options)
    made.encoder.residuals, made.decoder.residuals = encoder, decoder
    return made


def loss(model: ConvS2S) -> torch.Tensor:
    sources = random_sentences(1, [4, 7, 2], model.source_vocabulary)
    targets = random_sentences(2, [5, 3, 6], model.target_vocabulary)
    return model.loss(pad(sources, True), pad(shift(targets), False), pad(targets, False))


def test_residuals_of_one_are_the_default() -> None:
    """Fault: the option's default is another model than no option."""
    plain, spelt = build(config()), build(config([1, 1, 1], [1, 1, 1]))
    assert plain.state_dict().keys() == spelt.state_dict().keys()
    assert torch.equal(loss(plain), loss(spelt))


@pytest.mark.parametrize(
    ("residuals", "projected"), [([1, 1, 1], [1, 2]), ([0, 0, 0], []), ([1, 2, 3], [1]), ([1, 0, 2], [])]
)
def test_a_residual_is_projected_where_its_own_width_differs(residuals: list[int], projected: list[int]) -> None:
    """Fault: the projection is made for the layer's input where an earlier state is added."""
    model = build(config(residuals, residuals))
    for side in (model.encoder, model.decoder):
        assert [i for i, layer in enumerate(side.layers) if layer.residual_proj is not None] == projected
    loss(model).backward()
    assert all(bool(gradient.isfinite().all()) for gradient in gradients(model).values())


@pytest.mark.parametrize("residuals", [[1, 1], [2, 1, 1], [1, 1, -1], [1, 1, 4]])
def test_impossible_residuals_are_refused(residuals: list[int]) -> None:
    """Fault: a residual from before the first layer fails with an index error, or wraps around."""
    with pytest.raises(UserError, match=r"model\.decoder\.residuals"):
        ConvS2S(config(None, residuals), 9, 9)


def test_shared_output_weights_are_one_parameter() -> None:
    """Fault: the output layer has a copy that training moves away from the embeddings."""
    model = build(config(share_output=True, output_embedding=6))
    assert model.decoder.output.weight is model.decoder.embed_tokens.weight
    assert "decoder.output.weight" not in dict(model.named_parameters())
    other = build(config(share_output=True, output_embedding=6), seed=2)
    other.load_state_dict(model.state_dict())
    assert torch.equal(loss(model), loss(other))
    with pytest.raises(UserError, match=r"model\.output_embedding=6"):
        ConvS2S(config(share_output=True, output_embedding=5), 9, 9)


def test_each_side_has_its_own_limit() -> None:
    """Fault: the longer table's limit lets a sentence run off the shorter one."""
    model = build(config(max_positions=12, max_target_positions=8))
    assert (model.max_source_length, model.max_target_length) == (10, 6)
    source, target = torch.full((1, 10), EOS), torch.full((1, 7), EOS)
    encoded = model.encode(source)
    with pytest.raises(ValueError, match="at most 6"):
        model.decode(encoded, target)
    state = model.start(encoded, 1)
    for _ in range(6):
        model.step(torch.tensor([[EOS]]), state)
    with pytest.raises(ValueError, match="at most 6"):
        model.step(torch.tensor([[EOS]]), state)


def test_scaling_at_the_output_reaches_the_embeddings() -> None:
    """Fault: only weights are scaled, or the embeddings' direct way into the values is scaled, too."""
    found = {}
    for kind in (EncoderGradient.unscaled, EncoderGradient.original, EncoderGradient.output):
        model = build(config(encoder_gradient=kind))
        loss(model).backward()
        found[kind] = gradients(model)
    plain, weights, output = found.values()
    for name in plain:
        if name.startswith("encoder.") and "embed" not in name:
            torch.testing.assert_close(output[name], plain[name] / 6, rtol=1e-9, atol=0)
            torch.testing.assert_close(output[name], weights[name], rtol=1e-9, atol=0)
        elif name.startswith("decoder."):
            assert torch.equal(output[name], plain[name])
    tokens = "encoder.embed_tokens.weight"
    assert torch.equal(weights[tokens], plain[tokens])
    assert not torch.allclose(output[tokens], plain[tokens])
    assert not torch.allclose(output[tokens], plain[tokens] / 6)
