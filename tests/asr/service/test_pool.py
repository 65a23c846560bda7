"""Workers that die, hang or are replaced while they are needed: whatever was taken is answered.

Most tests have a stand-in for the worker, which starts at once and goes wrong as told; the last ones the real one.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from asr.errors import AudioError, CepstraError
from asr.recognizer import DEFAULT_BUNDLE, Recognizer
from asr.service.errors import BusyError, LateError, ServiceError
from asr.service.transcriber import Urgency
from asr.service.work import Manner, Open, Setup, Transcribe
from asr.service.worker import Worker
from audio.reading import read_audio
from tests.asr.service.live import SAMPLES, SPEED_UP, children, is_zombie
from tests.asr.service.pools import decoding, is_at_work, long_recording, run, sound, started, until
from tests.asr.service.standin import ENDS, GOOD, HANGS, NO_PICKLE, SLOW, UNREADABLE
from tests.heard import written

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from asr.results import Result
    from asr.service.pool import Pool


pytestmark = pytest.mark.usefixtures("no_process_is_left")


def _restarts(pool: Pool) -> float:
    return float(pool._metrics.restarts._value.get())


def test_a_request_whose_worker_is_killed_is_answered_by_another(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in) as pool:
            asked = [asyncio.ensure_future(pool.transcribe(sound(SLOW, 1 + i))) for i in range(4)]
            await is_at_work(pool)
            for pid in decoding(pool):
                os.kill(pid, signal.SIGKILL)
            assert [(await each).text for each in asked] == [f"first {1 + i}" for i in range(4)]
            await until(lambda: pool.workers == 2)
            assert _restarts(pool) == 2

    run(test)


@pytest.mark.parametrize("kind", [ENDS, NO_PICKLE])
def test_what_ends_each_worker_that_tries_it_fails_and_takes_nothing_with_it(
    kind: float, stand_in: Path, tmp_path: Path
) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in) as pool:
            kinds = [GOOD, GOOD, kind, GOOD, GOOD, kind, GOOD, GOOD]
            asked = [pool.transcribe(sound(kind, 1 + i)) for i, kind in enumerate(kinds)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            for i, (each, answer) in enumerate(zip(kinds, answers, strict=True)):
                if each == GOOD:
                    assert not isinstance(answer, BaseException)
                    assert answer.text == f"first {1 + i}"
                else:
                    assert isinstance(answer, ServiceError)
                    assert "each worker that tried ended" in str(answer)
            assert 4 <= _restarts(pool) <= 6  # three tries each; the first may have been one for both
            await until(lambda: pool.workers == 2)

    run(test)


def test_what_hangs_fails_in_time_and_takes_nothing_with_it(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in, workers=1, task_seconds=0.5) as pool:
            asked = [pool.transcribe(sound(kind, 1 + i)) for i, kind in enumerate([GOOD, HANGS, GOOD])]
            first, hanging, last = await asyncio.gather(*asked, return_exceptions=True)
            assert [getattr(each, "text", None) for each in (first, last)] == ["first 1", "first 3"]
            assert isinstance(hanging, LateError)

    run(test)


def test_a_worker_that_is_stopped_while_it_is_sent_to_is_replaced(stand_in: Path, tmp_path: Path) -> None:
    """Samples of half a minute don't fit into a socket: sending them waits for whoever reads."""

    async def test() -> None:
        async with started(tmp_path, stand_in, workers=1, task_seconds=1.0) as pool:
            os.kill(decoding(pool)[0], signal.SIGSTOP)
            with pytest.raises(LateError):
                await pool.transcribe(sound(filling=1 << 21))
            assert (await pool.transcribe(sound(filling=1 << 21))).text == "first 1"

    run(test)


