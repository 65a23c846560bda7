"""Stopped in whatever way, training goes on as if nothing had been: the same weights to the last bit.

Whole runs in processes of their own, as `cepstra train` starts them.
"""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Everything that chance has a hand in, and steps of two batches
CHANCE: dict[str, Any] = {
    "steps": 24,
    "validate_every": 8,
    "save_every": 5,
    "average": 2,
    "optimiser": {"name": "muon", "accumulate": 2, "warmup_steps": 3},
    "stages": [{"steps": 2, "max_seconds": 1.2, "augment": False, "spec_augment": False}, {}],
    "augmentation": {"noise_probability": 0.9, "room_probability": 0.9, "gain_probability": 0.9},
}

# Runs `cepstra` once for each job on standard input, one after the other, each in a process of its own: forked, since
# what takes longest is to import torch. A job may be killed at a given step, in a given hook, or be sent a signal as
# soon as it has saved a checkpoint.
RUNNER = """
import json, os, signal, sys, time
import asr.training.pictures
from asr.cli import main
from asr.training.module import Recogniser
from asr.training.run import train

def kill_in(where, step):
    hook = getattr(Recogniser, where)

    def kill(self, *arguments):
        if self.global_step == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return hook(self, *arguments)

    setattr(Recogniser, where, kill)

def saved():
    return os.stat("run/last.ckpt").st_mtime_ns if os.path.exists("run/last.ckpt") else 0

for number, job in enumerate(json.load(sys.stdin)):
    before = saved()
    child = os.fork()
    if not child:
        os.setsid()  # as on a terminal, where Ctrl-C reaches a group of processes
        os.dup2(os.open(f"stderr{number}", os.O_WRONLY | os.O_CREAT), 2)
        os.dup2(2, 1)  # nor are its loaders to hold on to our output, which they do for seconds when it is killed
        if job.get("kill"):
            kill_in(*job["kill"])
        sys.argv = ["cepstra", *job["argv"]]
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        sys.stderr.flush()
        os._exit(code)  # a fork has not the threads that torch would take leave of
    if job.get("signal"):
        while saved() == before and os.waitpid(child, os.WNOHANG) == (0, 0):
            time.sleep(0.02)
        (os.killpg if job.get("group") else os.kill)(child, job["signal"])
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

# As `cepstra`, but every process writes down the weights that it has when a checkpoint is saved
EACH = """
import torch
from asr.cli import main
from asr.training.module import Recogniser

hook = Recogniser.on_save_checkpoint

def write(self, checkpoint):
    torch.save(self.model.state_dict(), f"rank{self.global_rank}.pt")
    hook(self, checkpoint)

Recogniser.on_save_checkpoint = write
main()
"""


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in {"LOCAL_RANK", "WORLD_SIZE", "PL_GLOBAL_SEED"}}
    return kept | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def run(folder: Path, *jobs: dict[str, Any]) -> list[tuple[int, str]]:
    """Exit code and standard error of each job."""
    (folder / "runner.py").write_text(RUNNER)
    done = subprocess.run(
        [sys.executable, "runner.py"], cwd=folder, env=environment(), input=json.dumps(jobs), capture_output=True,
        text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    codes = [int(line) for line in done.stdout.split()]
    return [(code, (folder / f"stderr{number}").read_text()) for number, code in enumerate(codes)]


@pytest.fixture
def folder(tmp_path: Path, chirp_settings: dict[str, Any]) -> Path:
    """A folder with settings.yaml of a run in which everything is left to chance."""
    settings = {**chirp_settings, **CHANCE, "output": "run", "data": {**chirp_settings["data"], "workers": 2}}
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path


def tensors(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All that is in a tree of dictionaries and lists, with its place."""
    if isinstance(value, dict | list | tuple):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from tensors(inner, f"{name}/{key}")
    else:
        yield name, value


