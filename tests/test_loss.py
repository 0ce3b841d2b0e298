"""The objective: against a naive reference, under permutations, in operations, with its options."""

from __future__ import annotations

import dataclasses
import itertools
import math

import pytest
import torch
from flow_helpers import FLOW, perturb
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from slotflow import Grid, Prior, Simulation, SlotFlow, simulate
from slotflow.network.config import EncoderConfig, LossConfig, ModelConfig
from slotflow.network.objective import weighted_sum
from slotflow.network.paper.encoder import Encoding
from slotflow.network.paper.loss import PaperLoss
from slotflow.network.paper.onehot import slot_index

LONG, SHORT = Grid(64, 0.1), Grid(40, 0.05)
WIDTH = 10


def make_model(
    seed: int,
    k_max: int = 4,
    noise: bool = False,
    dtype: torch.dtype = torch.float64,
    k_probs: tuple[float, ...] | None = None,
    jitter: float = 0.0,
) -> SlotFlow:
    torch.manual_seed(seed)
    config = ModelConfig(
        "tiny",
        LONG,
        SHORT,
        Prior(k_max=k_max, k_probs=k_probs),
        EncoderConfig(channels=(4, 6, 8), heads=2, context=WIDTH, noise=noise),
        dataclasses.replace(FLOW, radius_jitter=jitter),
    )
    model = SlotFlow(config).double()
    perturb(model.flow, seed, 0.1)  # so that slots and coordinates matter
    return model.to(dtype)


def make_batch(
    model: SlotFlow, n: int, seed: int, k: int | None = None, k_max: int | None = None
) -> Simulation:
    prior = model.config.prior if k_max is None else Prior(k_max=k_max)
    batch = simulate(prior, n, LONG, SHORT, seed=seed, k=k)
    assert batch.short is not None
    return dataclasses.replace(
        batch, long=batch.long.to(model.dtype), short=batch.short.to(model.dtype)
    )


def contexts(n: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, WIDTH, generator=generator, dtype=torch.float64)


def naive_flow_loss(
    model: SlotFlow, g: Tensor, batch: Simulation, slots: list[int]
) -> tuple[Tensor, int]:
    """The matched NLL by plain loops over signals, pairs and assignments; and the number of matched pairs."""
    total, pairs = torch.zeros((), dtype=torch.float64), 0
    for b, n in enumerate(slots):
        m = int(batch.k[b])
        cost = []
        for i in range(n):
            identity = torch.zeros(model.k_max, dtype=torch.float64)
            identity[i] = 1.0
            q = model.flow(torch.cat([g[b], identity])[None])
            cost.append(
                [-q.log_prob(model.target.encode(batch.theta[b, j])[None])[0] for j in range(m)]
            )
        size = min(n, m)
        if n <= m:
            options = [list(enumerate(p)) for p in itertools.permutations(range(m), n)]
        else:
            options = [
                [(i, j) for j, i in enumerate(p)] for p in itertools.permutations(range(n), m)
            ]
        best = min(options, key=lambda option: sum(cost[i][j].item() for i, j in option))
        total = total + torch.stack([cost[i][j] for i, j in best]).sum() / size
        pairs += size
    return total / len(slots), pairs


def permuted(batch: Simulation, seed: int) -> Simulation:
    """The same signals, the components of each in another order."""
    generator = torch.Generator().manual_seed(seed)
    theta = batch.theta.clone()
    for b, k in enumerate(batch.k.tolist()):
        theta[b, :k] = batch.theta[b, :k][torch.randperm(k, generator=generator)]
    assert not torch.equal(theta, batch.theta)
    return dataclasses.replace(batch, theta=theta)


# ---------------------------------------------------------------- value and gradient


def test_flow_term_equals_naive_reference(seed: int) -> None:
    model = make_model(seed)
    batch, g = make_batch(model, 8, seed), contexts(8, seed)
    fast = PaperLoss(model, LossConfig()).flow_loss(g, batch, batch.k, batch.k)
    slow, pairs = naive_flow_loss(model, g, batch, batch.k.tolist())
    assert pairs == batch.k.sum()
    assert fast.item() == pytest.approx(slow.item(), abs=1e-5, rel=1e-5)
    assert fast.item() == pytest.approx(slow.item(), abs=1e-10)


