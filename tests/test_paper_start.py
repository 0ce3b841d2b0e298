"""Initial weights of the paper's encoder: what a fresh network hears of the data."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn

from slotflow import SlotFlow, simulate
from slotflow.network.config import Config
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.network.paper.start import GAIN


def fresh(start: str, seed: int) -> PaperSlotFlow:
    config = Config.from_preset("debug").model
    torch.manual_seed(seed)
    encoder = dataclasses.replace(config.encoder, start=start)
    model = SlotFlow(dataclasses.replace(config, encoder=encoder))
    assert isinstance(model, PaperSlotFlow)
    return model


@torch.no_grad()
def heard(model: PaperSlotFlow, seed: int) -> tuple[Tensor, Tensor]:
    """Spread of tokens over a signal's places, and of contexts over signals."""
    config = model.config
    batch = simulate(config.prior, 64, config.long, config.short, seed=seed)
    assert batch.short is not None
    encoding, _ = model.encode(batch.long, batch.short)
    return encoding.tokens.std(1).mean(), encoding.context.std(0).mean()


def test_a_fresh_context_depends_on_the_data(seed: int) -> None:
    """By several times more than with torch's weights, and its tokens differ from each other."""
    plain, local = (heard(fresh(start, seed), seed) for start in ("torch", "local"))
    assert local[0] > 10 * plain[0]
    assert local[1] > 3 * plain[1]


def test_queries_meet_their_own_keys(seed: int) -> None:
    model = fresh("local", seed)
    attentions = [m for m in model.modules() if isinstance(m, nn.MultiheadAttention)]
    assert len(attentions) == 4  # both pathways, the noise's, the classifier's
    for attention in attentions:
        queries, keys, values = attention.in_proj_weight.detach().chunk(3)
        one = torch.eye(attention.embed_dim)
        assert torch.equal(queries, keys)
        torch.testing.assert_close(queries @ queries.T, GAIN**2 * one, atol=1e-4, rtol=0)
        for rotation in (values, attention.out_proj.weight.detach()):
            torch.testing.assert_close(rotation @ rotation.T, one, atol=1e-5, rtol=0)


def test_the_start_is_no_part_of_the_network(seed: int) -> None:
    """Weights of one start fit a network of the other, which then answers alike."""
    one, other = fresh("local", seed), fresh("torch", seed + 1)
    other.load_state_dict(one.state_dict())
    for a, b in zip(heard(one, seed), heard(other, seed), strict=True):
        assert torch.equal(a, b)
