"""A new bundle, or the end, while a pool is at work: whatever was taken is answered."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from asr.errors import CepstraError
from asr.service.errors import BusyError
from asr.service.metrics import Metrics
from asr.service.pool import Pool
from asr.service.settings import load
from asr.service.store import PhraseStore
from tests.asr.service.live import children
from tests.asr.service.pools import LONGEST, decoding, is_at_work, long_recording, run, sound, started, until
from tests.asr.service.standin import GOOD, HANGS, SLOW

pytestmark = pytest.mark.usefixtures("no_process_is_left")


def test_a_reload_under_load_loses_nothing_and_has_the_new_bundle_answer(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in) as pool:
            answers: list[str] = []
            reloaded = False

            async def client() -> None:
                for _ in range(400):
                    answers.append((await pool.transcribe(sound(GOOD))).text)
                    if reloaded and len(answers) > 200:
                        break

            clients = [asyncio.ensure_future(client()) for _ in range(6)]
            slow = [asyncio.ensure_future(pool.transcribe(sound(SLOW))) for _ in range(8)]
            before = set(decoding(pool))
            await until(lambda: len(answers) > 20)
            stand_in.write_text("second")
            await pool.reload()
            assert pool.model == "second"
            assert (await pool.transcribe(sound())).text == "second 1"
            reloaded = True
            await asyncio.gather(*clients)
            assert {(await each).text for each in slow} <= {"first 1", "second 1"}
            assert answers[0] == "first 1"
            assert answers[-1] == "second 1"
            assert set(answers) == {"first 1", "second 1"}
            assert not before & set(children(os.getpid()))
            assert pool.workers == 2
            assert [file.read_text() for file in (tmp_path / "spool").iterdir()] == ["second"]

    run(test)


def test_a_bundle_that_cannot_be_used_is_not_taken(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in) as pool:
            before = decoding(pool)
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
                assert (await pool.transcribe(sound())).text == "first 1"
                assert decoding(pool) == before
                assert len(children(os.getpid())) == 3
                assert [file.read_text() for file in (tmp_path / "spool").iterdir()] == ["first"]

    run(test)


def test_several_reloads_at_once_come_one_after_the_other(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in, workers=1) as pool:
            stand_in.write_text("second")
            await asyncio.gather(*(pool.reload() for _ in range(3)))
            assert (await pool.transcribe(sound())).text == "second 1"
            assert len(children(os.getpid())) == 2

    run(test)


def test_stopping_ends_a_reload_that_is_under_way(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in, workers=1) as pool:
            reloading = asyncio.ensure_future(pool.reload())
            await asyncio.sleep(0.02)
        await asyncio.gather(reloading, return_exceptions=True)

    run(test)


def test_a_bundle_whose_file_is_gone_is_still_there_for_a_new_worker(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in, workers=1) as pool:
            stand_in.unlink()
            os.kill(decoding(pool)[0], signal.SIGKILL)
            assert (await pool.transcribe(sound())).text == "first 1"

    run(test)


def test_stopping_finishes_what_was_taken_and_refuses_what_is_new(stand_in: Path, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in, batch=1) as pool:
            file = long_recording(tmp_path, SLOW, GOOD, GOOD)
            asked = [asyncio.ensure_future(pool.transcribe(sound(SLOW, 1 + i))) for i in range(6)]
            long = asyncio.ensure_future(pool.transcribe(file))
            await is_at_work(pool, 2)
            stopping = asyncio.ensure_future(pool.stop(LONGEST))
            await asyncio.sleep(0)
            with pytest.raises(BusyError):
                pool.refuse_if_full()
            assert [(await each).text for each in asked] == [f"first {1 + i}" for i in range(6)]
            assert (await long).text == "w0 w1 w2"
            await stopping
            for late in (pool.transcribe(sound()), pool.check_phrases("a", "b")):
                with pytest.raises(BusyError):
                    await late
            file.unlink()

    run(test)


@pytest.mark.parametrize("hurried", [False, True])
def test_what_is_not_done_when_the_time_to_stop_is_over_is_told_so(
    stand_in: Path, tmp_path: Path, hurried: bool
) -> None:
    async def test() -> None:
        async with started(tmp_path, stand_in, batch=1) as pool:
            asked = [asyncio.ensure_future(pool.transcribe(sound(HANGS))) for _ in range(4)]
            checking = asyncio.ensure_future(pool.check_phrases("a", "b"))
            await is_at_work(pool, 2)
            stopping = asyncio.ensure_future(pool.stop(LONGEST if hurried else 0.2))
            await asyncio.sleep(0)
            if hurried:
                pool.hurry()
            answers = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(each) for each in answers] == [BusyError] * 4
            await asyncio.gather(checking, return_exceptions=True)
            await stopping

    run(test)


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

    run(test)


@pytest.mark.parametrize("model", ["/dev/zero", "/dev/null", "."])
def test_what_is_no_bundle_is_refused_before_it_is_copied(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What /dev/zero gives has no end, and would fill the disk."""
    monkeypatch.setattr("shutil.copyfile", lambda *_: pytest.fail("it was copied"))

    async def test() -> None:
        with pytest.raises(CepstraError, match=model):
            async with started(tmp_path, Path(model)):
                pass

    run(test)
