"""What a training does before it trains: settings refused without torch, one run in a folder, advice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml

from asr.errors import ConfigError, TrainingError
from asr.lock import locked
from asr.manifest import Utterance
from asr.tokenizer import Tokenizer
from asr.training.advice import advice
from asr.training.batches import BatchStream
from asr.training.corpus import Packed
from asr.training.folder import Folder
from asr.training.settings import build
from audio.augmentation import Augmenter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from asr.training.config import TrainConfig

Settings = dict[str, Any]
CEPSTRA = (sys.executable, "-c", "from asr.cli import main; main()")


@pytest.fixture
def poisoned(tmp_path: Path) -> dict[str, str]:
    """An environment in which torch and lightning are found, and end the program where they are imported."""
    for name in ("torch", "lightning"):
        package = tmp_path / "poison" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"import os; print('{name} was imported', flush=True); os._exit(77)\n")
    return {**os.environ, "PYTHONPATH": str(tmp_path / "poison"), "COLUMNS": "200"}


@pytest.fixture
def settings_file(tmp_path: Path, chirp_settings: Settings) -> Path:
    path = tmp_path / "my.yaml"
    path.write_text(yaml.safe_dump(chirp_settings))
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.yaml"], "none.yaml: can't be read"),
        (["my.yaml", "stepps=3"], "unknown setting stepps; did you mean steps?"),
        (["my.yaml", "steps=many"], "setting steps: 'many' is not a whole number"),
        (["my.yaml", "optimiser.learning_rate=0"], "setting optimiser.learning_rate is 0.0"),
        (["my.yaml", "data.train=[]"], "setting data.train: names no manifest"),
        (["my.yaml", "data.train=[{manifest: none.jsonl}]"], "setting data.train: no such manifest: "),
        (["my.yaml", "data.rooms=[{manifest: none.jsonl}]"], "setting data.rooms: no such manifest: "),
        (["my.yaml", "start_from=none.ckpt"], "setting start_from: no such file: "),
        (["my.yaml", "data.max_seconds=0.2"], "training: no utterance can be used (40 too long)"),
        (["my.yaml", "stages=[{max_seconds: 0.2}]"], "setting stages.0: no utterance of 0.2 s or less"),
        (["my.yaml", "vocab_size=3"], "vocab_size 3 is too small"),
    ],
)
@pytest.mark.usefixtures("settings_file")
def test_settings_are_refused_before_torch_loads(
    tmp_path: Path, poisoned: dict[str, str], arguments: list[str], message: str
) -> None:
    done = subprocess.run(
        [*CEPSTRA, "train", *arguments], cwd=tmp_path, env=poisoned, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    *before, last = done.stderr.splitlines()
    assert last.startswith("cepstra: ")
    assert message in last
    assert all("left out of" in line for line in before)
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("settings_file")
def test_the_poison_works(tmp_path: Path, poisoned: dict[str, str]) -> None:
    done = subprocess.run(
        [*CEPSTRA, "train", "my.yaml"], cwd=tmp_path, env=poisoned, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()[1:]) == (77, ["was", "imported"])


HOLDER = """
import os, sys, time
from pathlib import Path
from asr.errors import TrainingError
from asr.lock import locked

with locked(Path(sys.argv[1]), "training", TrainingError, print):
    child = os.fork()
    if not child:  # as a data loader is: it lives on when its parent is killed, and must not hold the folder
        time.sleep(100)
    print(f"held beside {child}", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the folder "run" until it reads a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "run")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    words = process.stdout.readline().split()
    assert words[:2] == ["held", "beside"]
    yield process
    os.kill(int(words[2]), signal.SIGKILL)
    process.kill()
    process.communicate()


def test_two_trainings_cannot_share_a_folder(
    tmp_path: Path, poisoned: dict[str, str], settings_file: Path, holder: subprocess.Popen[str]
) -> None:
    for extra in ([], ["--restart"]):
        command = [*CEPSTRA, "train", str(settings_file), *extra]
        done = subprocess.run(command, env=poisoned, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr == (
            f"cepstra: {tmp_path / 'run'}: another training is writing into it (process {holder.pid}); wait for its "
            "end, stop it, or choose another output\n"
        )
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
    holder.kill()  # nothing of it tidies up
    holder.wait()
    with locked(tmp_path / "run", "training", TrainingError, print):
        pass
    assert list((tmp_path / "run").iterdir()) == []


def test_who_leaves_a_folder_lets_others_in(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with (
        pytest.raises(TrainingError, match="another training is writing into it"),
        locked(tmp_path / "run", "training", TrainingError, print),
    ):
        pass
    assert holder.stdin
    holder.stdin.write("\n")
    holder.stdin.flush()
    holder.wait()
    with locked(tmp_path / "run", "training", TrainingError, print):
        assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


def test_folders_made_for_nothing_go_again_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with locked(tmp_path / "there" / "new" / "run", "training", TrainingError, print):
        assert (tmp_path / "there" / "new" / "run").is_dir()
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]
    with locked(tmp_path / "run", "training", TrainingError, print):
        (tmp_path / "run" / "last.ckpt").touch()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["last.ckpt"]


def test_the_processes_of_one_run_belong_together(
    chirp_config: Callable[..., TrainConfig], tmp_path: Path, holder: subprocess.Popen[str], monkeypatch: Any
) -> None:
    del holder
    folder = Folder(tmp_path / "run")
    monkeypatch.setenv("LOCAL_RANK", "1")
    with folder.held():  # the first process holds it for all
        assert folder.goes_on_from(chirp_config(), restart=False) is None


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ({"steps": 100}, {"steps": 70}, "steps"),  # the warm-up follows from them
        ({"steps": 100, "optimiser": {"warmup_steps": 3}}, {"steps": 70}, "optimiser.warmup_steps, steps"),
        ({"steps": 100}, {"steps": 70, "optimiser": {"warmup_steps": 3}}, "optimiser.warmup_steps, steps"),
        ({"preset": "tiny"}, {"preset": "base"}, "preset"),  # as does the shape of the model
        ({"preset": "tiny"}, {"preset": "base", "model": {"heads": 2}}, "preset, model.heads"),
        ({"preset": "tiny", "model": {"halve_after": 0}}, {"preset": "base"}, "preset, model.halve_after"),
        ({"model": {"windows": [9]}}, {}, "model.windows"),
    ],
)
def test_only_what_was_stated_is_named_where_a_run_has_other_settings(
    tmp_path: Path, before: Settings, after: Settings, named: str
) -> None:
    folder = Folder(tmp_path)
    folder.begin(build(before), restart=False)
    folder.last.touch()
    with pytest.raises(ConfigError, match=re.escape(f"holds a run with other settings ({named}); choose another")):
        folder.goes_on_from(build(after), restart=False)


