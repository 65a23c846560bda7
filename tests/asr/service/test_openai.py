"""OpenAI's interface as OpenAI's own client sees it, and curl."""

from __future__ import annotations

import asyncio
import io
import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import openai
import pytest
import soundfile
from openai.types.audio import (
    TranscriptionSegment,
    TranscriptionTextDeltaEvent,
    TranscriptionTextDoneEvent,
    TranscriptionVerbose,
    TranscriptionWord,
)
from typer.testing import CliRunner

from asr.boost import WEIGHT
from asr.cli.commands import app as cli
from asr.manifest import read_manifest
from asr.recognizer import Recognizer
from asr.service.events import Events
from asr.service.openai import expected
from tests.heard import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.asr.service.conftest import Bare, Service

SAMPLES = Path(__file__).resolve().parents[3] / "data_manifests" / "samples"
ROWS = read_manifest(SAMPLES / "samples.jsonl")
FILES = [SAMPLES / Path(row.audio_filepath).name for row in ROWS]
(MICROWAVE,) = [file for file in FILES if "microwave" in file.name]
WRITTEN = written(MICROWAVE.stem)


@pytest.fixture
def client(service: Service) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A minute of the samples, one after the other with a second between them."""
    parts: list[np.ndarray[Any, Any]] = []
    while sum(map(len, parts)) < 60 * 16000:
        samples, rate = soundfile.read(FILES[len(parts) // 2 % len(FILES)], dtype="float32")
        assert rate == 16000
        parts += [samples, np.zeros(rate, np.float32)]
    file = tmp_path_factory.mktemp("long") / "minute.wav"
    soundfile.write(file, np.concatenate(parts), 16000)
    return file


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer()


@pytest.fixture(scope="module")
def long_text(long: Path, recognizer: Recognizer) -> str:
    return recognizer.transcribe(long).text


def test_every_sample_says_what_the_command_line_says(client: openai.OpenAI) -> None:
    ended = CliRunner().invoke(cli, ["transcribe", "--format", "json", *map(str, FILES)])
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(lines) == len(FILES) == 8
    for line, file in zip(lines, FILES, strict=True):
        answer = client.audio.transcriptions.create(model="whisper-1", file=file)
        assert answer.text == line["text"] != ""
        assert answer.usage is not None
        assert answer.usage.type == "duration"
        assert answer.usage.seconds == int(-(-soundfile.info(file).duration // 1))


def test_verbose_json_has_words_or_segments_or_both(client: openai.OpenAI, recognizer: Recognizer) -> None:
    def ask(**wishes: Any) -> TranscriptionVerbose:
        answer = client.audio.transcriptions.create(
            model="cepstra", file=MICROWAVE, response_format="verbose_json", **wishes
        )
        assert isinstance(answer, TranscriptionVerbose)
        return answer

    own = recognizer.transcribe(MICROWAVE)
    both = ask(timestamp_granularities=["word", "segment"])
    assert (both.text, both.language) == (own.text, "english")
    assert both.duration == pytest.approx(soundfile.info(MICROWAVE).duration, abs=0.001)
    assert both.words is not None
    assert both.segments is not None
    assert all(isinstance(word, TranscriptionWord) for word in both.words)
    assert [word.word for word in both.words] == own.text.split()
    for word, ours in zip(both.words, own.words, strict=True):
        assert (word.start, word.end) == pytest.approx((ours.start, ours.end), abs=0.001)
    (segment,) = both.segments
    assert isinstance(segment, TranscriptionSegment)
    assert segment.text == own.text
    assert (segment.start, segment.end) == pytest.approx((own.segments[0].start, own.segments[0].end), abs=0.001)
    assert segment.avg_logprob < 0
    assert segment.no_speech_prob == 0
    words, segments, usual = ask(timestamp_granularities=["word"]), ask(timestamp_granularities=["segment"]), ask()
    assert words.segments is None
    assert words.words == both.words
    assert segments.words is None
    assert segments.segments == usual.segments == both.segments
    assert usual.words is None


def test_text_and_subtitles_are_texts(client: openai.OpenAI) -> None:
    def ask(kind: Any) -> str:
        answer = client.audio.transcriptions.create(model="cepstra", file=MICROWAVE, response_format=kind)
        assert isinstance(answer, str)
        return answer

    assert ask("text") == f"{WRITTEN}\n"
    time = r"00:00:(\d\d[,.]\d{3})"
    srt = re.fullmatch(rf"1\n{time} --> {time}\n(.*)\n\n", ask("srt"))
    vtt = re.fullmatch(rf"WEBVTT\n\n{time} --> {time}\n(.*)\n", ask("vtt"))
    assert srt is not None
    assert vtt is not None
    assert srt[3] == vtt[3] == WRITTEN
    assert [float(srt[n].replace(",", ".")) for n in (1, 2)] == [float(vtt[n]) for n in (1, 2)]
    assert 0 <= float(vtt[1]) < float(vtt[2]) <= soundfile.info(MICROWAVE).duration
    assert "," in srt[1]
    assert "." in vtt[1]


def test_a_minute_says_what_the_recogniser_says_whole_and_in_parts(
    client: openai.OpenAI, service: Service, long: Path, long_text: str
) -> None:
    whole = client.audio.transcriptions.create(model="cepstra", file=long, response_format="verbose_json")
    assert whole.text == long_text
    assert whole.segments is not None
    assert [segment.id for segment in whole.segments] == list(range(len(whole.segments)))
    assert " ".join(segment.text for segment in whole.segments) == long_text
    events = list(client.audio.transcriptions.create(model="cepstra", file=long, stream=True))
    *deltas, done = events
    assert all(isinstance(delta, TranscriptionTextDeltaEvent) for delta in deltas)
    assert isinstance(done, TranscriptionTextDoneEvent)
    assert done.text == long_text
    assert len(deltas) > 3
    assert "".join(delta.delta for delta in deltas if isinstance(delta, TranscriptionTextDeltaEvent)) == long_text
    assert service.left == []


@pytest.mark.parametrize("kind", ["json", "text"])
def test_a_short_stream_has_one_delta(client: openai.OpenAI, kind: Any) -> None:
    stream = client.audio.transcriptions.create(model="cepstra", file=MICROWAVE, stream=True, response_format=kind)
    assert [event.type for event in stream] == ["transcript.text.delta", "transcript.text.done"]


def test_a_stream_whose_client_goes_leaves_nothing(client: openai.OpenAI, service: Service, long: Path) -> None:
    with client.audio.transcriptions.create(model="cepstra", file=long, stream=True) as stream:
        assert next(iter(stream)).type == "transcript.text.delta"
    for _ in range(100):
        if not service.left:
            break
        service.http.get("/health")
    assert service.left == []


def test_what_fails_before_a_stream_begins_has_its_status(client: openai.OpenAI, service: Service) -> None:
    with pytest.raises(openai.BadRequestError, match="not sound but text"):
        client.audio.transcriptions.create(model="cepstra", file=("a.wav", b"no sound"), stream=True)
    with pytest.raises(openai.BadRequestError, match="response_format json") as caught:
        client.audio.transcriptions.create(model="cepstra", file=MICROWAVE, stream=True, response_format="srt")
    assert caught.value.param == "stream"
    assert service.left == []


def test_words_of_the_prompt_are_heard(client: openai.OpenAI, recognizer: Recognizer) -> None:
    # A sample in which a word changes what is written, once it is expected
    file, word, said = next(
        (file, word, said)
        for word in sorted({word for row in ROWS for word in row.text.split()}, reverse=True)
        for file in FILES
        if (said := recognizer.sharing(boost={word: WEIGHT}).transcribe(file).text) != written(file.stem)
    )

    def ask(**wishes: Any) -> str:
        return str(client.audio.transcriptions.create(model="cepstra", file=file, **wishes).text)

    assert ask(prompt=word) == ask(prompt=f"noon, kitchen; {word}.") == said
    # What can't be boosted is left out; it's a prompt, and no list of words
    assert ask(prompt=f"{word}, 你好, \x00, " + "x" * 300) == said
    assert ask(prompt="") == ask(prompt="marmalade") == written(file.stem)


def test_language_and_temperature_are_taken_where_they_fit(client: openai.OpenAI) -> None:
    def ask(**wishes: Any) -> str:
        return str(client.audio.transcriptions.create(model="cepstra", file=MICROWAVE, **wishes).text)

    for language in ("en", "EN", "en-US", "english"):
        assert ask(language=language, temperature=0.7) == WRITTEN
    for wishes, param in (({"language": "de"}, "language"), ({"temperature": 2.5}, "temperature"),
                          ({"temperature": "nan"}, "temperature")):  # fmt: skip
        with pytest.raises(openai.BadRequestError) as caught:
            ask(**wishes)
        assert caught.value.param == param


def test_models(client: openai.OpenAI) -> None:
    (model,) = client.models.list()
    assert (model.id, model.object, model.owned_by) == ("en-commands", "model", "cepstra")
    assert client.models.retrieve("en-commands") == client.models.retrieve("whisper-1") == model
    assert client.audio.transcriptions.create(model=model.id, file=MICROWAVE).text == WRITTEN
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-17")


def test_errors_are_those_of_the_client(client: openai.OpenAI, service: Service) -> None:
    create = client.audio.transcriptions.create
    with pytest.raises(openai.NotFoundError) as missing:
        create(model="gpt-17", file=MICROWAVE)
    assert (missing.value.param, missing.value.code, missing.value.type) == (
        "model", "not_found", "invalid_request_error",
    )  # fmt: skip
    assert "whisper-1" in missing.value.message
    with pytest.raises(openai.BadRequestError, match="not sound but text") as caught:
        create(model="cepstra", file=("a.wav", b"this is no sound"))
    assert (caught.value.param, caught.value.code) == ("file", "invalid_audio")
    assert ".upload" not in caught.value.message
    assert "/" not in caught.value.message.split(";")[0]
    with pytest.raises(openai.BadRequestError, match="empty"):
        create(model="cepstra", file=("a.wav", b""))
    with pytest.raises(openai.BadRequestError) as caught:
        client.post("/audio/transcriptions", body={"model": "cepstra"}, cast_to=object)
    assert caught.value.param == "file"
    for wishes, param in (({"response_format": "html"}, "response_format"),
                          ({"timestamp_granularities": ["syllable"]}, "timestamp_granularities")):  # fmt: skip
        with pytest.raises(openai.BadRequestError) as caught:
            create(model="cepstra", file=MICROWAVE, **wishes)
        assert caught.value.param == param
    assert service.left == []


def test_other_kinds_of_sound(client: openai.OpenAI, recognizer: Recognizer) -> None:
    samples, rate = soundfile.read(MICROWAVE)
    for kind, subtype in (("flac", "PCM_16"), ("ogg", "VORBIS"), ("ogg", "OPUS"), ("mp3", "MPEG_LAYER_III")):
        data = io.BytesIO()
        soundfile.write(data, samples, rate, format=kind, subtype=subtype)
        sound = data.getvalue()
        text = client.audio.transcriptions.create(model="cepstra", file=(f"sound.{kind}", sound)).text
        assert text == recognizer.transcribe(sound).text
        assert text.split()[-3:] == WRITTEN.split()[-3:]


def test_curl_gets_every_format(service: Service) -> None:
    def curl(*options: str) -> str:
        url = f"{service.url}/v1/audio/transcriptions"
        return subprocess.run(
            ["curl", "-sS", "--fail-with-body", url, "-F", f"file=@{MICROWAVE}", *options],
            capture_output=True, text=True, timeout=60, check=True,
        ).stdout  # fmt: skip

    assert json.loads(curl())["text"] == json.loads(curl("-F", "response_format=json"))["text"] == WRITTEN
    assert curl("-F", "response_format=text") == f"{WRITTEN}\n"
    assert curl("-F", "response_format=srt").startswith("1\n00:00:0")
    assert curl("-F", "response_format=vtt").startswith("WEBVTT\n\n00:00:0")
    verbose = json.loads(curl("-F", "response_format=verbose_json", "-F", "timestamp_granularities[]=word"))
    assert [word["word"] for word in verbose["words"]] == WRITTEN.split()
    events = curl("-N", "-F", "stream=true")
    assert re.findall(r"^event: (\S+)$", events, re.MULTILINE) == ["transcript.text.delta", "transcript.text.done"]
    assert [json.loads(data)["type"] for data in re.findall(r"^data: (.*)$", events, re.MULTILINE)] == re.findall(
        r"^event: (\S+)$", events, re.MULTILINE
    )


@pytest.mark.parametrize(
    ("prompt", "phrases"),
    [
        (None, []),
        ("  ", []),
        ("living room, kitchen", ["living room", "kitchen"]),
        ("Hibari.\nOK?  hibari \t dance; a:b", ["Hibari", "OK", "hibari dance", "a", "b"]),
        ("one, one, two", ["one", "two"]),
        (f"{'x' * 201}, short", ["short"]),
        ("é, 你好。", ["é", "你好。"]),
    ],
)
def test_a_prompt_is_taken_apart(prompt: str | None, phrases: list[str]) -> None:
    assert list(expected(prompt)) == phrases


def test_a_prompt_is_read_as_far_as_it_has_an_effect(bare: Bare) -> None:
    prompt = "word, " * 5000 + "last"
    answer = bare.http.post("/v1/audio/transcriptions", files={"file": b"x"}, data={"prompt": prompt})
    assert answer.status_code == 200
    (asked,) = bare.pool.asked
    assert list(asked["boost"]) == ["word"]


def test_a_stream_that_nobody_waits_for_leaves_no_file(bare: Bare) -> None:
    """The client may go after its request and before the first event: then nothing asks for one."""

    async def gone() -> bool:
        file = bare.spool / "a.upload"
        file.touch()
        never = asyncio.Event()
        events = Events(file)

        async def work() -> Any:
            events.heard("yes")
            await never.wait()

        await events.begin(work())

        async def receive() -> dict[str, str]:
            return {"type": "http.disconnect"}

        async def send(_message: Any) -> None:
            await never.wait()

        await events({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send)
        await asyncio.sleep(0)
        return events._work is not None and events._work.cancelled()

    assert asyncio.run(gone())
    assert bare.left == []
