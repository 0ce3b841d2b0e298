"""The command line: ``slotflow demo | simulate | train | infer | info``.

Results go to standard output (as one JSON document with ``--json``), progress and errors to standard
error. Exit codes: 0 done, 1 failed, 2 bad input, 130 stopped by Ctrl-C. A ValueError or an OSError
counts as bad input and becomes one line; the environment variable SLOTFLOW_DEBUG=1 shows its
traceback.
"""

from __future__ import annotations

import functools
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slotflow import __version__
from slotflow.config import Config, preset_names

if TYPE_CHECKING:
    from slotflow.model import SlotFlow
    from slotflow.posterior import Posterior

__all__ = ["app", "main"]

P = ParamSpec("P")
PARAMETERS = ("amplitude", "phase", "frequency")
REPEATS = 5

app = typer.Typer(
    name="slotflow",
    help="How many sinusoids are in a time series, and the posterior of each one.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Runs the command line; the entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(
            stream, "reconfigure"
        ):  # a bar of blocks must not fail where they cannot be shown
            stream.reconfigure(errors="replace")
    app()


def _help(text: str, *examples: str) -> str:
    """A command's help: a text and worked examples, each on a line of its own."""
    lines = "\n".join(f"  $ {escape(example)}" for example in examples)
    return f"{text}\n\n\b\n[bold]Examples[/bold]\n{lines}"


def _friendly(command: Callable[P, None]) -> Callable[P, None]:
    """Turns bad input into one line and exit code 2, and Ctrl-C into exit code 130."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except BrokenPipeError:
            raise
        except (ValueError, OSError) as error:
            if os.environ.get("SLOTFLOW_DEBUG") == "1":
                raise
            _complain("error", str(error))
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            _complain("stopped", str(error) or "interrupted; no file is left half-written")
            raise typer.Exit(130) from error

    return wrapped


def _complain(label: str, message: str) -> None:
    """Prints one line on standard error."""
    line = " ".join(message.split())
    Console(stderr=True).print(
        f"[red]{label}:[/red] {escape(line)}", soft_wrap=True, highlight=False
    )


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"slotflow {__version__}")
        raise typer.Exit()


@app.callback()
def _global_options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]
Device = Annotated[
    str | None,
    typer.Option(help="Where to compute: cpu, cuda, cuda:1, mps; automatic if not given."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one entry of the config; repeatable."),
]
Preset = Annotated[str | None, typer.Option(help=f"One of: {', '.join(preset_names())}.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="A YAML file instead of a preset.")
]
ModelName = Annotated[
    str | None,
    typer.Option(help="Name of embedded weights, a model file or a training folder."),
]


# --- demo ----------------------------------------------------------------------------------------


@app.command(
    help=_help(
        "Simulates one mixture, infers its components and draws a picture.",
        "slotflow demo",
        "slotflow demo --seed 7 --out chord.pdf",
        "slotflow demo --json | python -m json.tool",
    )
)
@_friendly
def demo(
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Picture to write: .png, .svg or .pdf.")] = Path(
        "demo.png"
    ),
    model: ModelName = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Simulates one mixture from the model's prior, infers it and compares with the truth."""
    from slotflow.model import SlotFlow
    from slotflow.plots import plot_posterior, save_figure
    from slotflow.simulate import simulate

    network = SlotFlow.from_pretrained(model, device=_device(device))
    config = network.config
    sim = simulate(config.prior, 1, config.long, config.short, mode="physical", seed=seed)
    observation, truth = sim.observation(0), sim.components(0)
    post = network.infer(observation)
    post.sample(1000, seed=seed)  # a first call loads what the timed ones should not count
    infer_ms = 1e3 * _median_seconds(lambda: network.infer(observation))
    sample_ms = 1e3 * _median_seconds(lambda: post.sample(1000, seed=seed))
    save_figure(plot_posterior(post, truth), out)

    record = _record(post, seed) | {
        "model": config.name,
        "seed": seed,
        "truth": {
            "k": len(truth),
            "noise_std": float(sim.sigma[0]),
            "components": [dict(zip(PARAMETERS, row, strict=True)) for row in truth.tolist()],
        },
        "milliseconds": {"infer": infer_ms, "sample_1000": sample_ms},
        "figure": str(out),
    }
    if as_json:
        _print_json(record)
        return
    console = Console()
    console.print(
        f"One mixture from the prior of [bold]{config.name}[/bold], seed {seed}: "
        f"{observation.long.n:,} samples over {observation.long.duration:.4g} s, "
        f"SNR {float(sim.snr_db()[0]):.1f} dB"
    )
    _print_posterior(console, record, record["truth"])
    console.print(
        f"Inference {infer_ms:.1f} ms, 1,000 draws {sample_ms:.1f} ms "
        f"(medians of {REPEATS} on {_device_name(network)})"
    )
    console.print(f"Picture: {out}", soft_wrap=True)


