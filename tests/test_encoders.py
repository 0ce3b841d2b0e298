"""The dual-stream encoder: shapes, the spectrum, positional encoding, pooling, the noise pathway."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from slotflow.network.config import Config, EncoderConfig
from slotflow.network.paper.encoder import (
    DualStreamEncoder,
    HybridPool,
    Pathway,
    mlp,
    positional_encoding,
    spectrum,
)

TINY = EncoderConfig(channels=(4, 6, 8), heads=2, context=10)


def small_encoder(seed: int, noise: bool = False) -> DualStreamEncoder:
    torch.manual_seed(seed)
    config = EncoderConfig(channels=(4, 6, 8), heads=2, context=10, noise=noise)
    return DualStreamEncoder(config).double().eval()


def small_streams(seed: int, batch: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    long = torch.randn(batch, 120, generator=generator, dtype=torch.float64)
    short = torch.randn(batch, 80, generator=generator, dtype=torch.float64)
    return long, short


# ---------------------------------------------------------------- shapes


def test_paper_token_counts() -> None:
    model = Config.from_preset("paper").model
    encoder = DualStreamEncoder(model.encoder).eval()
    time_tokens: list[torch.Tensor] = []
    encoder.time.register_forward_hook(lambda *args: time_tokens.append(args[-1]))
    with torch.inference_mode():
        encoding = encoder(torch.zeros(1, model.long.n), torch.zeros(1, model.short.n))
    assert encoding.tokens.shape == (1, 375, 128)
    assert time_tokens[0].shape == (1, 1280, 128)
    assert encoding.context.shape == (1, 256)
    assert encoding.noise is None


def test_paper_layers() -> None:
    encoder = DualStreamEncoder(Config.from_preset("paper").model.encoder)
    for pathway, channels in ((encoder.frequency, 2), (encoder.time, 1)):
        convolutions = [m for m in pathway.conv if isinstance(m, nn.Conv1d)]
        sizes = [(c.in_channels, c.out_channels) for c in convolutions]
        assert sizes == [(channels, 32), (32, 64), (64, 128)]
        assert [c.kernel_size[0] for c in convolutions] == [8, 8, 5]
        assert [c.stride[0] for c in convolutions] == [2, 2, 1]
        assert sum(isinstance(m, nn.GELU) for m in pathway.conv) == 3
        assert pathway.attention.num_heads == 4


@pytest.mark.parametrize("n", [40, 41, 42, 43, 97])
def test_pathway_equals_plain_convolutions(n: int, seed: int) -> None:
    torch.manual_seed(seed)
    pathway = Pathway(2, TINY).double()
    x = torch.randn(3, 2, n, dtype=torch.float64)
    h = x
    for layer in pathway.conv:
        if isinstance(layer, nn.Conv1d):
            padding = (layer.kernel_size[0] - 1) // 2
            h = nn.functional.conv1d(
                h, layer.weight, layer.bias, stride=layer.stride[0], padding=padding
            )
        else:
            h = nn.functional.gelu(h)
    torch.testing.assert_close(pathway.conv(x), h)


# ---------------------------------------------------------------- spectrum


@pytest.mark.parametrize("n", [64, 65])
def test_frequency_pathway_sees_the_orthonormal_spectrum(n: int, seed: int) -> None:
    encoder = small_encoder(seed)
    seen: list[torch.Tensor] = []
    encoder.frequency.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    long = np.random.default_rng(seed).normal(size=(2, n))
    encoder(torch.as_tensor(long), torch.zeros(2, 80, dtype=torch.float64))
    k, t = np.arange(n // 2 + 1), np.arange(n)
    x = long @ np.exp(-2j * np.pi * np.outer(t, k) / n) / math.sqrt(n)
    expected = np.stack([x.real, x.imag], axis=1)
    np.testing.assert_allclose(seen[0].numpy(), expected, atol=1e-12)


# ---------------------------------------------------------------- domains


@pytest.mark.parametrize(
    ("domain", "of_long", "of_short"),
    [
        ("time-frequency", "spectrum", "samples"),
        ("time", "samples", "samples"),
        ("frequency", "spectrum", "spectrum"),
    ],
)
def test_pathways_are_given_what_the_domain_says(
    domain: str, of_long: str, of_short: str, seed: int
) -> None:
    torch.manual_seed(seed)
    config = EncoderConfig(channels=(4, 6, 8), heads=2, context=10, noise=True, domain=domain)
    encoder = DualStreamEncoder(config).double()
    seen: dict[str, torch.Tensor] = {}
    for name, pathway in (("long", encoder.frequency), ("short", encoder.time)):
        pathway.register_forward_pre_hook(
            lambda module, args, name=name: seen.update({name: args[0]})
        )
    long, short = small_streams(seed)
    encoding = encoder(long, short)
    for name, stream, kind in (("long", long, of_long), ("short", short, of_short)):
        expected = spectrum(stream) if kind == "spectrum" else stream[:, None]
        assert torch.equal(seen[name], expected), name
    assert encoding.context.shape == (3, 10) and encoding.noise.shape == (3,)


def test_the_default_domain_is_the_papers_and_its_weights_keep_their_names() -> None:
    plain = DualStreamEncoder(TINY)
    stated = DualStreamEncoder(replace(TINY, domain="time-frequency"))
    stated.load_state_dict(plain.state_dict())
    assert plain.frequency.conv[0].in_channels == 2 and plain.time.conv[0].in_channels == 1


# ---------------------------------------------------------------- positional encoding


@pytest.mark.parametrize(("length", "d"), [(1, 2), (7, 6), (50, 128), (5, 3)])
def test_positional_encoding_formula(length: int, d: int) -> None:
    encoding = positional_encoding(length, d, torch.device("cpu"))
    assert encoding.shape == (length, d)
    for p in range(length):
        for j in range(d):
            angle = p / 10_000.0 ** (2 * (j // 2) / d)
            expected = math.sin(angle) if j % 2 == 0 else math.cos(angle)
            assert encoding[p, j].item() == pytest.approx(expected, abs=2e-5)


def test_positional_encoding_tells_positions_apart() -> None:
    encoding = positional_encoding(1280, 128, torch.device("cpu"))
    distance = torch.cdist(encoding, encoding) + 10 * torch.eye(1280)
    assert distance.min() > 0.1


def test_attention_sees_features_plus_positions(seed: int) -> None:
    torch.manual_seed(seed)
    pathway = Pathway(1, TINY)
    seen: list[torch.Tensor] = []
    pathway.attention.register_forward_pre_hook(lambda module, args: seen.extend(args))
    x = torch.randn(2, 1, 64)
    pathway(x)
    h = pathway.conv(x).transpose(1, 2)
    expected = h + positional_encoding(h.shape[1], h.shape[2], h.device)
    assert len(seen) == 3  # query, key and value
    for part in seen:
        torch.testing.assert_close(part, expected)


# ---------------------------------------------------------------- pooling


def test_pool_equals_its_definition(seed: int) -> None:
    torch.manual_seed(seed)
    pool = HybridPool(5).double()
    h = torch.randn(2, 7, 5, dtype=torch.float64)
    first, last = pool.score[0], pool.score[2]
    out = pool(h).detach().numpy()
    for b in range(2):
        scores = [
            float((last.weight @ torch.tanh(first.weight @ token + first.bias)).item())
            for token in h[b]
        ]
        alpha = np.exp(scores) / np.sum(np.exp(scores))
        tokens = h[b].numpy()
        expected = np.concatenate([tokens.mean(0), tokens.max(0), alpha @ tokens])
        np.testing.assert_allclose(out[b], expected, atol=1e-12)


def test_pool_of_one_token_repeats_it(seed: int) -> None:
    torch.manual_seed(seed)
    token = torch.randn(4, 1, 6)
    pooled = HybridPool(6)(token)
    torch.testing.assert_close(pooled, token[:, 0].repeat(1, 3))


def test_pool_ignores_order(seed: int) -> None:
    torch.manual_seed(seed)
    pool, h = HybridPool(6).double(), torch.randn(2, 9, 6, dtype=torch.float64)
    torch.testing.assert_close(pool(h[:, torch.randperm(9)]), pool(h))


def test_mlp_has_one_hidden_layer() -> None:
    layers = list(mlp(3, 4, 5))
    assert [type(m) for m in layers] == [nn.Linear, nn.GELU, nn.Linear]
    assert mlp(3, 4, 5)(torch.zeros(2, 3)).shape == (2, 5)


# ---------------------------------------------------------------- the whole encoder


def test_batched_equals_single(seed: int) -> None:
    encoder = small_encoder(seed, noise=True)
    long, short = small_streams(seed)
    together = encoder(long, short)
    for b in range(3):
        alone = encoder(long[b : b + 1], short[b : b + 1])
        for whole, part in zip(together, alone, strict=True):
            torch.testing.assert_close(whole[b : b + 1], part)


def test_which_stream_reaches_what(seed: int) -> None:
    encoder = small_encoder(seed, noise=True)
    long, short = small_streams(seed)
    base = encoder(long, short)
    other_short, other_long = encoder(long, short.flip(0)), encoder(long.flip(0), short)
    torch.testing.assert_close(other_short.tokens, base.tokens)
    torch.testing.assert_close(other_short.noise, base.noise)
    assert not torch.allclose(other_short.context, base.context)
    assert not torch.allclose(other_long.tokens, base.tokens)
    assert not torch.allclose(other_long.context, base.context)


def test_noise_pathway_is_optional_and_positive(seed: int) -> None:
    long, short = small_streams(seed)
    assert small_encoder(seed, noise=False)(long, short).noise is None
    noise = small_encoder(seed, noise=True)(long, short).noise
    assert noise is not None
    assert noise.shape == (3,)
    assert (noise > 0).all()


def test_every_weight_gets_gradient(seed: int) -> None:
    encoder = small_encoder(seed, noise=True)
    encoding = encoder(*small_streams(seed))
    (encoding.tokens.sum() + encoding.context.sum() + encoding.noise.sum()).backward()
    silent = [name for name, p in encoder.named_parameters() if p.grad is None]
    assert not silent