def lines_of(config: TrainConfig, texts: list[str]) -> list[str]:
    """Advice on utterances of one second with these texts."""
    count = len(texts)
    data = Packed(
        (Utterance(Path("a"), 1, ""),) * count, tuple(texts), np.ones(count), (),
        np.array([(0, 0, 16000)] * count),
    )  # fmt: skip
    stream = BatchStream(data, config.data, config.stages, Augmenter(config.augmentation))
    return list(advice(config, data, Tokenizer.train(texts, config.vocab_size), stream))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, []),
        ({"optimiser": {"warmup_steps": 99}}, []),
        ({"optimiser": {"warmup_steps": 100}}, ["setting optimiser.warmup_steps: 100 of 100 steps, .*, or use 10"]),
        ({"stages": [{"steps": 99}, {}]}, []),
        ({"stages": [{"steps": 60}, {"steps": 40}, {}]}, ["setting stages.2: the run ends after 100 steps, before"]),
        # Letters, ', ▁ and the four specials; then ▁a, which alone comes twice and is new
        ({"vocab_size": 60000}, ["setting vocab_size: the vocabulary has 33 pieces and not 60000, since no others"]),
        # 100 utterances of a second and a grain: all of them are one batch
        (
            {"steps": 1001, "data": {"seconds_per_batch": 400, "quadratic_seconds": 2}},
            ["setting steps: 1001 come to 1001 passes .*; try 200$"],
        ),
        ({"steps": 1000, "data": {"seconds_per_batch": 400, "quadratic_seconds": 2}}, []),
        ({"steps": 1, "data": {"seconds_per_batch": 1}}, ["setting steps: 1 come to 0.01 passes"]),
    ],
)
def test_what_teaches_little_is_told(settings: Settings, expected: list[str]) -> None:
    defaults: Settings = {"steps": 100, "vocab_size": 33, "augmentation": {"speed_probability": 0}}
    found = lines_of(build(defaults | settings), ["a"] * 100)
    assert len(found) == len(expected), found
    assert all(re.match(pattern, line) for pattern, line in zip(expected, found, strict=True)), found


def test_too_many_pieces_for_little_text_are_told() -> None:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefghij"), 5)) for _ in range(20)]
    config = build({"vocab_size": 60, "steps": 10})
    (line,) = lines_of(config, [" ".join(words)] * 2)
    times = float(re.match(r"setting vocab_size: each of the 60 pieces comes ([\d.]+) times", line)[1])  # type: ignore[index]
    assert 20 * 2 / 60 <= times < 10  # each word has a piece at least
    assert line.endswith("try 40, and model.halve_after=0 for as many places as letters need")
    (line,) = lines_of(build({"vocab_size": 60, "steps": 10, "model": {"halve_after": 0}}), [" ".join(words)] * 2)
    assert line.endswith("try 40")
    assert lines_of(config, [" ".join(words)] * 100) == []
    assert lines_of(replace(config, start_from="a.ckpt"), [" ".join(words)] * 2) == []  # its vocabulary comes with it


def test_a_loader_does_not_keep_a_failed_run_alive(tmp_path: Path, settings_file: Path) -> None:
    """It ignores SIGTERM, and whoever holds on to the error holds on to it."""
    code = (
        "import multiprocessing\n"
        "from asr.training import run, settings, callbacks\n"
        "def fail(*_):\n"
        "    assert len(multiprocessing.active_children()) == 2\n"
        "    raise RuntimeError('broken')\n"
        "callbacks.Pictures.on_validation_end = fail\n"
        "try:\n"
        f"    run.train(settings.load_config({str(settings_file)!r}, ['data.workers=2', 'validate_every=2']))\n"
        "except RuntimeError as error:\n"
        "    kept = error\n"
        "assert not multiprocessing.active_children()\n"
        "print('ended')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)  # noqa: PLW1510
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


@pytest.mark.parametrize("written", ['seed: !!bool "x"', 'seed: !!int ""', "[" * 3000, "- 1", "seed: 1", None])
def test_a_config_that_no_run_wrote_stays(
    chirp_config: Callable[..., TrainConfig], tmp_path: Path, written: str | None
) -> None:
    path = tmp_path / "run" / "config.yaml"
    path.parent.mkdir()
    if written is None:
        os.mkfifo(path)  # which would keep whoever reads it waiting
    else:
        path.write_text(written)
    with pytest.raises(ConfigError, match=r"config\.yaml: not written by a run, and would be replaced"):
        Folder(path.parent).goes_on_from(chirp_config(), restart=False)
    assert path.exists()