# --- simulate ------------------------------------------------------------------------------------


@app.command(
    help=_help(
        "Draws signals from a prior and writes them with their truth to an NPZ file.",
        "slotflow simulate --n 1000 --out test.npz",
        "slotflow simulate --preset paper --n 100 --k 10 --mode analytic --seed 1 --out ten.npz",
        "slotflow simulate --k-max 2 --sigma 1:2 --amplitude 0.2:0.4 --out faint.npz",
    )
)
@_friendly
def simulate(
    out: Annotated[Path, typer.Option(help="NPZ file to write.")],
    n: Annotated[int, typer.Option("--n", "-n", min=1, help="Number of signals.")] = 100,
    preset: Preset = None,
    config: ConfigFile = None,
    mode: Annotated[
        str,
        typer.Option(help="physical: streams share noise at common instants; or analytic."),
    ] = "physical",
    k: Annotated[int | None, typer.Option("--k", help="A fixed number of components.")] = None,
    k_min: Annotated[int | None, typer.Option(help="Smallest number of components.")] = None,
    k_max: Annotated[int | None, typer.Option(help="Largest number of components.")] = None,
    amplitude: Annotated[
        str | None, typer.Option(metavar="LOW:HIGH", help="Bounds of the amplitudes.")
    ] = None,
    band: Annotated[
        str | None, typer.Option(metavar="LOW:HIGH", help="Bounds of the frequencies in Hz.")
    ] = None,
    min_separation: Annotated[
        float | None, typer.Option(help="Smallest distance of two frequencies in Hz.")
    ] = None,
    sigma: Annotated[
        str | None, typer.Option(metavar="LOW:HIGH", help="Bounds of the noise level.")
    ] = None,
    settings: Settings = None,
    seed: Seed = 0,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Draws signals from a prior and writes them with their truth."""
    from slotflow.io import write_simulation
    from slotflow.simulate import simulate as draw

    flags = {
        "k_min": k_min,
        "k_max": k_max,
        "amplitude": _bounds("--amplitude", amplitude),
        "frequency": _bounds("--band", band),
        "min_separation": min_separation,
        "sigma": _bounds("--sigma", sigma),
    }
    chosen = [f"model.prior.{name}={json.dumps(v)}" for name, v in flags.items() if v is not None]
    model = _load_config(preset, config, [*chosen, *(settings or [])]).model
    start = time.perf_counter()
    sim = draw(
        model.prior,
        n,
        model.long,
        model.short,
        mode=mode,
        seed=seed,
        k=k,
        device=_device(device) or "cpu",
    )
    write_simulation(out, sim)
    counts = np.bincount(sim.k.cpu().numpy(), minlength=model.prior.k_max + 1)
    record = {
        "file": str(out),
        "n": n,
        "preset": model.name,
        "mode": mode,
        "seed": seed,
        "signals_per_k": counts.tolist(),
        "long": {"n": model.long.n, "dt": model.long.dt},
        "short": {"n": model.short.n, "dt": model.short.dt},
        "seconds": time.perf_counter() - start,
    }
    if as_json:
        _print_json(record)
        return
    per_k = ", ".join(f"K = {i}: {c:,}" for i, c in enumerate(counts) if c)
    Console().print(
        f"{n:,} signals ({per_k}) in {1e3 * record['seconds']:.0f} ms\n"
        f"long {model.long.n:,} × {model.long.dt:.6g} s, "
        f"short {model.short.n:,} × {model.short.dt:.6g} s\nFile: {out}",
        soft_wrap=True,
        highlight=False,
    )


# --- train ---------------------------------------------------------------------------------------


@app.command(
    help=_help(
        "Trains a model on signals that are simulated on the fly.",
        "slotflow train --preset debug --out runs/debug --minutes 2",
        "slotflow train --config mine.yaml --out runs/mine --set train.batch_size=64",
        "slotflow train --resume --out runs/mine",
        "torchrun --nproc-per-node 4 -m slotflow train --preset paper --out runs/paper",
    )
)
@_friendly
def train(
    out: Annotated[Path, typer.Option(help="Folder for checkpoint, model, metrics and config.")],
    preset: Preset = None,
    config: ConfigFile = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in the folder.")
    ] = False,
    init: Annotated[
        Path | None, typer.Option(help="A model file whose weights to start from.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Time budget; the cosine schedule is fitted to it.")
    ] = None,
    settings: Settings = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of weights and signals.")] = None,
    device: Device = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    as_json: Json = False,
) -> None:
    """Trains a model."""
    from slotflow.checkpoint import describe
    from slotflow.plots import plot_training, save_figure
    from slotflow.train import TrainingError
    from slotflow.train import train as run

    if minutes is not None and not minutes > 0:
        raise ValueError(f"--minutes: expected a positive number, received {minutes}.")
    overrides = [*(settings or []), *([] if seed is None else [f"train.seed={seed}"])]
    if resume and preset is None and config is None:
        config = out / "config.yaml"
        if not config.is_file():
            raise ValueError(f"{out}: expected a training folder with a config.yaml to resume.")
    full = _load_config(preset, config, overrides)
    try:
        model_file = run(
            full,
            out,
            resume=resume,
            init=init,
            minutes=minutes,
            device=_device(device),
            quiet=quiet,
        )
    except TrainingError as error:
        _complain("failed", str(error))
        raise typer.Exit(1) from error
    if os.environ.get("RANK", "0") != "0":
        return
    figure = out / "training.png"
    save_figure(plot_training(out / "metrics.jsonl"), figure)
    record = {"model": str(model_file), "figure": str(figure)} | describe(model_file)["facts"]
    if as_json:
        _print_json(record)
    elif not quiet:
        _print_facts(Console(), record)


# --- infer ---------------------------------------------------------------------------------------


@app.command(
    help=_help(
        "Infers the components of the signals in files.\n\n"
        "Reads CSV, TSV, NPY, NPZ and HDF5. With --out, writes summary.csv (one row per component) and "
        "posterior.nc (draws over K and all parameters); several signals get a folder each.",
        "slotflow infer long.csv --short short.csv --out result",
        "slotflow infer long.npy --dt 0.1 --short short.npy --dt-short 0.0078125",
        "slotflow infer test.npz --json > answers.json",
        "slotflow infer test.npz --k-prior 1:0.5,2:0.5 --out result --plot",
    )
)
@_friendly
def infer(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files of long streams.")],
    short: Annotated[
        Path | None, typer.Option(help="File of the short stream, if it has its own.")
    ] = None,
    dt: Annotated[
        float | None, typer.Option(help="Step of the long stream in seconds, if not in the file.")
    ] = None,
    dt_short: Annotated[
        float | None, typer.Option(help="Step of the short stream in seconds, if not in the file.")
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="Column of a text table: its name, or its number from 1.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Name of the array in an NPZ or HDF5 file.")
    ] = None,
    model: ModelName = None,
    k_prior: Annotated[
        str | None,
        typer.Option(metavar="P0,P1,...|K:P,...", help="Prior over K instead of the training's."),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Draws to summarize and to write.")] = 1000,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the results.")] = None,
    plot: Annotated[bool, typer.Option("--plot", help="Write posterior.png too.")] = False,
    device: Device = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads.")] = None,
    as_json: Json = False,
) -> None:
    """Infers the components of the signals in files."""
    from slotflow.io import read_observations
    from slotflow.model import SlotFlow

    if short is not None and len(files) > 1:
        raise ValueError(f"--short goes with one file, received {len(files)}; run them one by one.")
    if plot and out is None:
        raise ValueError("--plot needs a folder to write to; give --out.")
    chosen_prior = None if k_prior is None else _k_prior(k_prior)
    network = SlotFlow.from_pretrained(model, device=_device(device))
    observations = {
        file: read_observations(file, dt, short, dt_short, column=column, dataset=dataset)
        for file in files
    }
    start = time.perf_counter()
    posteriors: list[tuple[Path, int, Posterior]] = []
    for file, group in observations.items():
        try:
            answers = network.infer(group, k_prior=chosen_prior, threads=threads)
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from error
        posteriors += [(file, i, post) for i, post in enumerate(answers)]
    seconds = time.perf_counter() - start

    folders = _folders(out, [(file, i) for file, i, _ in posteriors])
    records: list[dict[str, Any]] = []
    for (file, index, post), folder in zip(posteriors, folders, strict=True):
        record = _record(post, seed, samples) | {"file": str(file), "signal": index}
        if folder is not None:
            record["files"] = _write_results(post, folder, samples, seed, plot)
        records.append(record)
    if as_json:
        _print_json({"model": network.config.name, "seconds": seconds, "signals": records})
        return
    console = Console()
    for record in records:
        name = record["file"] + (f" [{record['signal']}]" if len(records) > len(files) else "")
        console.print(f"[bold]{escape(name)}[/bold]", soft_wrap=True)
        _print_posterior(console, record)
        for path in record.get("files", {}).values():
            console.print(f"Written: {path}", soft_wrap=True, highlight=False)
    console.print(f"{len(records)} signal(s) in {1e3 * seconds:.0f} ms on {_device_name(network)}")


def _folders(out: Path | None, signals: list[tuple[Path, int]]) -> list[Path | None]:
    """Where each signal's results go: the folder itself for one, a folder below it for several."""
    if out is None or len(signals) == 1:
        return [out] * len(signals)
    per_file = {file: sum(f == file for f, _ in signals) for file, _ in signals}
    stems = {f: f.stem for f in per_file}
    if len(set(stems.values())) < len(stems):  # equal names in different folders
        stems = {f: f"{i:03d}-{f.stem}" for i, f in enumerate(stems)}
    return [out / (stems[f] if per_file[f] == 1 else f"{stems[f]}-{i:05d}") for f, i in signals]


def _write_results(
    post: Posterior, folder: Path, samples: int, seed: int, plot: bool
) -> dict[str, str]:
    """Writes one signal's results, each file whole or not at all."""
    from slotflow.io import atomic_path
    from slotflow.plots import plot_posterior, save_figure

    files = {"summary": folder / "summary.csv", "posterior": folder / "posterior.nc"}
    with atomic_path(files["summary"]) as temporary:
        post.summary(n=samples, seed=seed).to_csv(temporary)
    post.save(files["posterior"], n=samples, seed=seed)
    if plot:
        files["figure"] = folder / "posterior.png"
        save_figure(plot_posterior(post), files["figure"])
    return {name: str(path) for name, path in files.items()}


# --- info ----------------------------------------------------------------------------------------


@app.command(
    help=_help(
        "Tells what is installed, or what a preset, a model file or a training folder holds.",
        "slotflow info",
        "slotflow info debug",
        "slotflow info runs/mine --json",
    )
)
@_friendly
def info(
    model: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]", help="Embedded weights, a preset, a file or a folder."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tells what is installed or what a model holds."""
    record = _installation() if model is None else _describe(model)
    if as_json:
        _print_json(record)
    else:
        _print_facts(Console(), record)


def _installation() -> dict[str, Any]:
    import torch

    from slotflow.model import DEFAULT, pretrained_names

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "version": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "devices": ["cpu", *gpus],
        "presets": preset_names(),
        "weights": pretrained_names(),
        "default": DEFAULT,
    }


