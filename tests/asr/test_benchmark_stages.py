"""Which stage has how much of a transcription, and whether all of them are the whole."""

from __future__ import annotations

import statistics
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import soundfile

from asr.benchmark.latency import STAGES, WARM_UP, Latency, Run, Timed, front_stages, measure, ratio
from asr.benchmark.memory import Curve, curve_of_process, points, utterances
from asr.benchmark.process import cold_start, peak_memory
from asr.benchmark.sound import SPEECH, shipped_sound, sound_of
from asr.benchmark.trace import Call, TimedBackend, spans
from asr.bundle import read_bundle
from asr.errors import CepstraError
from asr.recognizer import DEFAULT_BUNDLE, Recognizer
from asr.results import Result
from asr.runtime import OnnxBackend
from audio.reading import read_audio

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAMPLES = Path(__file__).resolve().parents[2] / "data_manifests" / "samples"


def call(kind: str, start: float, end: float) -> Call:
    return Call("encode" if kind == "encode" else "step", start, end, [1])


def test_spans_are_the_whole() -> None:
    calls = [
        call("encode", 3, 7),
        call("step", 8, 10),
        call("step", 13, 14),
        call("encode", 16, 17),
        call("step", 17, 18),
    ]
    found = spans(calls, 1, 23)
    # 2 before; 4 + 1; 2 + 1 + 1; 1 + 3 + 0 in front of steps; 2 between batches and 5 at the end
    assert (found.before, found.encoder, found.decoder, found.search, found.words) == (2, 5, 4, 4, 7)
    assert sum(vars(found).values()) == 22


def test_without_speech_everything_comes_before_the_encoder() -> None:
    assert vars(spans([], 2, 5)) == {"before": 3, "encoder": 0, "decoder": 0, "search": 0, "words": 0}


def run(seconds: float, **stages: float) -> Run:
    calls = (Call("encode", 0, 1, [16000, 8000]), Call("step", 1, 2, [33], 4), Call("step", 2, 3, [16], 1, 2))
    return Run(seconds, dict.fromkeys(STAGES, 0.0) | stages, calls, "lights on")


def test_medians_rest_and_percentile() -> None:
    latency = Latency("onnxruntime", 2, 1.5, tuple(run(float(n), encoder=n / 2, read=1.0) for n in (3, 1, 2, 5, 4)))
    assert (latency.fastest, latency.median) == (1, 3)
    assert latency.p95 == pytest.approx(4.8)  # four fifths of the way from 4 to 5
    assert latency.stages["encoder"] == 1.5
    assert latency.stages["rest"] == 0.5
    assert sum(latency.stages.values()) == latency.median
    assert (latency.steps, latency.tokens, latency.decoded) == (2, 5, [16000, 8000])


def test_the_share_of_the_peak_is_that_of_the_fastest_run() -> None:
    latency = Latency("onnxruntime", 1, 1.0, (run(9, encoder=4.0, decoder=0.0), run(9, encoder=2.0, decoder=0.0)))
    bundle = read_bundle(DEFAULT_BUNDLE)
    slow = latency.shares(bundle, dict.fromkeys(("float64", "float32", "int8"), 1e9))
    fast = latency.shares(bundle, dict.fromkeys(("float64", "float32", "int8"), 4e9))
    work = latency.to_dict(bundle, None)["operations"]
    assert slow["encoder"] == pytest.approx(sum(work["encoder"].values()) / 1e9 / 2.0)
    assert slow["encoder"] == pytest.approx(4 * (fast["encoder"] or 0))
    assert slow["decoder"] is None  # nothing was measured of it


