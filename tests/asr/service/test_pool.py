"""Workers that die, hang or are replaced while they are needed: whatever was taken is answered.

Most tests have a stand-in for the worker, which starts at once and goes wrong as told; the last ones the real one.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import warnings
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

from asr.errors import AudioError, CepstraError
from asr.recognizer import DEFAULT_BUNDLE, Recognizer
from asr.service import handle
from asr.service.errors import BusyError, LateError, ServiceError
from asr.service.metrics import Metrics
from asr.service.pool import Pool
from asr.service.settings import load
from asr.service.store import PhraseStore
from asr.service.transcriber import Urgency
from asr.service.work import Manner, Open, Setup, Transcribe
from asr.service.worker import Worker
from audio.reading import read_audio
from tests.asr.service import standin
from tests.asr.service.live import SAMPLES, SPEED_UP, children, is_zombie
from tests.asr.service.standin import ENDS, GOOD, HANGS, NO_PICKLE, SLOW, UNREADABLE
from tests.heard import written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from numpy.typing import NDArray

    from asr.results import Result

LONGEST = 60.0  # seconds, of anything: what takes longer hangs


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = set(children(os.getpid()))
    yield
    assert set(children(os.getpid())) <= before


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The bundle of stand-ins: its text is the model's name."""
    monkeypatch.setattr(handle, "_START", standin.START)
    bundle = tmp_path / "model.cepstra"
    bundle.write_text("first")
    return bundle


