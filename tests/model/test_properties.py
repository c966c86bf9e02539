"""What must hold for every model: padding, batches and caching change nothing; gradients are scaled where due."""

from __future__ import annotations

import random

import pytest
import torch
from helpers import EOS, PAD, build, gradients, pad, random_sentences, shift, small_config
from torch import Tensor
from torch.testing import assert_close

from convs2s.config import AttentionOrder, EncoderGradient, ModelConfig, SourcePadding
from convs2s.model import ConvS2S

TIGHT = {"rtol": 0.0, "atol": 1e-10}


# --- a sentence does not know its batch -----------------------------------------------------------------------------


@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
@pytest.mark.parametrize("encoder_kernel", [2, 3, 5])
def test_a_batch_changes_nothing(encoder_kernel: int, left: bool) -> None:
    """Fault: padding leaks into convolutions, attention, the sqrt(m) factor or positions."""
    config = small_config([(6, encoder_kernel), (8, 3)], [(6, 3), (5, 4)])
    model = build(config)
    lengths = [5, 20, 1, *(1 + 7 * i % 19 for i in range(61))]
    sources = random_sentences(1, lengths, 13)
    targets = random_sentences(2, [4, *(1 + 5 * i % 11 for i in range(63))], 11)
    source, target_input = pad(sources, left), pad(shift(targets), left=False)
    assert len(source) == 64
    encoded = model.encode(source)
    decoded = model.decode(encoded, target_input)
    log_probabilities = model(source, target_input)
    for b in (0, 1, 2, 17, 63):
        real = source[b] != PAD
        steps = len(targets[b])
        alone_source, alone_input = torch.tensor([sources[b]]), torch.tensor(shift([targets[b]]))
        alone = model.encode(alone_source)
        assert_close(encoded.keys[b, real], alone.keys[0], **TIGHT)
        assert_close(encoded.values[b, real], alone.values[0], **TIGHT)
        alone_decoded = model.decode(alone, alone_input)
        for batched, single in zip(decoded.attention, alone_decoded.attention, strict=True):
            assert_close(batched[b, :steps][:, real], single[0], **TIGHT)
            assert not batched[b][:, ~real].any()
        assert_close(log_probabilities[b, :steps], model(alone_source, alone_input)[0], **TIGHT)
    for attention in decoded.attention:
        assert_close(attention.sum(2), torch.ones(target_input.shape, dtype=torch.float64), **TIGHT)


def test_mask_survives_huge_padding_scores() -> None:
    """Fault: padding is masked by adding a large number or after the softmax, so that a huge score shines through."""
    model = build(small_config([(6, 3)], [(6, 3)]), spread=1e3)
    sources, targets = random_sentences(1, [2, 9], 13), random_sentences(2, [4, 4], 11)
    decoded = model.decode(model.encode(pad(sources, left=True)), pad(shift(targets), left=False))
    assert not decoded.attention[0][0, :, :7].any()
    assert_close(decoded.attention[0][0].sum(1), torch.ones(4, dtype=torch.float64), **TIGHT)


def test_original_padding_is_seen() -> None:
    """Fault: source_padding=original masks after all."""
    options = {"source_padding": SourcePadding.original}
    model = build(small_config([(6, 3)], [(6, 3)], **options))
    sources, target_input = random_sentences(1, [3, 6], 13), torch.tensor([[EOS, 4, 5]] * 2)
    padded = model(pad(sources, left=True), target_input)
    alone = model(torch.tensor(sources[:1]), target_input[:1])
    assert float((padded[0] - alone[0]).detach().abs().max()) > 1e-3