def test_back_ends_take_turns() -> None:
    order: list[str] = []

    class Stub:
        def __init__(self, name: str, seconds: list[float]) -> None:
            self.name, self.threads, self.seconds = name, 1, iter(seconds)

        def run(self, _path: Path) -> Run:
            order.append(self.name)
            return run(next(self.seconds))

    stubs = [Stub("one", [9, 9, 9, 1, 2, 3]), Stub("two", [9, 9, 9, 4, 6, 12])]
    rounds: list[int] = []
    one, two = measure(cast("list[Timed]", stubs), Path("clip.wav"), seconds=2.0, runs=3, done=rounds.append)
    assert order == ["one", "two"] * (WARM_UP + 3)
    assert sum(rounds) == WARM_UP + 3
    assert [each.seconds for each in one.runs] == [1, 2, 3]  # what warmed up isn't counted
    assert ratio(two, one) == statistics.median([4, 3, 4])


def test_the_model_that_ships_is_timed_as_it_transcribes(tmp_path: Path) -> None:
    bundle = read_bundle(DEFAULT_BUNDLE)
    path = tmp_path / "clip.wav"
    shipped_sound().write(path, 2.0)
    timed = Timed("onnxruntime", bundle, OnnxBackend(bundle, 1), 1)
    found = timed.run(path)
    assert found.text == Recognizer(bundle, threads=1).transcribe(path).text != ""
    assert [each.kind for each in found.calls][:2] == ["encode", "step"]
    steps = [each for each in found.calls if each.kind == "step"]
    assert steps[0].past == 0
    assert all(a.past < b.past <= a.past + a.tokens for a, b in pairwise(steps))  # a draft may be written in part
    (length,) = found.calls[0].sizes
    assert 16000 < length <= 32000
    assert set(found.stages) == set(STAGES)
    assert all(value > 0 for name, value in found.stages.items() if name != "resample")
    inside = sum(found.stages[name] for name in ("encoder", "decoder", "search", "words"))
    assert inside < found.seconds


def test_pieces_of_a_long_recording_are_counted(tmp_path: Path) -> None:
    bundle = read_bundle(DEFAULT_BUNDLE)
    path = tmp_path / "clip.wav"
    shipped_sound().write(path, 25.0)
    latency = Latency("onnxruntime", 1, 25.0, (Timed("", bundle, OnnxBackend(bundle, 1), 1).run(path),))
    figures = latency.to_dict(bundle, None)
    assert figures["pieces"] >= 3  # none is longer than 10 s
    assert figures["decoded_seconds"] == pytest.approx(sum(latency.decoded) / 16000, abs=1e-3)
    assert figures["decoder_tokens"] >= figures["decoder_steps"] >= figures["pieces"]


def test_resampling_is_timed_where_there_is_some(tmp_path: Path) -> None:
    for rate, resampled in ((16000, False), (44100, True)):
        soundfile.write(tmp_path / "clip.wav", np.zeros(rate), rate)
        found = front_stages(tmp_path / "clip.wav", 16000, 1)
        assert found["read"] > 0
        assert (found["resample"] > 1e-5) is resampled


def test_looking_for_speech_takes_no_time_of_its_own_beside_the_encoder(tmp_path: Path) -> None:
    shipped_sound().write(tmp_path / "clip.wav", 2.0)
    shipped_sound().write(tmp_path / "long.wav", 25.0)  # several pieces are looked through first
    assert (
        front_stages(tmp_path / "clip.wav", 16000, 1)["speech"]
        > 1e-4
        > front_stages(tmp_path / "clip.wav", 16000, 2)["speech"]
    )
    assert front_stages(tmp_path / "long.wav", 16000, 2)["speech"] > 1e-3


def test_a_timed_back_end_answers_as_the_other() -> None:
    bundle = read_bundle(DEFAULT_BUNDLE)
    plain = OnnxBackend(bundle, 1)
    timed = TimedBackend(plain)
    clip = shipped_sound().clip(1.0)
    memory = timed.encode([clip])
    np.testing.assert_array_equal(memory.ctc, plain.encode([clip]).ctc)
    scores, cache = timed.step(np.array([[1, 5]]), memory.cache)
    np.testing.assert_array_equal(scores, plain.step(np.array([[1, 5]]), memory.cache)[0])
    assert [each.sizes for each in timed.calls] == [[16000], list(cache.lengths)]
    timed.step(np.array([[7]]), cache)
    assert [(each.tokens, each.past) for each in timed.calls[1:]] == [(2, 0), (1, 2)]
    assert all(each.seconds > 0 for each in timed.calls)
    assert timed.at_once == plain.at_once