def test_a_recording_at_fault_is_told_so_and_its_batch_is_answered(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in, workers=1) as pool:
            asked = [pool.transcribe(sound(kind)) for kind in (GOOD, UNREADABLE, GOOD)]
            first, bad, last = await asyncio.gather(*asked, return_exceptions=True)
            assert isinstance(bad, AudioError)
            assert not isinstance(first, BaseException)
            assert not isinstance(last, BaseException)
            assert _restarts(pool) == 0

    run(test)


def test_a_worker_that_dies_while_it_is_at_nothing_is_missed(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in) as pool:
            pids = children(os.getpid())
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            await until(lambda: _restarts(pool) == 3 and pool.workers == 2)  # the reader as well
            assert not set(pids) & set(children(os.getpid()))
            assert (await pool.transcribe(sound())).text == "first 1"

    run(test)


def test_cancelled_requests_leave_the_queue_and_those_behind_them_are_answered(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in, workers=1, batch=1) as pool:
            asked = [asyncio.ensure_future(pool.transcribe(sound(SLOW))) for _ in range(6)]
            await is_at_work(pool)
            assert pool.waiting == 5
            for each in asked[:-1]:
                each.cancel()
            await asyncio.gather(*asked[:-1], return_exceptions=True)
            assert pool.waiting <= 1
            assert (await asked[-1]).text == "first 1"
            assert pool.waiting == 0

    run(test)


def test_no_more_wait_than_may_and_none_longer_than_may(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in, workers=1, max_waiting=1, answer_seconds=1.0) as pool:
            hanging = [asyncio.ensure_future(pool.transcribe(sound(HANGS))) for _ in range(2)]
            await is_at_work(pool)
            with pytest.raises(BusyError) as refused:
                await pool.transcribe(sound())
            assert refused.value.retry_after is not None
            assert refused.value.retry_after >= 1
            for each in hanging:
                with pytest.raises(LateError):
                    await each
            assert pool.waiting == 0
            os.kill(decoding(pool)[0], signal.SIGKILL)  # it still hangs
            assert (await pool.transcribe(sound())).text == "first 1"

    run(test)


def test_short_recordings_go_between_the_parts_of_a_long_one(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in, workers=1) as pool:
            heard: list[str] = []
            file = long_recording(tmp_path, *[SLOW] * 8, GOOD)
            long = asyncio.ensure_future(pool.transcribe(file, heard=heard.append))
            await until(lambda: bool(heard))
            for i in range(3):
                assert (await pool.transcribe(sound(GOOD, 1 + i))).text == f"first {1 + i}"
            assert not long.done()
            result = await long
            assert result.text == " ".join(f"w{i}" for i in range(9))
            assert heard == [f"w{i}" for i in range(9)]
            assert result.duration == 90.0
            assert not list(file.parent.glob("*.samples"))
            file.unlink()

    run(test)


@pytest.mark.parametrize(
    ("kinds", "error"),
    [
        ([GOOD, ENDS, GOOD, GOOD], ServiceError),
        ([GOOD, HANGS, GOOD, GOOD], LateError),
        ([GOOD, GOOD, ENDS], ServiceError),  # to open
        ([GOOD, GOOD, HANGS], LateError),
    ],
)
def test_a_long_recording_at_fault_fails_and_leaves_nothing_behind(
    kinds: list[float], error: type[Exception], stand_in: Path, tmp_path: Path
) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in, task_seconds=0.5) as pool:
            file = long_recording(tmp_path, *kinds)
            with pytest.raises(error):
                await pool.transcribe(file)
            file.unlink()
            await until(lambda: pool.waiting == 0)
            assert (await pool.transcribe(sound())).text == "first 1"

    run(test)


def test_a_long_recording_that_nobody_waits_for_any_more_leaves_nothing_behind(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in, workers=1) as pool:
            for last in (SLOW, GOOD):  # while it is opened, while it is decoded
                file = long_recording(tmp_path, *[SLOW] * 8, last)
                asked = asyncio.ensure_future(pool.transcribe(file))
                await is_at_work(pool)
                await asyncio.sleep(0.1)
                asked.cancel()
                with suppress(asyncio.CancelledError):
                    await asked
                file.unlink()
                assert pool.waiting == 0

    run(test)