def _run(test: Callable[[], Coroutine[None, None, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LONGEST):
            await test()

    asyncio.run(limited())


@asynccontextmanager
async def _started(folder: Path, model: Path | None, **settings: Any) -> AsyncIterator[Pool]:
    spool = folder / "spool"
    spool.mkdir()
    pool = Pool(load(None, {"model": model, "workers": 2, **settings}), PhraseStore(None), Metrics(), spool)
    await pool.start()
    try:
        yield pool
    finally:
        await pool.stop(LONGEST)
    assert all(file.name.startswith("bundle-") for file in spool.iterdir())


def _sound(kind: float = GOOD, length: int = 1, filling: int = 0) -> Any:
    """A recording for stand-ins, which would need longer to start with numpy."""
    return kind, length, bytes(filling)


def _long(folder: Path, *kinds: float) -> Path:
    """A long recording; how a piece behaves is what a stand-in does with it."""
    path = folder / "spool" / "long.upload"
    path.write_bytes(bytes(round(256 * kind) for kind in kinds))
    return path


def _decoding(pool: Pool) -> list[int]:
    """Processes."""
    return [slot.pid for slot in pool._slots if slot.pid is not None and not slot.reads]


def _restarts(pool: Pool) -> float:
    return float(pool._metrics.restarts._value.get())


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONGEST):
        while not condition():
            await asyncio.sleep(0.01)


async def _is_at_work(pool: Pool, tasks: int = 1) -> None:
    await _until(lambda: pool._metrics.working._value.get() >= tasks)


def test_a_request_whose_worker_is_killed_is_answered_by_another(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in) as pool:
            asked = [asyncio.ensure_future(pool.transcribe(_sound(SLOW, 1 + i))) for i in range(4)]
            await _is_at_work(pool)
            for pid in _decoding(pool):
                os.kill(pid, signal.SIGKILL)
            assert [(await each).text for each in asked] == [f"first {1 + i}" for i in range(4)]
            await _until(lambda: pool.workers == 2)
            assert _restarts(pool) == 2

    _run(test)


@pytest.mark.parametrize("kind", [ENDS, NO_PICKLE])
def test_what_ends_each_worker_that_tries_it_fails_and_takes_nothing_with_it(
    kind: float, stand_in: Path, tmp_path: Path
) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in) as pool:
            kinds = [GOOD, GOOD, kind, GOOD, GOOD, kind, GOOD, GOOD]
            asked = [pool.transcribe(_sound(kind, 1 + i)) for i, kind in enumerate(kinds)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            for i, (each, answer) in enumerate(zip(kinds, answers, strict=True)):
                if each == GOOD:
                    assert not isinstance(answer, BaseException)
                    assert answer.text == f"first {1 + i}"
                else:
                    assert isinstance(answer, ServiceError)
                    assert "each worker that tried ended" in str(answer)
            assert 4 <= _restarts(pool) <= 6  # three tries each; the first may have been one for both
            await _until(lambda: pool.workers == 2)

    _run(test)


def test_what_hangs_fails_in_time_and_takes_nothing_with_it(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in, workers=1, task_seconds=0.5) as pool:
            asked = [pool.transcribe(_sound(kind, 1 + i)) for i, kind in enumerate([GOOD, HANGS, GOOD])]
            first, hanging, last = await asyncio.gather(*asked, return_exceptions=True)
            assert [getattr(each, "text", None) for each in (first, last)] == ["first 1", "first 3"]
            assert isinstance(hanging, LateError)

    _run(test)


def test_a_worker_that_is_stopped_while_it_is_sent_to_is_replaced(stand_in: Path, tmp_path: Path) -> None:
    """Samples of half a minute don't fit into a socket: sending them waits for whoever reads."""

    async def test() -> None:
        async with _started(tmp_path, stand_in, workers=1, task_seconds=1.0) as pool:
            os.kill(_decoding(pool)[0], signal.SIGSTOP)
            with pytest.raises(LateError):
                await pool.transcribe(_sound(filling=1 << 21))
            assert (await pool.transcribe(_sound(filling=1 << 21))).text == "first 1"

    _run(test)


def test_a_recording_at_fault_is_told_so_and_its_batch_is_answered(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in, workers=1) as pool:
            asked = [pool.transcribe(_sound(kind)) for kind in (GOOD, UNREADABLE, GOOD)]
            first, bad, last = await asyncio.gather(*asked, return_exceptions=True)
            assert isinstance(bad, AudioError)
            assert not isinstance(first, BaseException)
            assert not isinstance(last, BaseException)
            assert _restarts(pool) == 0

    _run(test)


def test_a_worker_that_dies_while_it_is_at_nothing_is_missed(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in) as pool:
            pids = children(os.getpid())
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            await _until(lambda: _restarts(pool) == 3 and pool.workers == 2)  # the reader as well
            assert not set(pids) & set(children(os.getpid()))
            assert (await pool.transcribe(_sound())).text == "first 1"

    _run(test)


def test_cancelled_requests_leave_the_queue_and_those_behind_them_are_answered(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in, workers=1, batch=1) as pool:
            asked = [asyncio.ensure_future(pool.transcribe(_sound(SLOW))) for _ in range(6)]
            await _is_at_work(pool)
            assert pool.waiting == 5
            for each in asked[:-1]:
                each.cancel()
            await asyncio.gather(*asked[:-1], return_exceptions=True)
            assert pool.waiting <= 1
            assert (await asked[-1]).text == "first 1"
            assert pool.waiting == 0

    _run(test)


def test_no_more_wait_than_may_and_none_longer_than_may(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in, workers=1, max_waiting=1, answer_seconds=1.0) as pool:
            hanging = [asyncio.ensure_future(pool.transcribe(_sound(HANGS))) for _ in range(2)]
            await _is_at_work(pool)
            with pytest.raises(BusyError) as refused:
                await pool.transcribe(_sound())
            assert refused.value.retry_after is not None
            assert refused.value.retry_after >= 1
            for each in hanging:
                with pytest.raises(LateError):
                    await each
            assert pool.waiting == 0
            os.kill(_decoding(pool)[0], signal.SIGKILL)  # it still hangs
            assert (await pool.transcribe(_sound())).text == "first 1"

    _run(test)


def test_short_recordings_go_between_the_parts_of_a_long_one(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in, workers=1) as pool:
            heard: list[str] = []
            file = _long(tmp_path, *[SLOW] * 8, GOOD)
            long = asyncio.ensure_future(pool.transcribe(file, heard=heard.append))
            await _until(lambda: bool(heard))
            for i in range(3):
                assert (await pool.transcribe(_sound(GOOD, 1 + i))).text == f"first {1 + i}"
            assert not long.done()
            result = await long
            assert result.text == " ".join(f"w{i}" for i in range(9))
            assert heard == [f"w{i}" for i in range(9)]
            assert result.duration == 90.0
            assert not list(file.parent.glob("*.samples"))
            file.unlink()

    _run(test)


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
        async with _started(tmp_path, stand_in, task_seconds=0.5) as pool:
            file = _long(tmp_path, *kinds)
            with pytest.raises(error):
                await pool.transcribe(file)
            file.unlink()
            await _until(lambda: pool.waiting == 0)
            assert (await pool.transcribe(_sound())).text == "first 1"

    _run(test)


def test_a_long_recording_that_nobody_waits_for_any_more_leaves_nothing_behind(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in, workers=1) as pool:
            for last in (SLOW, GOOD):  # while it is opened, while it is decoded
                file = _long(tmp_path, *[SLOW] * 8, last)
                asked = asyncio.ensure_future(pool.transcribe(file))
                await _is_at_work(pool)
                await asyncio.sleep(0.1)
                asked.cancel()
                with suppress(asyncio.CancelledError):
                    await asked
                file.unlink()
                assert pool.waiting == 0

    _run(test)


def test_a_reload_under_load_loses_nothing_and_has_the_new_bundle_answer(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in) as pool:
            answers: list[str] = []
            reloaded = False

            async def client() -> None:
                for _ in range(400):
                    answers.append((await pool.transcribe(_sound(GOOD))).text)
                    if reloaded and len(answers) > 200:
                        break

            clients = [asyncio.ensure_future(client()) for _ in range(6)]
            slow = [asyncio.ensure_future(pool.transcribe(_sound(SLOW))) for _ in range(8)]
            before = set(_decoding(pool))
            await _until(lambda: len(answers) > 20)
            stand_in.write_text("second")
            await pool.reload()
            assert pool.model == "second"
            assert (await pool.transcribe(_sound())).text == "second 1"
            reloaded = True
            await asyncio.gather(*clients)
            assert {(await each).text for each in slow} <= {"first 1", "second 1"}
            assert answers[0] == "first 1"
            assert answers[-1] == "second 1"
            assert set(answers) == {"first 1", "second 1"}
            assert not before & set(children(os.getpid()))
            assert pool.workers == 2
            assert [file.read_text() for file in (tmp_path / "spool").iterdir()] == ["second"]

    _run(test)


def test_a_bundle_that_cannot_be_used_is_not_taken(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in) as pool:
            before = _decoding(pool)
            for content in ("damaged", "ends", None):
                stand_in.unlink()
                if content is not None:
                    stand_in.write_text(content)
                with pytest.raises(CepstraError) as refused:
                    await pool.reload()
                assert str(stand_in) in str(refused.value)
                assert "spool" not in str(refused.value)  # a copy's name tells nobody anything
                if content is None:
                    stand_in.write_text("")
                assert (await pool.transcribe(_sound())).text == "first 1"
                assert _decoding(pool) == before
                assert len(children(os.getpid())) == 3
                assert [file.read_text() for file in (tmp_path / "spool").iterdir()] == ["first"]

    _run(test)


def test_several_reloads_at_once_come_one_after_the_other(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in, workers=1) as pool:
            stand_in.write_text("second")
            await asyncio.gather(*(pool.reload() for _ in range(3)))
            assert (await pool.transcribe(_sound())).text == "second 1"
            assert len(children(os.getpid())) == 2

    _run(test)


def test_stopping_ends_a_reload_that_is_under_way(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in, workers=1) as pool:
            reloading = asyncio.ensure_future(pool.reload())
            await asyncio.sleep(0.02)
        await asyncio.gather(reloading, return_exceptions=True)

    _run(test)


def test_a_bundle_whose_file_is_gone_is_still_there_for_a_new_worker(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in, workers=1) as pool:
            stand_in.unlink()
            os.kill(_decoding(pool)[0], signal.SIGKILL)
            assert (await pool.transcribe(_sound())).text == "first 1"

    _run(test)


def test_stopping_finishes_what_was_taken_and_refuses_what_is_new(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in, batch=1) as pool:
            file = _long(tmp_path, SLOW, GOOD, GOOD)
            asked = [asyncio.ensure_future(pool.transcribe(_sound(SLOW, 1 + i))) for i in range(6)]
            long = asyncio.ensure_future(pool.transcribe(file))
            await _is_at_work(pool, 2)
            stopping = asyncio.ensure_future(pool.stop(LONGEST))
            await asyncio.sleep(0)
            with pytest.raises(BusyError):
                pool.refuse_if_full()
            assert [(await each).text for each in asked] == [f"first {1 + i}" for i in range(6)]
            assert (await long).text == "w0 w1 w2"
            await stopping
            for late in (pool.transcribe(_sound()), pool.check_phrases("a", "b")):
                with pytest.raises(BusyError):
                    await late
            file.unlink()

    _run(test)


@pytest.mark.parametrize("hurried", [False, True])
def test_what_is_not_done_when_the_time_to_stop_is_over_is_told_so(
    stand_in: Path, tmp_path: Path, hurried: bool
) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in, batch=1) as pool:
            asked = [asyncio.ensure_future(pool.transcribe(_sound(HANGS))) for _ in range(4)]
            checking = asyncio.ensure_future(pool.check_phrases("a", "b"))
            await _is_at_work(pool, 2)
            stopping = asyncio.ensure_future(pool.stop(LONGEST if hurried else 0.2))
            await asyncio.sleep(0)
            if hurried:
                pool.hurry()
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(each) for each in answers] == [BusyError] * 4
            await asyncio.gather(checking, return_exceptions=True)
            await stopping

    _run(test)