def test_the_sound_that_ships_is_the_samples() -> None:
    joined = np.concatenate([read_audio(path) for path in sorted(SAMPLES.glob("*.wav"))])
    found = read_audio(SPEECH)
    assert len(found) == len(joined)
    assert np.corrcoef(found, joined)[0, 1] > 0.99


def test_clips_have_their_length_and_a_recording_its_rate(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "own.flac", np.linspace(-0.5, 0.5, 8000), 8000)
    sound = sound_of(tmp_path / "own.flac")
    assert (sound.rate, len(sound.clip(2.5))) == (8000, 20000)
    np.testing.assert_array_equal(sound.clip(2.0)[8000:], sound.clip(1.0))  # once more from the start
    sound.write(tmp_path / "clip.wav", 2.5)
    assert soundfile.info(tmp_path / "clip.wav").frames == 20000


def test_utterances_are_short_and_long() -> None:
    lengths = np.array([len(each) for each in utterances(np.zeros(200_000, np.float32), 16000, 500)]) / 16000
    assert lengths.min() == 0.2
    assert 9.5 < lengths.max() <= 10
    assert np.mean(lengths < 1.414) == pytest.approx(0.5, abs=0.02)  # the geometric middle
    assert max(len(each) for each in utterances(np.zeros(3000, np.float32), 16000, 50)) == 3000


def test_growth_leaves_the_warm_up_out() -> None:
    done = tuple(range(0, 101, 5))
    sizes = tuple(50_000_000 + 1_000_000 * min(number, 10) + 10_000 * number for number in done)
    curve = Curve(done, sizes)
    assert curve.warm == 10
    assert curve.growth == pytest.approx(10_000 * 90)
    assert curve.to_dict()["growth_mb"] == 0.9


@pytest.mark.parametrize("leaks", [True, False])
def test_a_leak_is_seen(leaks: bool) -> None:
    kept: list[NDArray[np.float64]] = []

    class Leaky:
        def transcribe(self, source: NDArray[np.float32], /) -> Result:
            block = np.ones(250_000)  # 2 MB
            if leaks:
                kept.append(block)
            return Result(None, len(source) / 16000, "", 1.0)

    found = list(points(Leaky(), np.zeros(160_000, np.float32), 16000, 50))
    assert [number for number, _ in found] == list(range(51))
    curve = Curve(*(tuple(each) for each in zip(*found, strict=True)))
    assert (curve.growth > 60e6) is leaks


def test_a_process_that_fails_says_why_in_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CepstraError, match=r"whose memory is watched failed \(.*absent\.cepstra"):
        curve_of_process(tmp_path / "absent.cepstra", SPEECH, 5, threads=1)
    assert capfd.readouterr() == ("", "")


def test_new_processes(tmp_path: Path) -> None:
    clip = tmp_path / "clip.wav"
    shipped_sound().write(clip, 1.0)
    rounds: list[int] = []
    cold = cold_start(DEFAULT_BUNDLE, clip, seconds=1.0, threads=1, runs=2, done=rounds.append)
    assert rounds == [1, 1]
    assert cold.command > cold.python > 0
    assert min(cold.imports, cold.load, cold.first) > 0
    assert peak_memory(DEFAULT_BUNDLE, clip, 1) > 50e6
    with pytest.raises(CepstraError, match=r"a new process failed \(cepstra: .*absent\.wav"):
        peak_memory(DEFAULT_BUNDLE, tmp_path / "absent.wav", 1)
    assert replace(cold, command=1.23456).to_dict()["command_s"] == 1.2346
