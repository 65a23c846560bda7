"""Settings of the service: defaults < a YAML file < the environment (CEPSTRA_SERVE_…) < the command line."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path  # noqa: TC003  pydantic reads it
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from asr.errors import ConfigError
from asr.recognizer import DEFAULT_BUNDLE
from asr.settings_file import fault, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "CEPSTRA_SERVE_"
LEAST_KEY = 16  # characters: shorter ones can be guessed
A_WEEK = 7 * 86400.0  # seconds; beyond some length the system's waits are errors
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def _route(route: str) -> str:
    if not route.startswith("/"):
        raise ValueError("must start with /, such as /v1/commands")
    return route


def _key(key: SecretStr) -> SecretStr:
    if len(key.get_secret_value()) < LEAST_KEY or not key.get_secret_value().isascii():
        raise ValueError(f"must have {LEAST_KEY} ASCII characters or more; `openssl rand -hex 24` makes one")
    return key


class ApiKey(BaseModel):
    """Who may do what."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, description="For logs.")
    key: Annotated[SecretStr, AfterValidator(_key)]
    routes: tuple[Annotated[str, AfterValidator(_route)], ...] = Field(
        ("/",), description="Beginnings of the paths that it opens."
    )


class Settings(BaseSettings):
    """Everything that can be set. `description` is what the help and the documentation say."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", frozen=True, allow_inf_nan=False, env_parse_none_str="null"
    )

    host: str = Field("127.0.0.1", description="Address to listen at.")
    port: int = Field(8765, ge=0, le=65535, description="TCP port; 0 takes a free one.")
    wyoming: str | None = Field(None, description="tcp://HOST:PORT for Wyoming clients, such as Home Assistant.")
    wyoming_phrases: str | None = Field(None, description="The phrase set that Wyoming clients are held to.")
    model: Path | None = Field(None, description="The bundle; without it, the one that ships.")
    phrases: tuple[Path, ...] = Field((), description="Phrase files that are there from the start, by their names.")
    state: Path | None = Field(
        None, description="Folder for uploaded phrase sets; without one they go with the service."
    )
    workers: int = Field(0, ge=0, le=256, description="Processes that decode; 0 is one for each core and thread.")
    threads: int = Field(1, ge=1, le=256, description="CPU threads of each of them.")
    beam: int = Field(1, ge=1, le=64, description="Hypotheses kept by the search in free text.")
    batch: int = Field(8, ge=1, le=64, description="Recordings decoded together, at most.")
    max_waiting: int = Field(64, ge=0, le=100_000, description="Requests that may wait; more are refused (503).")
    max_uploads: int = Field(256, ge=1, le=100_000, description="Requests whose sound is being received at one time.")
    max_streams: int = Field(32, ge=0, le=100_000, description="WebSocket and Wyoming connections at one time.")
    max_upload_mb: float = Field(100.0, gt=0, le=100_000, description="Size of a recording (413 above).")
    max_seconds: float = Field(3600.0, gt=0, le=36_000, description="Length of a recording (413 above).")
    upload_seconds: float = Field(300.0, gt=0, le=A_WEEK, description="Time for a request to come in (408 after).")
    idle_seconds: float = Field(15.0, gt=0, le=A_WEEK, description="Time without a byte of a request that ends it.")
    stream_idle_seconds: float = Field(3600.0, gt=0, le=A_WEEK, description="Time without a message that ends one.")
    task_seconds: float = Field(60.0, gt=0, le=A_WEEK, description="Time after which a worker at one task is replaced.")
    answer_seconds: float = Field(600.0, gt=0, le=A_WEEK, description="Time that an answer may take (504 after).")
    stop_seconds: float = Field(30.0, gt=0, le=A_WEEK, description="Time to finish what was taken, at the end.")
    worker_memory_mb: int = Field(2048, ge=0, description="Memory of a worker; 0 sets no limit.")
    api_keys: tuple[ApiKey, ...] = Field((), description="Keys, one of which a request must show; none: open to all.")
    allowed_hosts: tuple[str, ...] = Field(
        (), description="Names in the Host header; none: those of this machine at a loopback address, else all."
    )
    model_aliases: tuple[str, ...] = Field(
        ("cepstra", "whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe"),
        description="Names by which clients may ask for the model, besides its own.",
    )
    log_text: bool = Field(default=False, description="Write what was said into the log.")

    @property
    def model_path(self) -> Path:
        """The bundle's file."""
        return self.model or DEFAULT_BUNDLE

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK or self.host.startswith("127.")

    @property
    def max_upload_bytes(self) -> int:
        """Of a recording."""
        return round(self.max_upload_mb * 1e6)

    @property
    def processes(self) -> int:
        """Workers that decode."""
        return self.workers or max(1, len(os.sched_getaffinity(0)) // self.threads)

    def shown(self) -> dict[str, Any]:
        """As it is printed at the start: no secrets."""
        return self.model_dump(mode="json")


def load(file: Path | None, given: Mapping[str, Any]) -> Settings:
    """The settings: given ones over the environment's over the file's over defaults.

    Raises ConfigError that names the setting, and the one that was meant perhaps.
    """
    known = list(Settings.model_fields)
    values = {} if file is None else read_settings(file)
    for key in values:
        if key not in known:
            raise ConfigError(f"{file}: unknown setting {key}; {_meant(str(key), known)}")
    for name in os.environ:
        if name.upper().startswith(PREFIX) and name[len(PREFIX) :].lower() not in known:
            meant = _meant(name[len(PREFIX) :].lower(), known)
            raise ConfigError(f"environment variable {name}: unknown setting; {meant}")

    class _Settings(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            del dotenv_settings, file_secret_settings
            return init_settings, env_settings, InitSettingsSource(settings_cls, values)

    try:
        settings = _Settings(**given)
    except ValidationError as error:
        raise ConfigError(_plain(error)) from None
    except SettingsError as error:
        field = re.search(r'field "(\w+)"', str(error))
        variable = f"{PREFIX}{field[1].upper()}" if field else "an environment variable"
        raise ConfigError(f'{variable}: not JSON; write a list as ["a", "b"], quoted for the shell') from None
    if settings.wyoming_phrases is not None and settings.wyoming is None:
        raise ConfigError("setting wyoming_phrases: has no effect without wyoming; set that too")
    return settings


def _plain(error: ValidationError) -> str:
    """Its first fault, without the value where that is a secret."""
    first = error.errors(include_url=False)[0]
    if "api_keys" in first["loc"]:
        where = ".".join(str(part) for part in first["loc"])
        if first["type"].startswith("model_"):
            return f"setting {where}: a key has a name, the key, and routes if need be; see docs/service.md"
        return f"setting {where}: {first['msg'].removeprefix('Value error, ')}"
    return fault(first)


def _meant(key: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(known)}"
