"""Ray's part: Ray Data reads a manifest's blocks, and actors with a recogniser each transcribe them.

Results travel to the process that began the run, which alone writes: no folder has to be shared for them.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import warnings
from collections import Counter
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from asr.batch.blocks import Block, read_block, rows_of
from asr.batch.documents import failed, heard
from asr.batch.run import Answer, LostError
from asr.errors import CepstraError, ConfigError
from asr.manifest.parallel import cores
from audio.errors import AudioWarning

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ray import ObjectRef
    from ray.actor import ActorHandle
    from ray.data import Dataset

    from asr.batch.run import Unit
    from asr.manifest import Utterance
    from asr.results import Result

# Before Ray is loaded: nothing is reported home, and its C++ part keeps to its log files
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",
    "RAY_worker_niceness": "0",  # 15 without it: workers started here would wait for everything else
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_SILENT: Final = logging.CRITICAL + 1
_SECONDS_TO_CONNECT: Final = 5.0  # Ray itself tries for minutes
_STARTS: Final = 5  # of workers that die before they hear anything, one after the other


class RayEngine:
    """Workers on a Ray cluster, which is joined, or started, when there is something to hear.

    A context manager, within which nothing is written to standard output.
    """

    def __init__(self, manifest: Path, options: Mapping[str, Any], address: str | None) -> None:
        """options: a Recognizer's arguments. address: HOST:PORT or "auto"; None starts Ray on this machine alone.

        Raises ConfigError for an address of another form.
        """
        if address is not None:
            _host_and_port(address)
        self._manifest, self._options, self._address = manifest.absolute(), dict(options), address
        self._sent: ObjectRef[dict[str, Any]] | None = None
        self._end = ExitStack()

    def __enter__(self) -> Self:
        # There Ray says which workers have died; what becomes of their blocks is ours to say
        nowhere = self._end.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
        self._end.enter_context(redirect_stdout(nowhere))
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()

    def hear(self, units: Sequence[Unit]) -> Iterator[Answer]:
        """As asr.batch.run.Engine says. Raises ConfigError where no Ray answers at the address."""
        if self._sent is None:
            self._sent = _connect(self._address, self._options, self._end)
        import ray  # noqa: PLC0415

        # By rows, or with batches ahead, each would wait for the one after it, and be lost with it
        tables = self._dataset(units).iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0)
        try:
            for answer in (answer for table in tables for answer in table.to_pylist()):
                if answer["fault"]:
                    raise CepstraError(answer["fault"])
                if answer["lines"]:
                    yield Answer(answer["unit"], tuple(answer["lines"]), tuple(answer["warnings"]))
        except ray.exceptions.RayError as error:
            raise _explained(error) from error

    def _dataset(self, units: Sequence[Unit]) -> Dataset:
        import ray  # noqa: PLC0415
        from ray.data import ActorPoolStrategy, DataContext, from_items  # noqa: PLC0415

        logging.getLogger("ray.data").setLevel(_SILENT)
        context = DataContext.get_current().copy()
        context.enable_progress_bars = context.print_on_execution_start = False
        context.max_consecutive_actor_init_deaths = _STARTS
        # Where it dies with its node it is begun anew, and counts from 0
        begun = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(_Begun).remote()
        pool = ActorPoolStrategy(
            min_size=1,  # idle ones go, and leave their place to one whose node has died
            max_size=len(units),
            initial_size=max(1, min(len(units), int(ray.available_resources().get("CPU", 1)))),
            max_tasks_in_flight_per_actor=1,  # others would be lost with one that takes its worker down
        )
        items = [{"number": i, "block": asdict(unit.block), "rows": list(unit.rows)} for i, unit in enumerate(units)]
        with DataContext.current(context):
            return from_items(items, override_num_blocks=len(items)).map(
                _Worker, fn_constructor_args=(str(self._manifest), self._sent, begun), compute=pool, num_cpus=1
            )  # fmt: skip


class _Begun:
    """How often each unit was begun: Ray gives one whose worker has died to another worker, without end."""

    def __init__(self) -> None:
        self._times: Counter[int] = Counter()

    def again(self, unit: int) -> int:
        """Count it, and say which time this is, from 1."""
        self._times[unit] += 1
        return self._times[unit]


class _Worker:
    """A recogniser, in a process of its own, which reads its part of the manifest and the sound there."""

    tries = 3  # of a unit whose worker dies, before it is tried row by row, and of a row

    def __init__(self, manifest: str, options: ObjectRef[dict[str, Any]], begun: ActorHandle) -> None:
        import ray  # noqa: PLC0415

        from asr.recognizer import Recognizer  # noqa: PLC0415

        self._manifest, self._begun = Path(manifest), begun
        self._recognizer = Recognizer(threads=1, **ray.get(options))

    def __call__(self, unit: dict[str, Any]) -> dict[str, Any]:
        """A unit -> its answer: without lines where its workers have died, or where "fault" says what is wrong."""
        import ray  # noqa: PLC0415

        block = Block(**unit["block"])
        answer = {"unit": unit["number"], "lines": [], "warnings": [], "fault": ""}
        if ray.get(self._begun.again.remote(unit["number"])) > self.tries:
            return answer
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", AudioWarning)
            try:
                rows = rows_of(read_block(self._manifest, block), self._manifest, block.line)
            except CepstraError as error:  # other machines may see other files
                return answer | {"fault": f"on {socket.gethostname()}: {error}"}
            wanted = [rows[i] for i in unit["rows"]]
            lines = [
                failed(row, str(said)) if isinstance(said, CepstraError) else heard(row, said)
                for row, said in zip(wanted, self._transcribed(wanted), strict=True)
            ]
        return answer | {"lines": lines, "warnings": [str(warning.message) for warning in caught]}

    def _transcribed(self, rows: list[Utterance]) -> list[Result | CepstraError]:
        try:
            return list(self._recognizer.transcribe_each(rows))
        except Exception as error:  # noqa: BLE001  one row in a million isn't to end the run
            if len(rows) == 1:
                what = f"{type(error).__name__}: {error}".strip(": ")
                return [CepstraError(f"{rows[0].audio_filepath}: a fault in Cepstra itself ({what}); please report it")]
            return [said for row in rows for said in self._transcribed([row])]


def _connect(address: str | None, options: dict[str, Any], end: ExitStack) -> ObjectRef[dict[str, Any]]:
    """Join or start a cluster, which is left when `end` closes, and send it the options: once, not for each worker."""
    os.environ.update({key: os.environ.get(key, value) for key, value in _QUIET.items()})
    if address is not None and (place := _host_and_port(address)):
        try:
            socket.create_connection(place, _SECONDS_TO_CONNECT).close()
        except (OSError, OverflowError, UnicodeError) as error:
            raise ConfigError(_unreachable(address, error)) from error
    import ray  # noqa: PLC0415

    here = {"num_cpus": cores(), "include_dashboard": False} if address is None else {}
    end.callback(ray.shutdown)  # also of what is half started when Ctrl-C comes
    heard_before = signal.getsignal(signal.SIGTERM)
    try:
        with _hushed():
            ray.init(address=address or "local", log_to_driver=False, logging_level=_SILENT, **here)
    except (ray.exceptions.RayError, OSError, RuntimeError, ValueError) as error:
        raise ConfigError(_unreachable(address, error)) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, heard_before)  # Ray's own exits without a word
    return ray.put(options)


@contextmanager
def _hushed() -> Iterator[None]:
    """Nothing is written to standard error: Ray's C++ part ignores its own settings until it has started."""
    kept = os.dup(2)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _explained(error: Exception) -> CepstraError:
    """What Ray gave up for, in one line. LostError where workers were lost that may come back."""
    import ray  # noqa: PLC0415

    reason = str(error).strip().splitlines()
    said = reason[-1] if reason else type(error).__name__
    if isinstance(error, ray.exceptions.ObjectLostError | ray.exceptions.NodeDiedError):
        return LostError(f"Ray has lost what its workers had begun ({said}); the same command goes on")
    return CepstraError(f"Ray gave up ({said}); see that every node has Cepstra; the same command goes on")


def _host_and_port(address: str) -> tuple[str, int] | None:
    """None for "auto". Raises ConfigError for what is no address."""
    if address == "auto":
        return None
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise ConfigError(f"{address!r} is not HOST:PORT of a cluster's head, such as 10.0.0.1:6379, nor auto")
    return host.strip("[]"), int(port)


def _unreachable(address: str | None, error: Exception) -> str:
    reason = (getattr(error, "strerror", None) or str(error).strip() or type(error).__name__).splitlines()[0]
    if address is None:
        return f"Ray can't be started on this machine ({reason}); see its logs in /tmp/ray/session_latest/logs"
    return f"{address}: no Ray cluster answers there ({reason}); start one with `ray start --head`, or leave it out"