def _describe(name: str) -> dict[str, Any]:
    """What is known of a model: its origin, size, training and config."""
    from importlib import resources

    from slotflow.checkpoint import describe
    from slotflow.model import SlotFlow, pretrained_names

    if name in pretrained_names():
        with resources.as_file(
            resources.files("slotflow") / "weights" / f"{name}.safetensors"
        ) as f:
            header, network = describe(f), SlotFlow.from_pretrained(name)
        origin = "embedded weights"
    elif name in preset_names() and not Path(name).exists():
        full = Config.from_preset(name)
        header, network = {"config": full.to_dict()}, SlotFlow(full.model)
        origin = "preset, untrained"
    else:
        path = Path(name)
        path = path / "model.safetensors" if path.is_dir() else path
        header, network = describe(path), SlotFlow.from_pretrained(path)
        origin = str(path)
    config = header.get("config") or {"model": header.get("model", {})}
    record = {"name": network.config.name, "origin": origin, "parameters": network.n_parameters}
    record |= {k: header[k] for k in ("kind", "format", "version", "facts") if k in header}
    return record | {"config": config}


# --- Arguments -----------------------------------------------------------------------------------


def _load_config(preset: str | None, file: Path | None, settings: Sequence[str]) -> Config:
    """A preset or a file, with some entries changed."""
    if preset is not None and file is not None:
        raise ValueError("--preset and --config exclude each other; give one of them.")
    if file is not None and not file.is_file():
        raise ValueError(f"{file}: no such config file; check the path.")
    config = Config.from_preset(preset or "debug") if file is None else Config.from_yaml(file)
    data = config.to_dict()
    for setting in settings:
        _apply(data, setting)
    return Config.from_dict(data)