def test_gradient_of_a_batch_is_the_sum_of_its_sentences() -> None:
    """Fault: padded places get or give gradient; the encoder's factor is lost or doubled when gradients accumulate."""
    model = build(small_config([(6, 3), (7, 4)], [(6, 3), (5, 2)]))
    sources, targets = random_sentences(1, [2, 7, 4], 13), random_sentences(2, [5, 1, 3], 11)
    model.loss(pad(sources, True), pad(shift(targets), False), pad(targets, False)).backward()
    whole = gradients(model)
    model.zero_grad()
    for source, target in zip(sources, targets, strict=True):
        model.loss(torch.tensor([source]), torch.tensor(shift([target])), torch.tensor([target])).backward()
    for name, gradient in gradients(model).items():
        assert_close(gradient, whole[name], **TIGHT, msg=name)


@pytest.mark.parametrize("padding", list(SourcePadding))
def test_pad_rows_are_used_or_not_but_never_learn(padding: SourcePadding) -> None:
    """Fault: the rows of <pad> are trained; or masked results depend on them; or original ones do not."""
    model = build(small_config([(6, 3)], [(6, 3)], source_padding=padding))
    sources, targets = random_sentences(1, [2, 7], 13), random_sentences(2, [5, 1], 11)
    batch = pad(sources, True), pad(shift(targets), False), pad(targets, False)
    before = model.loss(*batch)
    before.backward()
    names = [f"{side}.embed_{kind}.weight" for side in ("encoder", "decoder") for kind in ("tokens", "positions")]
    tables = [model.get_parameter(name) for name in names]
    assert all(table.grad is not None and not table.grad[PAD].any() for table in tables)
    assert all(table.grad is not None and table.grad[PAD + 1].any() for table in (tables[1], tables[3]))
    with torch.no_grad():
        for table in tables[:2]:
            table[PAD] += 1
    changed = abs(float((model.loss(*batch) - before).detach())) > 1e-6
    assert changed == (padding == SourcePadding.original)


# --- incremental decoding --------------------------------------------------------------------------------------------


def check_steps(model: ConvS2S, source: Tensor, beam: int, steps: int, seed: int) -> None:
    """Random tokens, random parents, sentences that leave: each step must equal the full forward pass."""
    generator = random.Random(seed)
    words = [0, *range(EOS + 1, model.target_vocabulary)]
    sentences = list(range(len(source)))
    histories = [[[EOS] for _ in range(beam)] for _ in sentences]
    state = model.start(model.encode(source), beam)
    for step in range(steps):
        tokens = torch.tensor([[history[-1] for history in rows] for rows in histories])
        log_probabilities, attention = model.step(tokens, state)
        prefixes = torch.tensor([history for rows in histories for history in rows])
        repeated = source[torch.tensor(sentences).repeat_interleave(beam)]
        shape = (len(sentences), beam, -1)
        assert_close(log_probabilities, model(repeated, prefixes)[:, -1].reshape(shape), **TIGHT)
        layers = model.decode(model.encode(repeated), prefixes).attention
        nothing = torch.zeros(len(repeated), source.shape[1], dtype=torch.float64)
        mean = torch.stack([layer[:, -1] for layer in layers]).mean(0) if layers else nothing
        # the state may have dropped columns that are padding in every sentence that is left
        full = mean.reshape(shape)
        width = attention.shape[2]
        if width < full.shape[2]:
            assert not full[..., : full.shape[2] - width].any()
            full = full[..., full.shape[2] - width :]
        assert_close(attention, full, **TIGHT)

        parents = [[generator.randrange(beam) for _ in range(beam)] for _ in sentences]
        histories = [
            [histories[b][parent] + [generator.choice(words)] for parent in parents[b]] for b in range(len(sentences))
        ]
        rows = torch.tensor([[b * beam + parent for parent in row] for b, row in enumerate(parents)])  # (B, K)
        if step != steps // 2 or len(sentences) == 1:
            state.reorder(rows.flatten())
        else:
            gone = generator.randrange(len(sentences))
            kept = [b for b in range(len(sentences)) if b != gone]
            state.keep(torch.tensor(kept), rows[kept].flatten(), state.width)
            sentences, histories = [sentences[b] for b in kept], [histories[b] for b in kept]


