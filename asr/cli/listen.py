"""`cepstra listen`: a microphone or a stream, answered utterance by utterance."""

from __future__ import annotations

import math
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asr.cli.messages import complain, naming
from asr.cli.transcribe import raw_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from asr.listen import Array, Heard, Listener
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
        Path | None, typer.Option(metavar="FILE", help="A phrase file: listen for its commands only; see `phrases`.")
    ] = None,
    pause: Annotated[
        int, typer.Option(min=100, max=5000, metavar="MS", help="Silence, in milliseconds, that ends an utterance.")
    ] = 500,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON for each utterance.")] = False,
    on_command: Annotated[
        str | None,
        typer.Option(metavar="CMD", help="A program to run for each command; it finds CEPSTRA_TEXT … set."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The bundle to use; without it, the one that ships.")
    ] = None,
    beam: Annotated[int, typer.Option(min=1, max=64, metavar="N", help="Hypotheses kept by the search.")] = 1,
    threads: Annotated[int, typer.Option(min=1, max=1024, metavar="N", help="CPU threads.")] = 2,
    raw: Annotated[
        str | None,
        typer.Option(metavar="ENCODING:RATE:CHANNELS", help="What --input holds, such as PCM_16:16000:1, if not WAV."),
    ] = None,
) -> None:
    """What is said to a microphone or in a stream, as it is said.

    A line for each utterance, when it has ended. Ctrl-C ends it.
    """
    from asr.listen import Listener, Reaction
    from asr.recognizer import Recognizer

    if source is not None and device is not None:
        raise typer.BadParameter("a device is for the microphone; leave one of the two out", param_hint="--device")
    if source is None and raw is not None:
        raise typer.BadParameter("says what --input holds; give that too", param_hint="--raw")
    form = None if raw is None else raw_format(raw)
    react = None if on_command is None else Reaction(on_command, complain)
    said = None
    if phrases is not None:
        from asr.phrases import PhraseSet

        with naming("--phrases"):
            said = PhraseSet.read(phrases)
    with naming("--model" if model else ""):
        recognizer = Recognizer(model, threads=threads, beam=beam, phrases=said)
    with _ended_by_signals(), _sound(source, form, device) as sound:
        try:
            _answer(
                Listener(recognizer, pause_seconds=pause / 1000), sound, react, as_json=as_json, live=source is None
            )
        except KeyboardInterrupt:
            pass
        finally:
            if react is not None:
                react.finish()


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
            if react is not None and result.text and (result.meaning is None or result.meaning.command is not None):
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
    from asr.listen import blocks_of, microphone

    if source is None:
        yield microphone(device)
    elif source == "-":
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None or stream.isatty():
            raise AudioError("standard input: a terminal, not sound; pipe sound into it")
        yield blocks_of(stream, raw, "standard input")
    elif raw is None and Path(source).is_file():
        from audio.reading import read_audio

        yield [read_audio(source, max_seconds=math.inf)]
    else:
        try:
            with Path(source).open("rb") as stream:
                yield blocks_of(stream, raw, source)
        except OSError as error:
            raise AudioError(f"{source}: {error.strerror}; check the name") from None


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
