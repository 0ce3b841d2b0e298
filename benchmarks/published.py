"""Time beside the rivals: a network of the authors' size, the classical estimator, and throughput on a GPU.

    pip install -e ".[bench]"
    python benchmarks/published.py
    python benchmarks/published.py --only throughput --device cuda

published    One CPU core, K = 10: inference and 1,000 draws per slot, against a network with the sizes of the authors'
             public code: this package's encoder of the paper with a context of 512, and 8 masked autoregressive layers
             of nflows, 768 wide, rational-quadratic splines (48 bins, linear tails beyond ±2) and affine maps in turn.
             Its weights are random: the time does not depend on them.
classical    One CPU core, K = 5: inference and 1,000 draws, against the classical estimator with as many draws of its
             Laplace approximation; each draws at the K that it finds. Calls alternate, signal by signal.
throughput   One GPU: signals per second, inference with 100 draws per slot in batches; needs --device cuda.

Every part says what it compares; a part that cannot be run says why and is left out. K is at most the model's k_max.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from slotflow import Observation, SlotFlow, simulate
from slotflow.baselines import classical
from slotflow.network.config import Config, EncoderConfig, ModelConfig
from slotflow.network.paper.counter import CardinalityHead
from slotflow.network.paper.encoder import DualStreamEncoder
from slotflow.network.paper.onehot import slot_contexts, slot_index

PARTS = ("published", "classical", "throughput")
CONTEXT = 512
"""Width of the context vector of the public weights: the paper's 256, doubled in the authors' code."""
TARGETS = {"published": 500.0, "classical": 2.0, "throughput": 10_000.0}


class Published(nn.Module):
    """A network of the size of the authors' public weights, with random weights.

    Args:
        config: The paper's; gives the largest K.
        layers: Autoregressive layers.
        hidden: Their width.
        bins: Bins of their splines.
    """

    def __init__(
        self, config: ModelConfig, layers: int = 8, hidden: int = 768, bins: int = 48
    ) -> None:
        from nflows.distributions import StandardNormal
        from nflows.flows import Flow
        from nflows.transforms import (
            CompositeTransform,
            MaskedAffineAutoregressiveTransform,
            MaskedPiecewiseRationalQuadraticAutoregressiveTransform,
            ReversePermutation,
        )

        super().__init__()
        encoder = EncoderConfig(context=CONTEXT)
        self.k_max = config.prior.k_max
        self.encoder = DualStreamEncoder(encoder)
        self.cardinality = CardinalityHead(encoder, config.prior)
        d = encoder.channels[
            -1
        ]  # the authors' code has one linear layer where the paper has an MLP
        self.encoder.fuse = self.linear(6 * d)
        self.cardinality.embed = self.linear(3 * d)
        sizes = {
            "features": 4,  # A, cos φ, sin φ, f
            "hidden_features": hidden,
            "context_features": CONTEXT + self.k_max,
        }
        steps: list[nn.Module] = []
        for i in range(layers):
            steps.append(ReversePermutation(4))
            if i % 2:
                steps.append(MaskedAffineAutoregressiveTransform(**sizes))
            else:
                steps.append(
                    MaskedPiecewiseRationalQuadraticAutoregressiveTransform(
                        **sizes, num_bins=bins, tails="linear", tail_bound=2.0
                    )
                )
        self.flow = Flow(CompositeTransform(steps), StandardNormal([4]))

    @staticmethod
    def linear(n_in: int) -> nn.Sequential:
        """A linear layer to the context's width."""
        return nn.Sequential(nn.Linear(n_in, CONTEXT))

    @torch.inference_mode()
    def contexts(self, obs: Observation, k: int) -> Tensor:
        """What inference computes before drawing: q(K | x) and the contexts of k slots, (k, 512 + k_max)."""
        assert obs.short is not None
        long, short = (
            torch.as_tensor(stream.values, dtype=torch.float32)[None]
            for stream in (obs.long, obs.short)
        )
        encoding = self.encoder(long, short)
        self.cardinality(encoding.tokens).softmax(-1)
        return slot_contexts(encoding.context, *slot_index(torch.tensor([k])), self.k_max)

    @torch.inference_mode()
    def draw(self, contexts: Tensor, n: int) -> Tensor:
        """Draws of each slot, (k, n, 4)."""
        draws: Tensor = self.flow.sample(n, context=contexts)
        return draws


def seconds(call: Callable[[], object]) -> float:
    """Time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def signals(config: ModelConfig, n: int, k: int, seed: int) -> list[Observation]:
    """Physical signals with k components, on the grids and under the prior of a model."""
    batch = simulate(config.prior, n, config.long, config.short, mode="physical", seed=seed, k=k)
    return [batch.observation(i) for i in range(n)]


def row(part: str, measure: str, value: float, note: str) -> dict[str, Any]:
    """One line of the result, with the entries of an evaluation's row."""
    bound, at_most = TARGETS[part], part == "classical"
    return {
        "measure": measure,
        "value": value,
        "target": f"{'<=' if at_most else '>='} {bound:g}",
        "passed": value <= bound if at_most else value >= bound,
        "note": note,
    }