@pytest.mark.parametrize("kernel", range(1, 8))
def test_step_is_the_full_forward_for_every_kernel(kernel: int) -> None:
    """Fault: a layer's cache is too short, does not start from zeros, or is reordered or thinned wrongly."""
    model = build(small_config([(6, 3)], [(6, kernel), (5, kernel)], attention=[2]), seed=kernel)
    check_steps(model, pad(random_sentences(kernel, [4, 6, 2], 13), left=True), beam=3, steps=9, seed=kernel)


STEP_CASES: dict[str, ModelConfig] = {
    **{
        f"attention {subset}": small_config([(6, 3)], [(5, 3), (6, 2), (6, 3)], attention=subset)
        for subset in ([], [1], [2], [3], [1, 2], [1, 3], [2, 3], [1, 2, 3], None)
    },
    "mixed kernels": small_config([(6, 3)], [(5, 7), (6, 1), (6, 2)]),
    "bottleneck": small_config([(4, 3)], [(4, 3), (8, 2)], bottleneck=2),
    "paper": small_config([(6, 3)], [(5, 3), (6, 2)], attention_order=AttentionOrder.paper, weight_norm_eps=0.0),
    "no positions": small_config([(6, 3)], [(5, 3), (6, 2)], decoder_positions=False),
    "original padding": small_config([(6, 3)], [(5, 3), (6, 2)], source_padding=SourcePadding.original),
}


@pytest.mark.parametrize("case", STEP_CASES)
def test_step_is_the_full_forward(case: str) -> None:
    """Fault: step forgets an option, a residual, the position, or the mean over the layers that attend."""
    model = build(STEP_CASES[case], seed=3)
    check_steps(model, pad(random_sentences(5, [4, 6, 2], 13), left=True), beam=2, steps=7, seed=4)


def test_step_runs_to_the_end_of_the_position_table() -> None:
    """Fault: the position of the last step allowed is one off the table."""
    model = build(small_config([(6, 3)], [(6, 3)], max_positions=9))
    assert model.max_source_length == model.max_target_length == 7
    check_steps(model, torch.tensor(random_sentences(1, [7], 13)), beam=1, steps=7, seed=1)


# --- options have an effect -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_positions_off(side: str) -> None:
    """Fault: positions=false is ignored, or the wrong side's are left out."""
    layers = {"encoder": [(6, 1)], "decoder": [(6, 1)]}
    model = build(small_config(**layers, **{f"{side}_positions": False}))
    assert not any(name.startswith(f"{side}.embed_positions") for name, _ in model.named_parameters())
    other = "decoder" if side == "encoder" else "encoder"
    assert model.get_parameter(f"{other}.embed_positions.weight").shape == (40, 6)
    # without positions and with kernel 1, the order of the source (or the place in the target) makes no difference
    source, target_input = torch.tensor([[4, 5, 6, EOS]]), torch.tensor([[5, 5, 5]])
    if side == "encoder":
        assert_close(model(source, target_input), model(source.flip(1), target_input), **TIGHT)
    else:
        out = model(source, target_input)
        assert_close(out[:, 0], out[:, 2], **TIGHT)
    with_positions = build(small_config(**layers))
    if side == "encoder":
        difference = with_positions(source, target_input) - with_positions(source.flip(1), target_input)
    else:
        out = with_positions(source, target_input)
        difference = out[:, 0] - out[:, 2]
    assert float(difference.detach().abs().max()) > 1e-3