def _apply(data: dict[str, Any], setting: str) -> None:
    """Changes one entry of nested dictionaries: ``train.batch_size=64``."""
    import yaml

    key, equals, text = setting.partition("=")
    *parents, last = key.strip().split(".")
    node: Any = data
    for parent in parents:
        node = node.get(parent) if isinstance(node, dict) else None
    if not equals or not isinstance(node, dict) or last not in node:
        raise ValueError(
            f"--set: expected KEY=VALUE with a key of the config such as train.batch_size=64, "
            f"received {setting!r}; `slotflow info PRESET --json` lists the keys."
        )
    try:
        node[last] = json.loads(text)  # numbers such as 1e-4, which YAML takes for text
    except json.JSONDecodeError:
        try:
            node[last] = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ValueError(f"--set: expected a YAML value, received {text!r}.") from None


def _bounds(option: str, text: str | None) -> list[float] | None:
    """Reads ``LOW:HIGH``."""
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(":"))
    except ValueError:
        raise ValueError(
            f"{option}: expected LOW:HIGH such as 0.5:1.5, received {text!r}."
        ) from None
    return [low, high]


def _k_prior(text: str) -> list[float] | dict[int, float]:
    """Reads ``P0,P1,...`` or ``K:P,K:P,...``."""
    parts = [part.strip() for part in text.split(",")]
    try:
        if ":" in text:
            pairs = [part.split(":") for part in parts]
            return {int(k): float(p) for k, p in pairs}
        return [float(part) for part in parts]
    except ValueError:
        raise ValueError(
            f"--k-prior: expected numbers for K = 0, 1, ... such as 0,1,1,2 or pairs such as "
            f"1:0.5,2:0.5, received {text!r}."
        ) from None


