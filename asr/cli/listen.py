"""`cepstra listen`: a microphone or a stream, answered utterance by utterance."""

from __future__ import annotations

import math
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asr.cli.guidance import (
    BoostOption,
    LmOption,
    LmWeightOption,
    ThresholdOption,
    check_together,
    naming_inputs,
    read_guides,
    read_phrases,
)
from asr.cli.meant import explain_to_watcher
from asr.cli.messages import complain, naming
from asr.cli.transcribe import raw_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from asr.listen import Array, Heard, Listener, Reaction
    from audio.reading import RawFormat


def listen(
    *,
    source: Annotated[
        str | None,
        typer.Option("--input", metavar="FILE", help="Sound instead of the microphone; - is standard input."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="The microphone: its number, or a part of its name.")
    ] = None,
    phrases: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", show_default=False,
            help="A phrase file: listen for its commands only; see `phrases`. May be repeated.",
        ),
    ] = None,
    threshold: ThresholdOption = None,
    pause: Annotated[
        int, typer.Option(min=100, max=5000, metavar="MS", help="Silence, in milliseconds, that ends an utterance.")
    ] = 500,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON for each utterance.")] = False,
    on_command: Annotated[
        str | None,
        typer.Option(
            metavar="CMD",
            help="A program to run once for each command, in order; CEPSTRA_TEXT … are in its environment.",
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The bundle to use; without it, the one that ships.")
    ] = None,
    beam: Annotated[int, typer.Option(min=1, max=64, metavar="N", help="Hypotheses kept by the search.")] = 1,
    lm: LmOption = None,
    lm_weight: LmWeightOption = None,
    boost: BoostOption = None,
    threads: Annotated[int, typer.Option(min=1, max=1024, metavar="N", help="CPU threads.")] = 2,
    raw: Annotated[
        str | None,
        typer.Option(metavar="ENCODING:RATE:CHANNELS", help="What --input holds, such as PCM_16:16000:1, if not WAV."),
    ] = None,
) -> None:  # fmt: skip
    """What is said to a microphone or in a stream, as it is said.

    A line for each utterance, when it has ended. Ctrl-C ends it.
    """
    if source is not None and device is not None:
        raise typer.BadParameter("a device is for the microphone; leave one of the two out", param_hint="--device")
    if source is None and raw is not None:
        raise typer.BadParameter("says what --input holds; give that too", param_hint="--raw")
    check_together(phrases or [], threshold, lm, boost)
    form = None if raw is None else raw_format(raw)
    with _ended_by_signals():
        from asr.errors import CepstraError
        from asr.listen import Listener, check_variables
        from asr.recognizer import Recognizer

        if sys.stdout is None:
            raise CepstraError("standard output: closed; leave it open, or send it to /dev/null")
        react = None if on_command is None else _reaction(on_command)
        said = read_phrases(phrases or [])
        if said is not None and react is not None:
            with naming("--phrases"):
                check_variables(said)
        bundle, guides = read_guides(model, lm, lm_weight, boost)
        with naming_inputs(model):
            recognizer = Recognizer(bundle, threads=threads, beam=beam, phrases=said, threshold=threshold, **guides)
        listener = Listener(recognizer, pause_seconds=pause / 1000)
        with _sound(source, form, device) as sound:
            try:
                _answer(listener, sound, react, as_json=as_json, live=source is None)
            finally:
                if react is not None:
                    react.finish()


def _reaction(command: str) -> Reaction:
    from asr.errors import ConfigError
    from asr.listen import Reaction

    try:
        return Reaction(command, complain)
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--on-command") from None


def _answer(
    listener: Listener, sound: Iterable[Array], react: Callable[[Heard], None] | None, *, as_json: bool, live: bool
) -> None:
    from asr.writers import to_json

    with _meter() as show:

        def answer(heard: Heard) -> None:
            show(None)
            result = heard.result
            if as_json or result.text:
                print(to_json(heard.to_dict()) if as_json else result.text, flush=True)
            if not as_json:
                explain_to_watcher(result)
            if react is not None:
                react(heard)

        for number, block in enumerate(sound):
            if live and not number:
                complain("listening; Ctrl-C ends it")
            for heard in listener.feed(block):
                answer(heard)
            show(listener.level)
        for heard in listener.finish():
            answer(heard)


@contextmanager
def _sound(source: str | None, raw: RawFormat | None, device: str | None) -> Iterator[Iterable[Array]]:
    from asr.errors import AudioError
    from asr.listen import blocks_of, blocks_of_file, microphone
    from audio.sources import displayed

    if source is None:
        yield microphone(device)
    elif source == "-":
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None or stream.isatty():
            fault = "closed" if stream is None else "a terminal, not sound"
            raise AudioError(f"standard input: {fault}; pipe sound into it")
        yield blocks_of(stream, raw, "standard input")
    else:
        try:
            file = Path(source).open("rb")  # noqa: SIM115  what fails within the block is another matter
        except OSError as error:
            raise AudioError(f"{displayed(source)}: {error.strerror}; check the name") from None
        with file:
            whole = raw is None and file.seekable()
            yield blocks_of_file(file, displayed(source)) if whole else blocks_of(file, raw, displayed(source))


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the block, whatever it is at, and what comes after it goes on."""
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True
        raise KeyboardInterrupt

    # A shell's background jobs ignore Ctrl-C, and go on doing so
    wanted = [each for each in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, stop) for each in wanted}
    try:
        yield
    except (KeyboardInterrupt, ImportError):  # libraries that are loading make an ImportError of it
        if not stopped:
            raise
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _meter() -> Iterator[Callable[[float | None], None]]:
    """What shows the level on a terminal; None wipes it away, so that a line can be printed."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda _: None
        return

    def show(power: float | None) -> None:
        width = 0 if power is None else round((10 * math.log10(max(power, 1e-8)) + 80) / 4)
        sys.stderr.write("\r\x1b[K" + "▮" * width)
        sys.stderr.flush()

    yield show
    show(None)
