"""How far a command is: a bar, where people watch."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def progress_bar(title: str) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """A bar on standard error, if that is a terminal: a function that sets the total, and one that advances it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda total: bar.update(task, total=total), lambda done: bar.advance(task, done)


@contextmanager
def counting_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """The same for what counts by itself: a function of how many are done, of so many."""
    with progress_bar(title) as (start, advance):
        before = 0

        def show(done: int, total: int) -> None:
            nonlocal before
            start(total)
            advance(done - before)
            before = done

        yield show