def test_restarts_use_up_neither_descriptors_nor_processes(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in, workers=4, task_seconds=0.2) as pool:
            await pool.transcribe(sound())
            descriptors = len(list(Path("/proc/self/fd").iterdir()))
            for i in range(13):
                if i % 4 == 0:
                    asked = [pool.transcribe(sound(HANGS)) for _ in range(4)]
                    for answer in await asyncio.gather(*asked, return_exceptions=True):
                        assert isinstance(answer, LateError)
                else:
                    for pid in decoding(pool):
                        os.kill(pid, signal.SIGKILL)
                    assert (await pool.transcribe(sound())).text == "first 1"
                await until(lambda: pool.workers == 4)
            assert _restarts(pool) >= 50
            assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors
            pids = children(os.getpid())
            assert len(pids) == 5
            assert not any(is_zombie(pid) for pid in pids)

    run(test)


def test_real_workers_decode_what_the_recogniser_does_also_when_they_are_killed(tmp_path: Path) -> None:
    clips = [soundfile.read(file, dtype="float32")[0] for file in sorted(SAMPLES.glob("*.wav"))]
    gap = np.zeros(12_000, np.float32)
    long = np.concatenate([part for clip in clips for part in (clip, gap)])
    file = tmp_path / "long.wav"
    soundfile.write(file, long, 16000)
    recognizer = Recognizer()
    expected, short = recognizer.transcribe(file), recognizer.transcribe(SPEED_UP)
    broken = tmp_path / "broken.wav"
    broken.write_bytes(file.read_bytes()[:30])

    def same(result: Result) -> bool:
        """Texts, times to a millisecond: batches of another make-up round otherwise."""
        return (
            result.text == expected.text
            and result.duration == expected.duration
            and np.allclose([word.start for word in result.words], [word.start for word in expected.words], atol=2e-3)
        )

    async def test() -> None:
        async with started(tmp_path, None) as pool:
            assert same(await pool.transcribe(file))
            asked = [asyncio.ensure_future(pool.transcribe(each)) for each in [SPEED_UP, file, SPEED_UP, broken]]
            await is_at_work(pool, 2)
            for pid in children(os.getpid()):
                os.kill(pid, signal.SIGKILL)
            assert (await asked[0]).text == (await asked[2]).text == short.text == written("computer_speed_up")
            assert same(await asked[1])
            with pytest.raises(AudioError) as refused:
                await asked[3]
            assert str(tmp_path) not in str(refused.value)
            # What is opened for nobody any more is written nowhere
            samples = tmp_path / "spool" / "gone.samples"
            with pytest.raises(CepstraError):
                await pool._ask(Open(file, samples), Urgency.LONG)
            assert not samples.exists()

    run(test)


def test_what_no_library_documents_costs_one_request_and_no_worker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def read(file: Path, **options: Any) -> NDArray[np.float32]:
        if file.name == "odd":
            raise ValueError("a fault of a library")
        return read_audio(file, **options)

    monkeypatch.setattr("asr.service.worker.read_audio", read)
    odd = tmp_path / "odd"
    shutil.copyfile(SPEED_UP, odd)
    with warnings.catch_warnings():
        worker = Worker(Setup(DEFAULT_BUNDLE, beam=1, threads=1, max_seconds=60.0))
        timed = worker.answer(Transcribe((SPEED_UP, odd, SPEED_UP), Manner()))
        opened = worker.answer(Open(odd, tmp_path / "samples"))
    first, refused, last = timed.answer
    assert first.text == last.text == written("computer_speed_up")
    for answer, faults in ((refused, timed.faults), (opened.answer, opened.faults)):
        assert isinstance(answer, ServiceError)
        assert "library" not in str(answer)  # that is for the log
        assert len(faults) == 1
        assert "a fault of a library" in faults[0]