def checkpoint(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = torch.load(path, weights_only=True)
    return loaded


def curves(path: Path) -> list[dict[str, str]]:
    """What was logged, but for how fast it was."""
    with path.open(encoding="utf-8") as file:
        return [
            {k: v for k, v in row.items() if k != "epoch" and not k.startswith("speed/")}
            for row in csv.DictReader(file)
        ]


def test_killed_and_resumed_is_as_if_never_killed(folder: Path) -> None:
    train = ["train", "settings.yaml"]
    whole, *killed, resumed = run(
        folder,
        {"argv": [*train, "output=whole"]},
        {"argv": train, "kill": ["on_train_batch_start", 1]},  # before the first checkpoint
        {"argv": train, "kill": ["on_before_optimizer_step", 13]},  # in the middle of a step
        {"argv": train, "kill": ["validation_step", 16]},  # the checkpoint of this step waits for its end
        {"argv": train, "kill": ["validation_step", 24]},  # after the last step
        {"argv": train},
    )
    assert whole[0] == 0, whole[1]
    assert [code for code, _ in killed] == [-signal.SIGKILL] * 4, killed
    assert [f"last.ckpt, step {step}" in told for (_, told), step in zip(killed[2:], (10, 15), strict=True)] == [
        True
    ] * 2
    assert resumed[0] == 0, resumed[1]
    assert "last.ckpt, step 20" in resumed[1]

    left, right = (checkpoint(folder / name / "last.ckpt") for name in ("whole", "run"))
    for part in ("state_dict", "optimizer_states", "lr_schedulers", "global_step", "Data"):
        ours, theirs = dict(tensors(left[part])), dict(tensors(right[part]))
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            equal = torch.equal(value, theirs[name]) if isinstance(value, torch.Tensor) else value == theirs[name]
            assert equal, f"{part}{name}"
    left, right = (checkpoint(folder / name / "best.ckpt") for name in ("whole", "run"))
    assert all(torch.equal(value, right["state_dict"][name]) for name, value in left["state_dict"].items())
    assert curves(folder / "whole" / "metrics.csv") == curves(folder / "run" / "metrics.csv")
    reports = [json.loads((folder / name / "report.json").read_text()) for name in ("whole", "run")]
    for name in ("validation_wer", "best_single_wer", "averaged_wer", "checkpoints", "hours_of_sound"):
        assert reports[0][name] == reports[1][name]
    names = [sorted(path.name for path in (folder / name / "checkpoints").iterdir()) for name in ("whole", "run")]
    assert names[0] == names[1]


def test_stopped_by_a_signal_it_saves_and_says_how_to_go_on(folder: Path) -> None:
    train = ["train", "settings.yaml", "steps=100000", "validate_every=100000", "save_every=2"]
    jobs = run(
        folder,
        {"argv": train, "signal": signal.SIGINT},
        {"argv": train, "signal": signal.SIGTERM},
        {"argv": train, "signal": signal.SIGINT, "group": True},  # as on a terminal: the loaders hear it too
    )
    steps = 0
    for (code, told), expected in zip(jobs, (130, 143, 130), strict=True):
        assert code == expected
        assert "Traceback" not in told
        assert f"last.ckpt, step {steps}" in told or not steps
        last = re.fullmatch(
            r"cepstra: stopped at step (\d+) of 100000; the same command goes on from there, and run/last\.ckpt can be "
            "exported as it is",
            told.splitlines()[-1],
        )
        assert last, told
        assert int(last[1]) >= steps + 2
        steps = int(last[1])
    assert checkpoint(folder / "run" / "last.ckpt")["global_step"] == steps


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two processes on one core take too long")
def test_two_processes_agree_and_stop_together(folder: Path) -> None:
    (folder / "each.py").write_text(EACH)
    arguments = ("train", "settings.yaml", "devices=2", "data.workers=0", "steps=100000", "validate_every=3")
    process = subprocess.Popen(
        [sys.executable, "each.py", *arguments], cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
    )
    last = folder / "run" / "last.ckpt"
    while not last.exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)  # to the first only: it is for it to tell the other
    _, told = process.communicate(timeout=120)
    assert process.returncode == 143
    assert "Traceback" not in told
    assert told.count("40 utterances") == told.count("step 3 of 100000: loss ") == 1  # one voice
    step = checkpoint(last)["global_step"]
    assert told.strip().splitlines()[-1].startswith(f"cepstra: stopped at step {step} of 100000;")
    ranks = [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(2)]
    saved = {k.removeprefix("model."): v for k, v in checkpoint(last)["state_dict"].items()}
    for name, value in saved.items():
        assert torch.equal(ranks[0][name], ranks[1][name]), name
        assert torch.equal(ranks[0][name], value), name
    done = subprocess.run(
        [sys.executable, "each.py", *arguments, "output=short", "steps=2", "validate_every=1", "stages=[{}]"],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "short" / "report.json").read_text())["averaged_wer"] is not None
    assert done.stderr.count("best model: ") == 1
