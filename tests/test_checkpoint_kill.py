"""Checkpoints survive kill -9 and a file system that refuses to grow."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import torch
from training_helpers import python, tiny, write_config

from slotflow.network.checkpoint import save_training
from slotflow.network.config import Config

KILLER = '''
"""Starts a writer over and over, kills it at a random moment and looks at what it left."""
import os, random, resource, signal, sys, time, traceback
from contextlib import contextmanager
from pathlib import Path

import torch
import slotflow.network.checkpoint as checkpoint
import safetensors.torch
from slotflow.network.config import Config
from slotflow.train.loop import train

how, folder, config, kills = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
path = folder / "checkpoint.safetensors"
torch.set_num_threads(1)
random.seed(int(sys.argv[5]))


@contextmanager
def straight(target):  # the careless way: no temporary file
    yield target


def slowly(tensors, target, metadata):  # and in place: newer releases of safetensors rename a file of their own
    content = safetensors.torch.save(tensors, metadata)
    with open(target, "wb", buffering=0) as file:
        for start in range(0, len(content), 2**16):
            file.write(content[start : start + 2**16])
            time.sleep(0.0005)


def write_for_ever():
    for n in range(10**9):
        tensors = {str(i): torch.full((1000, 50), float(n)) for i in range(10)}
        checkpoint.save_training(path, {"model": tensors}, {"step": n})


def write():
    if how == "train":
        train(Config.from_yaml(config), folder, resume=path.exists(), quiet=True)
    elif how == "full":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        write_limit = (path.stat().st_size - 1000, resource.RLIM_INFINITY)
        resource.setrlimit(resource.RLIMIT_FSIZE, write_limit)
        try:
            write_for_ever()
        except OSError as error:
            print("refused", str(error).replace(str(path), "PATH"), flush=True)
    else:
        checkpoint.save_file = slowly
        if how == "straight":
            checkpoint.atomic_path = straight
        write_for_ever()


for _ in range(kills):
    before = path.stat().st_mtime_ns if path.exists() else 0
    child = os.fork()
    if child == 0:
        try:
            write()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    if how != "full":
        while not path.exists() or path.stat().st_mtime_ns == before:
            if os.waitpid(child, os.WNOHANG)[0]:
                sys.exit("the writer died by itself")
            time.sleep(0.001)
        time.sleep(random.uniform(0, 0.06))
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    try:
        parts, state = checkpoint.load_training(path)
        mixed = how != "train" and {float(t) for v in parts["model"].values() for t in v.unique()}
        print("mixed" if mixed and mixed != {float(state["step"])} else "whole", state["step"])
    except checkpoint.CheckpointError:
        print("broken")
print("left", len(list(folder.glob(".*"))))
'''


def killed(how: str, tmp_path: Path, config: Config, kills: int, seed: int) -> list[list[str]]:
    """What was found after each kill, word by word."""
    folder = tmp_path / "run"
    folder.mkdir(exist_ok=True)
    file = write_config(config, tmp_path / "config.yaml")
    result = python("-c", KILLER, how, folder, file, kills, seed)
    assert result.returncode == 0, result.stderr
    return [line.split() for line in result.stdout.splitlines()]


def test_kill_9_while_training(debug_config: Config, tmp_path: Path, seed: int) -> None:
    """Each run resumes what the one before it left, with a checkpoint after every step."""
    config = tiny(debug_config, checkpoint_minutes=0.0, steps_per_epoch=50, max_epochs=100)
    *found, _ = killed("train", tmp_path, config, 6, seed)
    assert [word for word, *_ in found] == ["whole"] * 6
    steps = [int(step) for _, step in found]
    assert steps == sorted(steps) and len(set(steps)) == 6, "every run went on from the last"


def test_kill_9_while_writing(debug_config: Config, tmp_path: Path, seed: int) -> None:
    """A writer that does nothing else: the file is whole and of one moment; at worst a temporary one is left."""
    *found, left = killed("atomic", tmp_path, tiny(debug_config), 12, seed)
    assert Counter(word for word, *_ in found) == {"whole": 12}
    assert int(left[1]) > 0, "no kill came in the middle of a write: the test is too weak"


def test_kill_9_breaks_a_careless_writer(debug_config: Config, tmp_path: Path, seed: int) -> None:
    """The control: writing straight into the file, the same kills leave broken ones."""
    *found, _ = killed("straight", tmp_path, tiny(debug_config), 12, seed)
    assert Counter(word for word, *_ in found)["broken"] > 0


def test_file_system_that_refuses_to_grow(debug_config: Config, tmp_path: Path) -> None:
    """A real refusal by the operating system, halfway through the file, becomes one clear OSError."""
    (tmp_path / "run").mkdir()
    tensors = {str(i): torch.full((1000, 50), 7.0) for i in range(10)}
    save_training(tmp_path / "run" / "checkpoint.safetensors", {"model": tensors}, {"step": 7})
    refused, found, left = killed("full", tmp_path, tiny(debug_config), 1, 0)
    assert " ".join(refused).startswith("refused PATH: could not be written")
    assert found == ["whole", "7"]
    assert left == ["left", "0"]
