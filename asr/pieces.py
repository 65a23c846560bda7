"""Into what a recording is cut, and what of it is decoded together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from audio.speech import phrases as between_pauses

if TYPE_CHECKING:
    from audio.speech import Sound

PIECE_SECONDS = 10.0  # longer sound is cut at its pauses: a model hears best what is as long as what it learnt from
BATCH_SECONDS = 60.0  # padding included, of what is decoded together
WINDOW_SECONDS = 120.0  # of a long recording: pieces are put into batches, by length, within such a stretch of it
BREATH_SECONDS = 0.2  # a pause between commands that were said one after the other


def cut(samples: Sound, rate: int) -> list[tuple[int, int]]:
    """What is decoded as one, [(start, end), ...] in samples: all of a short recording, the phrases of a long one."""
    if len(samples) <= PIECE_SECONDS * rate:
        return [(0, len(samples))]
    return between_pauses(samples, rate, max_seconds=PIECE_SECONDS) or [(0, 0)]


def breaths(samples: Sound, rate: int) -> list[tuple[int, int]]:
    """What lies between short pauses, as `cut`: somebody who says two commands at once pauses, if but for a moment."""
    return between_pauses(
        samples, rate, max_seconds=PIECE_SECONDS, pause_seconds=BREATH_SECONDS, margin_seconds=BREATH_SECONDS / 2
    )


def windows(lengths: list[int], rate: int) -> list[range]:
    """Stretches of consecutive pieces, each as long as a window or a single piece."""
    windows: list[range] = []
    room = 0.0
    for i, length in enumerate(lengths):
        if not windows or length > room:
            windows.append(range(i, i))
            room = WINDOW_SECONDS * rate
        windows[-1] = range(windows[-1].start, i + 1)
        room -= length
    return windows


def batches(lengths: dict[int, int], rate: int) -> list[list[int]]:
    """Keys of what to decode together: of about the same length, so that little is padding."""
    batches: list[list[int]] = []
    longest = 0
    for i in sorted(lengths, key=lambda i: -lengths[i]):
        if not batches or (len(batches[-1]) + 1) * longest > BATCH_SECONDS * rate:
            batches.append([])
            longest = max(1, lengths[i])
        batches[-1].append(i)
    return batches
