"""The page's arithmetic, in Chromium, held to ours."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile as sf

from audio.mfcc import MfccSpec, log_mel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray
    from playwright.sync_api import Browser

SAMPLES = Path(__file__).resolve().parents[4] / "data_manifests" / "samples"
TOLERANCE = 1e-4  # of natural logarithms of power
TIMES = "\N{MULTIPLICATION SIGN}"
STEP = 1 / 32768  # of 16-bit samples, which Chromium divides by 32767 where they are above 0


@pytest.fixture(scope="module")
def in_page(browser: Browser, service: str) -> Iterator[Callable[..., Any]]:
    """in_page("mel.js", "logMel(argument)", argument): what a module of the page gives."""
    page = browser.new_page()
    page.goto(service)

    def evaluate(module: str, expression: str, argument: Any = None) -> Any:
        names = "const {" + expression.partition("(")[0].removeprefix("await ") + "} = module;"
        return page.evaluate(
            f"async (argument) => {{ const module = await import('/page/{module}'); {names} return {expression}; }}",
            argument,
        )

    yield evaluate
    page.close()


def _mel_of_page(in_page: Callable[..., Any], samples: NDArray[np.float32], *frames: int) -> NDArray[np.float32]:
    """frames: the first and how many; all of them without."""
    data = "Uint8Array.from(atob(argument), (letter) => letter.charCodeAt(0))"
    expression = ", ".join([f"logMel(new Float32Array({data}.buffer)", *map(str, frames)]) + ").join(' ')"
    rows = in_page("mel.js", expression, base64.b64encode(samples.tobytes()).decode())
    return np.array(rows.split(), np.float32).reshape(-1, 40)


@pytest.mark.parametrize("name", ["computer_speed_up", "please_turn_off_the_microwave"])
def test_the_spectrogram_shows_what_the_model_is_given(in_page: Callable[..., Any], name: str) -> None:
    samples, rate = sf.read(SAMPLES / f"{name}.wav", dtype="float32")
    assert rate == 16000
    shown = _mel_of_page(in_page, samples)
    assert np.ptp(shown) > 10
    np.testing.assert_allclose(shown, log_mel(samples, MfccSpec()), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("length", [0, 1, 399, 400, 559, 560])
def test_the_spectrogram_of_the_shortest_sounds(in_page: Callable[..., Any], length: int) -> None:
    samples = np.random.default_rng(length).uniform(-1, 1, length).astype(np.float32)
    np.testing.assert_allclose(_mel_of_page(in_page, samples), log_mel(samples, MfccSpec()), atol=TOLERANCE, rtol=0)


def test_a_stretch_of_a_spectrogram_is_that_of_the_whole(in_page: Callable[..., Any]) -> None:
    samples = np.random.default_rng(0).uniform(-1, 1, 4000).astype(np.float32)
    part = _mel_of_page(in_page, samples, 5, 3)
    np.testing.assert_allclose(part, log_mel(samples, MfccSpec())[5:8], atol=TOLERANCE, rtol=0)


def test_a_decoded_file_at_the_models_rate_is_its_samples(in_page: Callable[..., Any]) -> None:
    file = SAMPLES / "computer_speed_up.wav"
    encoded = base64.b64encode(file.read_bytes()).decode()
    fetched = "new Blob([Uint8Array.from(atob(argument), (letter) => letter.charCodeAt(0))])"
    got = in_page("sound.js", f"await decode({fetched}, 1).then(({{ samples }}) => samples.join(' '))", encoded)
    np.testing.assert_allclose(np.array(got.split(), np.float32), sf.read(file, dtype="float32")[0], rtol=0, atol=STEP)


def test_recordings_are_written_as_16_bit_wav(in_page: Callable[..., Any]) -> None:
    samples = [0.0, 0.5, -0.5, 1.0, -1.0, 1.7, -1.7, 0.25]
    expression = (
        "encodeWav([Float32Array.from(argument.slice(0, 3)), Float32Array.from(argument.slice(3))], 44100)"
        ".arrayBuffer().then((buffer) => [...new Uint8Array(buffer)])"
    )
    data = bytes(in_page("wav.js", expression, samples))
    with sf.SoundFile(io.BytesIO(data)) as file:
        assert (file.samplerate, file.channels, file.subtype, file.format) == (44100, 1, "PCM_16", "WAV")
        written = file.read(dtype="int16").tolist()
    assert written == [0, 16384, -16384, 32767, -32768, 32767, -32768, 8192]


def test_colours_grow_lighter_in_equal_steps(in_page: Callable[..., Any]) -> None:
    """Of CIE lightness, which is another measure than the one that they are made with."""
    colours = np.array(in_page("colours.js", "COLOURS")) / 255
    assert colours.shape == (256, 3)
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    lightness = np.where(luminance > 0.008856, 116 * np.cbrt(luminance) - 16, 903.3 * luminance)
    assert lightness[0] < 8
    assert lightness[-1] > 90
    steps = np.diff(lightness[::15])  # 17 steps, since bytes are coarse
    assert steps.min() > 0.7 * steps.mean()
    assert steps.max() < 1.3 * steps.mean()


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (1, "1"),
        (2489, "2,489"),
        (9_999_999, "9,999,999"),
        (10_000_000, f"1 {TIMES} 10⁷"),
        (458_123_000_000, f"4.58 {TIMES} 10¹¹"),
        (999_999_999, f"1 {TIMES} 10⁹"),
        ("2489", "2,489"),
        ("458123000000", f"4.58 {TIMES} 10¹¹"),
        ("1" + "0" * 400, f"1 {TIMES} 10⁴⁰⁰"),
    ],
)
def test_counts_of_any_size_can_be_read(in_page: Callable[..., Any], number: int | str, shown: str) -> None:
    assert in_page("format.js", "count(argument)", number) == shown


def test_a_count_beyond_the_browsers_numbers(in_page: Callable[..., Any]) -> None:
    assert in_page("format.js", f"count(JSON.parse('1{'0' * 400}'))") == "more than 10³⁰⁸"
