"""The same work on many recordings, over the cores.

Threads and not processes: decoding, resampling and hashing let go of the interpreter's lock, nothing has to be copied
or imported again, and a script that calls this needs no `if __name__ == "__main__"`.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

In = TypeVar("In")
Out = TypeVar("Out")


def parallel(
    work: Callable[[In], Out], items: Iterable[In], *, workers: int | None, progress: Callable[[int], None] | None
) -> Iterator[Out]:
    """What `work` gives for each item, in order. workers: None is one per core that this process may use."""
    remaining = iter(items)
    with ThreadPoolExecutor(workers or cores()) as pool:
        # in blocks, so that a million rows aren't a million futures
        while block := list(islice(remaining, 512)):
            for result in pool.map(work, block):
                if progress is not None:
                    progress(1)
                yield result


def cores() -> int:
    """Those that this process may use, which in a container are fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
