"""What the service counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from asr.service.errors import ServiceError

_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)


class Metrics:
    """One service's; its own registry, so that tests and reloads don't meet."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter("cepstra_requests", "Requests answered.", ("route", "status"), registry=self.registry)
        self.audio = Counter("cepstra_audio_seconds", "Seconds of sound transcribed.", registry=self.registry)
        self.stages = Histogram(
            "cepstra_stage_seconds",
            "What the stages of a request take: upload, wait, read, compile, decode, request.",
            ("stage",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.waiting = Gauge("cepstra_waiting", "Tasks that no worker has taken yet.", registry=self.registry)
        self.working = Gauge("cepstra_working", "Tasks that a worker is at.", registry=self.registry)
        self.refused = Counter("cepstra_refused", "Requests refused, by reason.", ("reason",), registry=self.registry)
        self.rejected = Counter(
            "cepstra_rejected", "Recordings without a command.", ("reason",), registry=self.registry
        )
        self.errors = Counter("cepstra_errors", "Requests that failed, by code.", ("code",), registry=self.registry)
        self.workers = Gauge("cepstra_workers", "Workers that are ready.", registry=self.registry)
        self.restarts = Counter("cepstra_worker_restarts", "Workers that had to be replaced.", registry=self.registry)
        self.reloads = Counter("cepstra_reloads", "Bundles read again.", ("outcome",), registry=self.registry)
        self.batch = Histogram(
            "cepstra_batch_recordings",
            "Recordings decoded together.",
            buckets=(1, 2, 4, 8, 16),
            registry=self.registry,
        )
        # They are there from the start, so that a rate shows the first one
        for outcome in ("taken", "refused"):
            self.reloads.labels(outcome)
        for reason in ("busy", "stopping", "uploads"):
            self.refused.labels(reason)
        for kind in ServiceError.__subclasses__():
            self.errors.labels(kind.code)
        self.streams = Gauge("cepstra_streams", "Open WebSockets.", registry=self.registry)