@pytest.mark.parametrize("attention", [[2], [1, 3], None])
def test_gradient_factor(attention: list[int] | None) -> None:
    """Fault: the factor counts all layers, touches embeddings or the decoder, misses a layer, or changes the loss."""
    batch = torch.tensor([[4, 5, 6, EOS]]), torch.tensor([[EOS, 5, 7]]), torch.tensor([[5, 7, EOS]])
    found, losses = {}, []
    for option in EncoderGradient:
        config = small_config([(6, 3), (7, 3)], [(6, 3), (6, 3), (5, 3)], attention=attention, encoder_gradient=option)
        model = build(config).train()
        loss = model.loss(*batch)
        loss.backward()
        losses.append(float(loss.detach()))
        found[option] = gradients(model)
    assert len(set(losses)) == 1
    count = 3 if attention is None else len(attention)
    for name, plain in found[EncoderGradient.unscaled].items():
        assert plain.any(), name
        inside = name.startswith("encoder.") and ".embed_" not in name
        for option, factor in ((EncoderGradient.original, 2 * count), (EncoderGradient.paper, count)):
            assert_close(found[option][name], plain / (factor if inside else 1), rtol=1e-10, atol=1e-13, msg=name)


def test_attention_order_matters() -> None:
    """Fault: attention_order=paper is the original's order."""
    logits = []
    for order in AttentionOrder:
        model = build(small_config([(6, 3)], [(6, 3), (6, 3)], attention_order=order))
        logits.append(model.logits(torch.tensor([[4, 5, EOS]]), torch.tensor([[EOS, 4]])))
    assert float((logits[0] - logits[1]).detach().abs().max()) > 1e-3


def test_forward_is_normalised_and_loss_agrees() -> None:
    """Fault: forward returns logits, or loss uses another distribution than forward."""
    model = build(small_config([(6, 3)], [(6, 3)]))
    sources, targets = random_sentences(1, [4, 2], 13), random_sentences(2, [3, 5], 11)
    target, target_input = pad(targets, False), pad(shift(targets), False)
    log_probabilities = model(pad(sources, True), target_input)
    assert_close(log_probabilities.exp().sum(2), torch.ones(target.shape, dtype=torch.float64), **TIGHT)
    picked = log_probabilities.gather(2, target[..., None])[..., 0][target != PAD]
    assert_close(model.loss(pad(sources, True), target_input, target), -picked.sum(), **TIGHT)


def test_loss_of_many_positions() -> None:
    """Fault: a loss computed in pieces loses the last piece, or a gradient of one; or ignores what follows it."""
    model = build(small_config([(6, 3)], [(6, 3)], max_positions=100))
    targets = random_sentences(2, [97 - i % 50 for i in range(30)], 11)
    source = pad(random_sentences(1, [3 + i % 5 for i in range(30)], 13), True)
    target, target_input = pad(targets, False), pad(shift(targets), False)
    assert target.numel() > 2500
    picked = model(source, target_input).gather(2, target[..., None])[..., 0][target != PAD]
    (-2.5 * picked.sum()).backward()
    expected = gradients(model)
    model.zero_grad()
    loss = model.loss(source, target_input, target)
    assert_close(loss, -picked.sum(), rtol=1e-12, atol=0.0)
    (2.5 * loss).backward()
    for name, gradient in gradients(model).items():
        assert_close(gradient, expected[name], rtol=1e-9, atol=1e-9, msg=name)


@torch.no_grad()
def test_folded_weights() -> None:
    """Fault: weights computed once for inference differ, or outlive the parameters they came from."""
    config = small_config([(6, 3), (7, 2)], [(6, 3)])
    model, other = build(config, seed=1), build(config, seed=2)
    batch = torch.tensor([[4, 5, EOS]]), torch.tensor([[EOS, 4]])
    before = model(*batch)
    model.fold()
    assert_close(model(*batch), before, **TIGHT)
    model.load_state_dict(other.state_dict())
    assert_close(model(*batch), other(*batch), **TIGHT)
    model.fold()
    model.train()
    for parameter in model.parameters():
        parameter.mul_(1.5)
    model.eval()
    other_again = build(config, seed=2)
    for parameter in other_again.parameters():
        parameter.mul_(1.5)
    assert_close(model(*batch), other_again(*batch), **TIGHT)