def test_assignment_matters(seed: int) -> None:
    """The control of the test above: pairs in their given order cost more."""
    model = make_model(seed)
    batch, g = make_batch(model, 8, seed, k=4), contexts(8, seed)
    matched = PaperLoss(model, LossConfig()).flow_loss(g, batch, batch.k, batch.k)
    signal, slot = slot_index(batch.k)
    identity = torch.nn.functional.one_hot(slot, 4).double()
    q = model.flow(torch.cat([g[signal], identity], dim=-1))
    in_order = -q.log_prob(model.target.encode(batch.theta[signal, slot])).mean()
    assert matched.item() < in_order.item() - 1e-3


def test_only_matched_pairs_carry_gradient(seed: int) -> None:
    """Gradients equal those of a reference that never differentiates an unmatched pair."""
    model = make_model(seed)
    batch, g = make_batch(model, 6, seed), contexts(6, seed).requires_grad_()
    wanted = [g, *model.flow.parameters()]
    fast = PaperLoss(model, LossConfig()).flow_loss(g, batch, batch.k, batch.k)
    slow, _ = naive_flow_loss(model, g, batch, batch.k.tolist())
    for a, b in zip(
        torch.autograd.grad(fast, wanted), torch.autograd.grad(slow, wanted), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("jitter", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_ignores_the_order_of_components(dtype: torch.dtype, jitter: float, seed: int) -> None:
    model = make_model(seed, noise=True, dtype=dtype, jitter=jitter)
    objective = PaperLoss(model, LossConfig())
    batch = make_batch(model, 16, seed)
    base = objective(batch)
    for repeat in range(5):
        other = objective(permuted(batch, seed + repeat))
        for name, term in base.items():
            assert other[name].item() == pytest.approx(term.item(), rel=1e-6, abs=1e-6), name


def test_loss_averages_over_signals(seed: int) -> None:
    """A batch of two halves has the mean loss of its halves."""
    model = make_model(seed, noise=True)
    objective = PaperLoss(model, LossConfig())
    batch = make_batch(model, 8, seed)

    def part(rows: slice) -> Simulation:
        assert batch.short is not None
        return Simulation(
            batch.k[rows],
            batch.theta[rows],
            batch.sigma[rows],
            batch.long[rows],
            batch.short[rows],
            batch.grids,
            batch.seed,
        )

    whole, first, second = (objective(part(s)) for s in (slice(0, 8), slice(0, 4), slice(4, 8)))
    for name, term in whole.items():
        mean = (first[name].item() + second[name].item()) / 2
        assert term.item() == pytest.approx(mean, abs=1e-5), name


def test_a_few_steps_lower_the_loss(seed: int) -> None:
    model = make_model(seed, noise=True, dtype=torch.float32)
    objective, batch = PaperLoss(model, LossConfig()), make_batch(model, 32, seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(25):
        optimizer.zero_grad()
        loss = objective(batch)["loss"]
        loss.backward()
        assert all(p.grad is not None for p in model.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.1


# ---------------------------------------------------------------- terms and weights


def test_terms_are_weighted_in_one_place(seed: int) -> None:
    model = make_model(seed, noise=True)
    batch = make_batch(model, 8, seed)
    terms = PaperLoss(model, LossConfig(flow=0.3, noise=7.0))(batch)
    assert set(terms) == {"loss", "ce", "flow", "noise", "k_accuracy"}
    expected = terms["ce"] + 0.3 * terms["flow"] + 7.0 * terms["noise"]
    assert terms["loss"].item() == pytest.approx(expected.item(), rel=1e-6)

    encoding, logits = model.encode(batch.long, batch.short)
    log_q = logits.log_softmax(-1)
    cross_entropy = -sum(log_q[b, k].item() for b, k in enumerate(batch.k.tolist())) / 8
    assert terms["ce"].item() == pytest.approx(cross_entropy, rel=1e-5)
    mse = ((encoding.noise.double() - batch.sigma) ** 2).mean().item()
    assert terms["noise"].item() == pytest.approx(mse, rel=1e-5)
    hits = (logits.argmax(-1) == batch.k).double().mean().item()
    assert terms["k_accuracy"].item() == pytest.approx(hits)


def test_noise_term_needs_the_noise_encoder(seed: int) -> None:
    model = make_model(seed, noise=False)
    terms = PaperLoss(model, LossConfig(noise=7.0))(make_batch(model, 8, seed))
    assert set(terms) == {"loss", "ce", "flow", "k_accuracy"}
    assert terms["loss"].item() == pytest.approx((terms["ce"] + terms["flow"]).item(), rel=1e-6)


def test_classifier_learns_the_posterior_under_the_training_prior(seed: int) -> None:
    """log p_train(K) is in the data, not in the loss: the same weights and signals give the same terms."""
    plain, skewed = make_model(seed), make_model(seed, k_probs=(8, 4, 2, 1))
    skewed.load_state_dict(plain.state_dict())
    batch = make_batch(skewed, 16, seed)
    one, two = (PaperLoss(m, LossConfig())(batch) for m in (plain, skewed))
    for name in one:
        assert one[name].item() == two[name].item()


def test_cross_entropy_is_smallest_at_the_training_prior(seed: int) -> None:
    """With features that say nothing, the best constant logits are log p_train(K)."""
    model = make_model(seed, k_probs=(8, 4, 2, 1))
    batch = make_batch(model, 4000, seed)
    log_p = torch.as_tensor(model.config.prior.k_probs_full).log()
    objective = PaperLoss(model, LossConfig())
    objective.flow_loss = lambda g, *args: g.sum()  # type: ignore[method-assign]

    def cross_entropy(row: Tensor) -> float:
        logits = row.expand(4000, -1)
        encoding = Encoding(torch.zeros(4000, 1, 8), torch.zeros(4000, WIDTH), None)
        objective.encode = lambda long, short: (encoding, logits)  # type: ignore[assignment]
        return objective(batch)["ce"].item()

    best = cross_entropy(log_p)
    entropy = -(log_p.exp() * log_p)[1:].sum().item()
    spread = math.sqrt(((log_p.exp() * log_p**2)[1:].sum() - entropy**2).item() / 4000)
    assert best == pytest.approx(entropy, abs=5 * spread)
    assert cross_entropy(torch.tensor([-torch.inf, 0.0, 0.0, 0.0, 0.0])) > best + 0.05


# ---------------------------------------------------------------- curriculum


def with_guesses(objective: PaperLoss, guesses: list[int], g: Tensor) -> None:
    """Makes the classifier say what we want and the encoder return g."""
    logits = torch.full((len(guesses), objective.model.k_max + 1), -5.0)
    logits[:, 0] = -torch.inf
    logits[torch.arange(len(guesses)), guesses] = 5.0
    encoding = Encoding(torch.zeros(len(guesses), 1, 8), g, None)
    objective.encode = lambda long, short: (encoding, logits)  # type: ignore[assignment]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_curriculum_gives_the_predicted_number_of_slots(share: float, seed: int) -> None:
    model = make_model(seed)
    truth, guesses = [2, 3, 1, 4, 2, 3, 4, 1], [1, 4, 1, 2, 3, 3, 4, 2]  # too few, right, too many
    g = contexts(8, seed)
    batch = dataclasses.replace(make_batch(model, 8, seed, k=4), k=torch.tensor(truth))
    objective = PaperLoss(model, LossConfig(curriculum=(0.0, 1.0)))
    with_guesses(objective, guesses, g)
    slots = [q if b < share * 8 else k for b, (q, k) in enumerate(zip(guesses, truth, strict=True))]
    expected, pairs = naive_flow_loss(model, g, batch, slots)
    assert pairs == sum(min(a, b) for a, b in zip(slots, truth, strict=True))
    terms = objective(batch, share)
    assert terms["flow"].item() == pytest.approx(expected.item(), abs=1e-9)


def test_teacher_forcing_is_the_default(seed: int) -> None:
    model = make_model(seed)
    batch, g = make_batch(model, 8, seed), contexts(8, seed)
    objective = PaperLoss(model, LossConfig())
    with_guesses(objective, [1] * 8, g)
    expected, _ = naive_flow_loss(model, g, batch, batch.k.tolist())
    assert objective(batch)["flow"].item() == pytest.approx(expected.item(), abs=1e-9)


# ---------------------------------------------------------------- operations


def count_rows(
    model: SlotFlow, batch: Simulation, slots: Tensor | None = None
) -> dict[tuple[str, bool], int]:
    """Rows that pass through the coupling networks, by part and by whether a gradient is kept."""
    rows: dict[tuple[str, bool], int] = {}

    def hook(name: str):  # type: ignore[no-untyped-def]
        def count(module: torch.nn.Module, args: tuple[Tensor], out: Tensor) -> None:
            key = (name, torch.is_grad_enabled())
            rows[key] = rows.get(key, 0) + out.numel() // out.shape[-1]

        return count

    handles = []
    for layer in model.flow.layers:
        handles.append(layer.from_context.register_forward_hook(hook("context")))
        handles.append(layer.out.register_forward_hook(hook("pair")))
    g = contexts(batch.k.shape[0], 0).requires_grad_()
    slots = batch.k if slots is None else slots
    PaperLoss(model, LossConfig()).flow_loss(g, batch, slots, batch.k)
    for handle in handles:
        handle.remove()
    layers = len(model.flow.layers)
    return {key: n // layers for key, n in rows.items()}


def count_flops(model: SlotFlow, batch: Simulation) -> tuple[int, int]:
    """Operations of the flow term, forward and backward."""
    g = contexts(batch.k.shape[0], 0).requires_grad_()
    objective = PaperLoss(model, LossConfig())
    with FlopCounterMode(display=False) as forward:
        loss = objective.flow_loss(g, batch, batch.k, batch.k)
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    return forward.get_total_flops(), backward.get_total_flops()


def test_rows_are_sum_k_with_and_sum_k_squared_without_gradient(seed: int) -> None:
    model = make_model(seed, k_max=6)
    batch = make_batch(model, 20, seed)
    k = batch.k
    assert count_rows(model, batch) == {
        ("context", True): int(k.sum()),
        ("pair", False): int((k**2).sum()),
        ("pair", True): int(k.sum()),
    }


@pytest.mark.parametrize("k_max", [4, 40])
def test_rows_do_not_depend_on_k_max(k_max: int, seed: int) -> None:
    model = make_model(seed, k_max=k_max)
    batch = make_batch(model, 10, seed, k=2, k_max=4)
    assert count_rows(model, batch) == {
        ("context", True): 20,
        ("pair", False): 40,
        ("pair", True): 20,
    }


def test_operations_grow_linearly_with_and_quadratically_without_gradient(seed: int) -> None:
    """Forward: a·K (contexts and matched pairs) + b·K² (cost matrix), exactly. Backward: c·K, exactly."""
    model = make_model(seed, k_max=6)
    counts = {k: count_flops(model, make_batch(model, 5, seed, k=k)) for k in range(1, 7)}
    (f1, b1), (f2, _) = counts[1], counts[2]
    quadratic = (f2 - 2 * f1) // 2
    linear = f1 - quadratic
    assert linear > 0 and quadratic > 0
    for k, (forward, backward) in counts.items():
        assert forward == linear * k + quadratic * k**2
        assert backward == b1 * k


def test_operations_of_a_mixed_batch_add_up(seed: int) -> None:
    model = make_model(seed, k_max=6)
    alone = {k: count_flops(model, make_batch(model, 1, seed, k=k)) for k in range(1, 7)}
    batch = make_batch(model, 12, seed)
    expected = [sum(alone[k][i] for k in batch.k.tolist()) for i in range(2)]
    assert list(count_flops(model, batch)) == expected


def test_operations_grow_with_k_max_by_the_one_hot_columns_alone(seed: int) -> None:
    small, large = make_model(seed, k_max=4), make_model(seed, k_max=40)
    batch = make_batch(small, 10, seed, k=2)
    (f_small, b_small), (f_large, b_large) = (count_flops(m, batch) for m in (small, large))
    columns = 2 * 20 * (40 - 4) * FLOW.hidden * FLOW.layers  # 2 · ΣK · columns · width, per layer
    assert f_large - f_small == columns
    assert b_large - b_small == 2 * columns  # gradients of the weights and of the contexts


def test_operation_count_can_fail(seed: int) -> None:
    """The control: slots up to K_max for every signal are seen as the extra rows that they are."""
    model = make_model(seed, k_max=6)
    batch = make_batch(model, 10, seed, k=2)
    rows = count_rows(model, batch, slots=torch.full((10,), 6))
    assert rows[("context", True)] == 60
    assert rows[("pair", False)] == 120


# ---------------------------------------------------------------- precision


def test_bfloat16_stays_close(seed: int) -> None:
    model = make_model(seed, noise=True, dtype=torch.float32)
    batch = make_batch(model, 32, seed)
    exact = PaperLoss(model, LossConfig())(batch)
    rounded = PaperLoss(model, LossConfig(), low_precision=True)(batch)
    assert rounded["loss"].dtype == torch.float32
    for name in ("ce", "flow", "noise"):
        assert rounded[name].item() == pytest.approx(exact[name].item(), rel=0.05, abs=0.05)
        assert rounded[name].item() != exact[name].item()
    rounded["loss"].backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


# --- Weights ------------------------------------------------------------------------------------


def test_terms_are_weighted_by_the_config() -> None:
    config = LossConfig(flow=0.25, rounds=0.5)
    terms = {"count": torch.tensor(3.0), "flow": torch.tensor(8.0), "rounds": torch.tensor(10.0)}
    assert weighted_sum(terms, config).item() == pytest.approx(3 + 2 + 5)


@pytest.mark.parametrize("name", ["flwo", "curriculum", "loss", "__class__"])
def test_an_unknown_term_is_an_error(name: str) -> None:
    """A misspelt term, and an entry of the config that is not a weight."""
    with pytest.raises(ValueError, match=f"expected a loss term of .*'flow'.*received '{name}'"):
        weighted_sum({"count": torch.tensor(1.0), name: torch.tensor(1.0)}, LossConfig())


# ---------------------------------------------------------------- order instead of assignment


def test_ordered_slots_take_components_in_order_of_frequency(seed: int) -> None:
    model = make_model(seed)
    objective = PaperLoss(model, LossConfig())
    batch, g = make_batch(model, 8, seed, k=4), contexts(8, seed)
    matched = objective.flow_loss(g, batch, batch.k, batch.k)
    objective.ordered = True
    found = objective.flow_loss(g, permuted(batch, seed), batch.k, batch.k)
    signal, slot = slot_index(batch.k)
    q = model.flow(torch.cat([g[signal], torch.nn.functional.one_hot(slot, 4).double()], dim=-1))
    by_frequency = batch.theta.gather(
        1, batch.theta[..., 2].argsort(1)[..., None].expand_as(batch.theta)
    )
    wanted = -q.log_prob(model.target.encode(by_frequency[signal, slot])).mean()
    assert found.item() == pytest.approx(wanted.item(), abs=1e-10)
    assert matched.item() < found.item() - 1e-3  # an upper bound


def test_ordered_slots_cost_no_pairs(seed: int) -> None:
    """Rows of the flow: one for each slot, instead of one for each pair and one for each slot."""
    model = make_model(seed)
    objective = PaperLoss(model, LossConfig())
    batch, g = make_batch(model, 8, seed), contexts(8, seed)
    seen: list[int] = []

    def counted(projected: Tensor, y: Tensor) -> Tensor:
        seen.append(len(y))
        return model.flow.log_prob(projected, y)

    objective.density = counted
    objective.flow_loss(g, batch, batch.k, batch.k)
    pairs, slots = int((batch.k**2).sum()), int(batch.k.sum())
    assert seen == [pairs, slots]
    objective.ordered = True
    objective.flow_loss(g, batch, batch.k, batch.k)
    assert seen == [pairs, slots, slots]


@pytest.mark.parametrize("case", ["validation", "other slots"])
def test_order_is_for_training_with_the_true_count(case: str, seed: int) -> None:
    model = make_model(seed)
    objective = PaperLoss(model, LossConfig())
    batch, g = make_batch(model, 8, seed, k=4), contexts(8, seed)
    slots = batch.k
    if case == "validation":
        model.eval()
    else:
        slots = batch.k.clone()
        slots[0] -= 1
    matched = objective.flow_loss(g, batch, slots, batch.k)
    objective.ordered = True
    assert objective.flow_loss(g, batch, slots, batch.k).item() == matched.item()