def against_published(model: SlotFlow, args: argparse.Namespace) -> dict[str, Any] | str:
    """Times the authors' size and ours, one observation."""
    if importlib.util.find_spec("nflows") is None:
        return 'nflows is not installed; pip install "slotflow[bench]"'
    paper = Config.from_preset("paper").model
    torch.manual_seed(args.seed)
    rival = Published(paper).eval()
    count = sum(p.numel() for p in rival.parameters())
    k_rival, k = min(10, paper.prior.k_max), min(10, model.config.prior.k_max)
    (theirs,), (ours,) = (
        signals(paper, 1, k_rival, args.seed),
        signals(model.config, 1, k, args.seed),
    )

    def answer() -> None:
        model.infer(ours, prior=model.config.prior, refine=False).sample(args.draws, k=k)

    contexts = rival.contexts(theirs, k_rival)  # also warms up
    rival.draw(contexts, 2)
    answer()
    forward = [seconds(lambda: rival.contexts(theirs, k_rival)) for _ in range(args.repeats)]
    draws = [seconds(lambda: rival.draw(contexts, args.draws)) for _ in range(args.rival_repeats)]
    own = [seconds(answer) for _ in range(args.repeats)]
    slow, fast = statistics.median(forward) + statistics.median(draws), statistics.median(own)
    return row(
        "published",
        f"authors' size, K = {k_rival}, over {model.config.name}, K = {k}: time",
        slow / fast,
        f"{count:,} parameters: {1e3 * statistics.median(forward):.0f} ms + {statistics.median(draws):.1f} s for "
        f"{args.draws} draws per slot; {model.config.name}, {model.n_parameters:,}: {1e3 * fast:.1f} ms",
    )


def against_classical(model: SlotFlow, args: argparse.Namespace) -> dict[str, Any] | str:
    """Times the classical estimator and ours in turn on the same observations."""
    k, prior = min(5, model.config.prior.k_max), model.config.prior
    observations = signals(model.config, args.signals, k, args.seed)
    found: dict[str, list[int]] = {"ours": [], "classical": []}

    def ours(obs: Observation) -> None:
        post = model.infer(obs, prior=model.config.prior, refine=False)
        post.sample(args.draws)
        found["ours"].append(post.k_map)

    def rival(obs: Observation) -> None:
        fits = classical(obs, prior)
        fits.sample(0, args.draws)
        found["classical"].append(int(fits.k_map[0]))

    ours(observations[0])
    rival(observations[0])
    for counts in found.values():
        counts.clear()
    times = [(seconds(lambda o=o: ours(o)), seconds(lambda o=o: rival(o))) for o in observations]
    own, other = (statistics.median(column) for column in zip(*times, strict=True))
    right = {name: sum(n == k for n in counts) for name, counts in found.items()}
    return row(
        "classical",
        f"{model.config.name} over the classical estimator, K = {k}: time",
        own / other,
        f"{1e3 * own:.1f} ms against {1e3 * other:.1f} ms, medians of {len(times)} signals; K right "
        f"{right['ours']} and {right['classical']} times",
    )


def on_a_gpu(model: SlotFlow, args: argparse.Namespace) -> dict[str, Any] | str:
    """Signals per second of batched inference."""
    if not args.device.startswith("cuda"):
        return "it runs on a GPU alone; give --device cuda"
    if not torch.cuda.is_available():
        return "this machine has no GPU that torch can use"
    if not hasattr(model, "analyse"):
        return f"the model {model.config.name!r} has no batched analysis"
    device = torch.device(args.device)
    model = model.to(device)
    config, rates = model.config, {}
    for size in args.batch:
        batch = simulate(
            config.prior,
            size,
            config.long,
            config.short,
            mode="physical",
            seed=args.seed,
            device=device,
        )

        def analyse(seed: int, batch: Any = batch) -> None:
            model.analyse(batch, config.prior).slots().sample(100, seed)
            torch.cuda.synchronize(device)

        for seed in range(2):
            analyse(seed)
        torch.cuda.synchronize(device)
        times = [seconds(lambda i=i: analyse(i)) for i in range(args.repeats)]
        rates[size] = size / statistics.median(times)
    best = max(rates, key=rates.__getitem__)
    return row(
        "throughput",
        f"{config.name}, {torch.cuda.get_device_name(device)}: signals per second, 100 draws per slot",
        rates[best],
        "; ".join(f"batch {size}: {rate:,.0f}" for size, rate in rates.items()),
    )


def main() -> None:
    """Prints one line per part, or one JSON document."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", help="embedded weights, a file or a folder; the default model")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to run")
    parser.add_argument("--device", default="cpu", help="of the throughput; the rest is CPU")
    parser.add_argument("--draws", type=int, default=1000, help="draws per slot on the CPU")
    parser.add_argument("--repeats", type=int, default=15, help="timed calls; the median counts")
    parser.add_argument("--rival-repeats", type=int, default=1, help="of the authors' size")
    parser.add_argument("--signals", type=int, default=15, help="beside the classical estimator")
    parser.add_argument("--batch", type=int, nargs="+", default=[512, 2048], help="on the GPU")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = SlotFlow.from_pretrained(args.model)
    measure = dict(zip(PARTS, (against_published, against_classical, on_a_gpu), strict=True))
    rows, skipped = [], {}
    for part in args.only:
        result = measure[part](model, args)
        if isinstance(result, str):
            skipped[part] = result
        else:
            rows.append(result)
        if args.json:
            continue
        if isinstance(result, str):
            print(f"{part}: skipped, {result}", flush=True)
        else:
            verdict = "met" if result["passed"] else "missed"
            print(
                f"{part}: {result['measure']} {result['value']:,.4g} (target {result['target']}, {verdict})"
            )
            print(f"  {result['note']}", flush=True)
    if args.json:
        facts = {"model": model.config.name, "threads": 1, "torch": torch.__version__}
        print(json.dumps({"facts": facts, "rows": rows, "skipped": skipped}, indent=2))


if __name__ == "__main__":
    main()