def test_restarts_use_up_neither_descriptors_nor_processes(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with _started(tmp_path, stand_in, workers=4, task_seconds=0.2) as pool:
            await pool.transcribe(_sound())
            descriptors = len(list(Path("/proc/self/fd").iterdir()))
            for i in range(13):
                if i % 4 == 0:
                    asked = [pool.transcribe(_sound(HANGS)) for _ in range(4)]
                    for answer in await asyncio.gather(*asked, return_exceptions=True):
                        assert isinstance(answer, LateError)
                else:
                    for pid in _decoding(pool):
                        os.kill(pid, signal.SIGKILL)
                    assert (await pool.transcribe(_sound())).text == "first 1"
                await _until(lambda: pool.workers == 4)
            assert _restarts(pool) >= 50
            assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors
            pids = children(os.getpid())
            assert len(pids) == 5
            assert not any(is_zombie(pid) for pid in pids)

    _run(test)


def test_a_bundle_that_cannot_be_used_is_told_at_the_start(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        for content in ("damaged", "ends", None):
            stand_in.unlink()
            if content is not None:
                stand_in.write_text(content)
            pool = Pool(load(None, {"model": stand_in, "workers": 1}), PhraseStore(None), Metrics(), tmp_path)
            with pytest.raises(CepstraError, match="model"):
                await pool.start()
            assert not children(os.getpid())
            if content is None:
                stand_in.write_text("")

    _run(test)


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
        async with _started(tmp_path, None) as pool:
            assert same(await pool.transcribe(file))
            asked = [asyncio.ensure_future(pool.transcribe(each)) for each in [SPEED_UP, file, SPEED_UP, broken]]
            await _is_at_work(pool, 2)
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

    _run(test)


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


@pytest.mark.parametrize("model", ["/dev/zero", "/dev/null", "."])
def test_what_is_no_bundle_is_refused_before_it_is_copied(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What /dev/zero gives has no end, and would fill the disk."""
    monkeypatch.setattr("shutil.copyfile", lambda *_: pytest.fail("it was copied"))

    async def test() -> None:
        with pytest.raises(CepstraError, match=model):
            async with _started(tmp_path, Path(model)):
                pass

    _run(test)