def _device(name: str | None) -> str | None:
    """Checks that a device exists."""
    if name is not None:
        import torch

        try:
            torch.empty(0, device=name)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ValueError(
                f"--device: expected a device of this machine such as cpu or cuda, received {name!r} "
                f"({reason})."
            ) from error
    return name


# --- Output --------------------------------------------------------------------------------------


def _record(post: Posterior, seed: int, samples: int = 1000) -> dict[str, Any]:
    """A posterior as plain values."""
    summary = post.summary(n=samples, seed=seed)
    rows = summary.reset_index().to_dict(orient="records")
    return {
        "k_map": post.k_map,
        "k_probs": post.k_probs.tolist(),
        "components": rows,
        "noise_std": post.noise_std,
        "noise_std_error": post.noise_std_error,
        "constrained_fraction": post.constrained_fraction(),
    }


def _print_json(record: Any) -> None:
    """Prints one JSON document; numbers that are not finite become null."""
    typer.echo(json.dumps(_plain(record), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """Plain Python values, as JSON knows them."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _print_posterior(
    console: Console, record: dict[str, Any], truth: dict[str, Any] | None = None
) -> None:
    """Prints q(K | x), the table of components and the noise level."""
    console.print("\nq(K | x)", highlight=False)
    for k, p in enumerate(record["k_probs"]):
        marks = " ◂ most probable" if k == record["k_map"] else ""
        marks += " (true K)" if truth is not None and k == truth["k"] else ""
        console.print(f"  K = {k:<2d} {_bar(p):<24s} {p:6.3f}{marks}", highlight=False)

    table = Table(box=SIMPLE_HEAD, header_style="bold", padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("#", justify="right")
    for name, unit in zip(PARAMETERS, ("", " [rad]", " [Hz]"), strict=True):
        table.add_column(escape(name + unit), justify="right", no_wrap=True)
        if truth is not None:
            table.add_column("truth", justify="right", style="cyan")
    for row, exact in _pairs(record["components"], None if truth is None else truth["components"]):
        cells = ["–" if row is None else str(row["component"])]
        for name in PARAMETERS:
            sd = math.nan if row is None else row[f"{name}_sd"]
            digits = _digits(sd)
            median = "missed" if row is None else f"{row[f'{name}_median']:.{digits}f}"
            cells.append(median if row is None else f"{median} ± {sd:.{digits}f}")
            if truth is not None:
                cells.append("none" if exact is None else f"{exact[name]:.{digits}f}")
        table.add_row(*cells)
    console.print(f"\nComponents, given K = {record['k_map']} (median ± sd)", highlight=False)
    console.print(table)
    console.print()
    error = record["noise_std_error"]
    noise = f"Noise level σ = {record['noise_std']:.3f}" + (f" ± {error:.3f}" if error else "")
    console.print(noise + (f" (truth {truth['noise_std']:.3f})" if truth else ""), highlight=False)
    share = record["constrained_fraction"]
    console.print(f"Draws outside A > 0 or the band, drawn again: {share:.1%}\n", highlight=False)


def _digits(sd: float) -> int:
    """Decimals that show two digits of an uncertainty."""
    return min(max(1 - math.floor(math.log10(sd)), 0), 7) if sd > 0 else 4


def _bar(p: float, width: int = 24) -> str:
    """A probability as blocks of an eighth."""
    eighths = round(8 * width * p)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _pairs(
    rows: list[dict[str, Any]], truth: list[dict[str, Any]] | None
) -> list[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """Inferred and true components side by side by their frequencies; None where there is none."""
    if truth is None:
        return [(row, None) for row in rows]
    from scipy.optimize import linear_sum_assignment

    cost = np.array(
        [[abs(row["frequency_median"] - exact["frequency"]) for exact in truth] for row in rows]
    ).reshape(len(rows), len(truth))
    partner = dict(zip(*(index.tolist() for index in linear_sum_assignment(cost)), strict=True))
    pairs = [(row, truth[partner[i]] if i in partner else None) for i, row in enumerate(rows)]
    missed = [exact for j, exact in enumerate(truth) if j not in partner.values()]
    return [*pairs, *((None, exact) for exact in missed)]


def _print_facts(console: Console, record: dict[str, Any], indent: int = 0) -> None:
    """Prints nested facts, one per line."""
    for name, value in record.items():
        label = f"{' ' * indent}[bold]{escape(name)}[/bold]"
        if isinstance(value, dict):
            console.print(label)
            _print_facts(console, value, indent + 2)
        else:
            text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
            if isinstance(value, float):
                text = f"{value:.6g}"
            if isinstance(value, (list, tuple)):
                text = ", ".join(map(str, value)) or "none"
            console.print(f"{label} {escape(str(text))}", soft_wrap=True, highlight=False)


def _median_seconds(call: Callable[[], object]) -> float:
    """Median wall time of a few calls."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _device_name(network: SlotFlow) -> str:
    """Where a model computes, in words."""
    import torch

    if network.device.type == "cuda":
        return torch.cuda.get_device_name(network.device)
    threads = torch.get_num_threads()
    return f"{network.device.type}, {threads} thread{'' if threads == 1 else 's'}"
