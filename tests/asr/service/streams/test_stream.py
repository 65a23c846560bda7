"""The conversation behind every protocol: what it hears, what it asks for, and what it keeps."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asr.errors import AudioError
from asr.inflow import PcmInflow
from asr.listen import Heard, Listener
from asr.service import stream
from asr.service.errors import BusyError, LateError, NotFoundError
from asr.service.stream import Conversation, Lost, Wishes
from asr.service.transcriber import Urgency
from asr.utterances import Began, Spoken, Utterances
from audio.pcm import RawFormat
from audio.vad import Endpointer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from asr.recognizer import Recognizer

RATE = 16000
FORM = RawFormat("PCM_16", RATE)


def as_bytes(samples: NDArray[np.float32]) -> bytes:
    return (samples * 32768).astype("<i2").tobytes()


async def run(conversation: Conversation, data: bytes, size: int) -> list[Began | Heard | Lost]:
    found = [e for at in range(0, len(data), size) async for e in conversation.feed(data[at : at + size])]
    return found + [e async for e in conversation.finish()]


@pytest.mark.parametrize("size", [333, 3200, 1 << 20])
def test_what_is_heard_is_what_listen_hears(stand_in: Any, both: Recognizer, talk: Any, size: int) -> None:
    listener = Listener(both)
    expected = [*listener.feed(talk), *listener.finish()]

    async def converse() -> list[Began | Heard | Lost]:
        conversation = await Conversation.begin(stand_in, PcmInflow(FORM, "it"))
        return await run(conversation, as_bytes(talk), size)

    events = asyncio.run(converse())
    heard = [event for event in events if isinstance(event, Heard)]
    assert [type(event) for event in events] == [Began, Heard] * 3
    assert [(h.result.text, h.start, h.end) for h in heard] == [(h.result.text, h.start, h.end) for h in expected]
    assert [event.start for event in events if isinstance(event, Began)] == [h.start for h in expected]
    assert {urgency for urgency, _, _ in stand_in.asked} == {Urgency.LIVE}
    # The pause of half a second, and less than the chunk of 32 ms and the block of 100 ms in which it ends
    assert all(0.5 <= h.latency - h.decoding < 0.5 + 0.032 + 0.1 for h in heard[:2])


def test_utterances_lie_where_the_endpointer_says(talk: NDArray[np.float32]) -> None:
    endpointer = Endpointer(pause_seconds=0.3)
    events = [*endpointer.feed(talk), *endpointer.finish()]
    utterances = Utterances(pause_seconds=0.3)
    found = [*utterances.feed(talk), *utterances.finish()]
    assert [event.kind for event in events] == ["started", "ended"] * (len(found) // 2)
    for event, told in zip(events, found, strict=True):
        if isinstance(told, Spoken):
            assert told.end == event.position / RATE
            assert np.array_equal(told.samples, talk[round(told.start * RATE) : event.position])
        else:
            assert told.start == event.position / RATE


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 1999), max_size=12), encoding=st.sampled_from(["PCM_16", "FLOAT"]))
def test_samples_may_be_split_anywhere(cuts: list[int], encoding: Any) -> None:
    rng = np.random.default_rng(0)
    form = RawFormat(encoding, 8000, 2)
    data = (rng.integers(-9000, 9000, 1000).astype("<i2") if encoding == "PCM_16" else
            rng.normal(0, 0.1, 500).astype("<f4")).tobytes()  # fmt: skip
    whole = PcmInflow(form, "it")
    expected = np.concatenate([*whole.feed(data), *whole.finish()])
    parts = PcmInflow(form, "it")
    edges = [0, *sorted(cuts), len(data)]
    found = [b for a, z in pairwise(edges) for b in parts.feed(data[a:z])]
    assert np.allclose(np.concatenate([*found, *parts.finish()]), expected, atol=1e-6)


def test_partial_texts_come_while_somebody_speaks_and_one_at_a_time(
    stand_in: Any, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PARTIAL_SECONDS", 0.0)
    monkeypatch.setattr(stream, "PARTIAL_SHARE", 0.0)
    told: list[str] = []
    running = {Urgency.LIVE: 0, Urgency.PARTIAL: 0}

    class Counting:
        rate, model, language = RATE, "it", "en"

        async def transcribe(self, sound: Any, *, urgency: Urgency, **options: Any) -> Any:
            running[urgency] += 1
            assert running[urgency] == 1
            try:
                return await stand_in.transcribe(sound, urgency=urgency, **options)
            finally:
                running[urgency] -= 1

    async def tell(text: str) -> None:
        told.append(text)

    async def converse() -> list[tuple[str, list[str]]]:
        conversation = await Conversation.begin(Counting(), PcmInflow(FORM, "it"), on_partial=tell)  # type: ignore[arg-type]
        data = as_bytes(talk)
        found: list[tuple[str, list[str]]] = []
        for at in range(0, len(data), 6400):
            async for event in conversation.feed(data[at : at + 6400]):
                if isinstance(event, Heard):
                    assert conversation.partial == ""
                    found.append((event.result.text, told.copy()))
                told.clear()
            while running[Urgency.PARTIAL]:  # as if the client sent no faster than it speaks
                await asyncio.sleep(0.005)
            assert conversation.partial == (told[-1] if told else conversation.partial)
        return found

    found = asyncio.run(converse())
    assert len(found) == 3
    for text, partials in found:
        assert partials
        assert len(set(partials)) == len(partials)
        assert partials[-1].split()[0] == text.split()[0]


@pytest.mark.parametrize("fault", [BusyError("busy"), LateError("late")])
def test_a_partial_that_is_refused_is_dropped_and_a_final_one_is_asked_for_again(
    stand_in: Any, talk: Any, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    monkeypatch.setattr(stream, "PARTIAL_SECONDS", 0.0)
    monkeypatch.setattr(stream, "RETRY_SECONDS", 0.0)
    refused: list[Urgency] = []
    told: list[str] = []

    async def refuse(urgency: Urgency) -> None:
        if urgency is Urgency.PARTIAL or refused.count(Urgency.LIVE) < 3:
            refused.append(urgency)
            raise fault

    async def tell(text: str) -> None:
        told.append(text)

    async def converse() -> list[Began | Heard | Lost]:
        stand_in.before = refuse
        conversation = await Conversation.begin(stand_in, PcmInflow(FORM, "it"), on_partial=tell)
        return await run(conversation, as_bytes(talk), 6400)

    events = asyncio.run(converse())
    assert sum(isinstance(event, Heard) for event in events) == 3
    assert refused.count(Urgency.LIVE) == 3
    assert Urgency.PARTIAL in refused
    assert told == []


def test_a_final_one_that_nobody_has_time_for_is_said_to_be_lost(
    stand_in: Any, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(stream, "RETRY_SECONDS", 0.01)

    async def refuse(_: Urgency) -> None:
        raise BusyError("nobody has time")

    async def converse() -> list[Began | Heard | Lost]:
        stand_in.before = refuse
        return await run(await Conversation.begin(stand_in, PcmInflow(FORM, "it")), as_bytes(talk), 1 << 16)

    events = asyncio.run(converse())
    lost = [event for event in events if isinstance(event, Lost)]
    assert [type(event) for event in events] == [Began, Lost] * 3
    assert all(event.start < event.end and isinstance(event.error, BusyError) for event in lost)


def test_wishes_are_passed_on_and_checked_at_the_beginning(stand_in: Any, talk: Any) -> None:
    wishes = Wishes("digits", 0.25, {"lamp": 2.0})

    async def converse() -> None:
        conversation = await Conversation.begin(stand_in, PcmInflow(FORM, "it"), wishes)
        heard = [event for event in await run(conversation, as_bytes(talk), 6400) if isinstance(event, Heard)]
        assert [h.result.text for h in heard] == ["", "five five two eight five", ""]
        with pytest.raises(NotFoundError):
            await Conversation.begin(stand_in, PcmInflow(FORM, "it"), Wishes("none"))
        with pytest.raises(AudioError):
            await Conversation.begin(stand_in, PcmInflow(FORM, "it"), pause_seconds=60)

    asyncio.run(converse())
    assert all(options == wishes.options() for _, options, _ in stand_in.asked[:4])


def test_silence_and_noise_for_minutes_fill_nothing(stand_in: Any) -> None:
    async def converse() -> None:
        conversation = await Conversation.begin(stand_in, PcmInflow(FORM, "it"))
        rng = np.random.default_rng(0)
        for number in range(120):
            samples = rng.normal(0, 0.03, RATE) if number % 2 else np.zeros(RATE)
            async for _ in conversation.feed(as_bytes(samples.astype(np.float32))):
                pass
            assert conversation.held <= 2 * RATE

    asyncio.run(converse())


def test_endless_talk_is_answered_in_parts_of_half_a_minute(stand_in: Any, talk: NDArray[np.float32]) -> None:
    speech = np.tile(talk[RATE : 3 * RATE], 20)

    async def converse() -> None:
        conversation = await Conversation.begin(stand_in, PcmInflow(FORM, "it"), pause_seconds=5.0)
        data = as_bytes(speech)
        for at in range(0, len(data), 6400):
            async for _ in conversation.feed(data[at : at + 6400]):
                pass
            assert conversation.held <= 31 * RATE

    asyncio.run(converse())
    assert stand_in.asked
    assert max(count for _, _, count in stand_in.asked) <= 30 * RATE


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_ends_it_and_what_came_before_is_heard(stand_in: Any, talk: Any, value: float) -> None:
    damaged = talk[: round(3.5 * RATE)].copy()  # in the middle of a word, as likely as not
    damaged[-1] = value

    async def converse() -> list[Began | Heard | Lost]:
        conversation = await Conversation.begin(stand_in, PcmInflow(RawFormat("FLOAT", RATE), "it"))
        data = damaged.astype("<f4").tobytes()
        found = [event async for event in conversation.feed(data[:-4000])]
        with pytest.raises(AudioError, match="not finite"):
            found += [event async for event in conversation.feed(data[-4000:])]
        return found + [event async for event in conversation.finish()]

    assert [type(event) for event in asyncio.run(converse())] == [Began, Heard]


@pytest.mark.parametrize("size", [3200, 1 << 20])
def test_no_utterance_before_a_fault_is_lost(stand_in: Any, talk: Any, size: int) -> None:
    """However much of it lies in the message with the fault."""
    data = talk.astype("<f4").tobytes() + np.full(100, np.nan, "<f4").tobytes()
    found: list[Began | Heard | Lost] = []

    async def converse() -> None:
        conversation = await Conversation.begin(stand_in, PcmInflow(RawFormat("FLOAT", RATE), "it"))
        for at in range(0, len(data), size):
            async for event in conversation.feed(data[at : at + size]):
                found.append(event)  # noqa: PERF401  those before the fault are wanted

    with pytest.raises(AudioError, match="not finite"):
        asyncio.run(converse())
    assert [type(event) for event in found] == [Began, Heard] * 3


def test_samples_beyond_full_scale_are_clipped_and_said(stand_in: Any, talk: Any) -> None:
    struck = talk.copy()
    struck[50] = 1e30

    async def converse() -> tuple[list[str], str | None]:
        conversation = await Conversation.begin(stand_in, PcmInflow(RawFormat("FLOAT", RATE), "it"))
        events = await run(conversation, struck.astype("<f4").tobytes(), 6400)
        return [event.result.text for event in events if isinstance(event, Heard)], conversation.warning

    texts, warning = asyncio.run(converse())
    assert all(texts)
    assert len(texts) == 3
    assert warning is not None
    assert "1e+30 times full scale" in warning


@pytest.mark.parametrize("size", [640, 1 << 20])
def test_the_loop_goes_on_while_much_is_worked_off(stand_in: Any, size: int) -> None:
    """What the network does of half a minute of sound must not be one stop of the loop, however it's cut."""
    ticks: list[int] = []

    async def tick() -> None:
        while True:
            ticks.append(len(ticks))
            await asyncio.sleep(0)

    async def converse() -> None:
        conversation = await Conversation.begin(stand_in, PcmInflow(FORM, "it"))
        ticking = asyncio.create_task(tick())
        await run(conversation, bytes(2 * 30 * RATE), size)
        ticking.cancel()

    asyncio.run(converse())
    assert len(ticks) > 30


def test_cancelling_takes_the_guess_from_the_queue(
    stand_in: Any, talk: Any, hanging: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PARTIAL_SECONDS", 0.0)

    async def tell(_: str) -> None: ...

    async def converse() -> None:
        stand_in.before = hanging
        conversation = await Conversation.begin(stand_in, PcmInflow(FORM, "it"), on_partial=tell)
        data = as_bytes(talk[: 2 * RATE])
        for at in range(0, len(data), 3200):
            async for _ in conversation.feed(data[at : at + 3200]):
                pass
        await asyncio.sleep(0)
        conversation.cancel()
        await asyncio.sleep(0)

    asyncio.run(converse())
    assert hanging.cancelled == [Urgency.PARTIAL]
