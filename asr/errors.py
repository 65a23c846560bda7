"""Errors of text, manifests, bundles and settings; all of them are CepstraError."""

from audio.errors import AudioError, CepstraError, SynthesisError

__all__ = [
    "AudioError",
    "BundleError",
    "CepstraError",
    "ConfigError",
    "GuidanceError",
    "ManifestError",
    "PhrasesError",
    "SynthesisError",
    "TrainingError",
]


class ManifestError(CepstraError):
    """A manifest that can't be read; names file, line and key."""


class BundleError(CepstraError):
    """A model file that can't be used: damaged, of another version, incomplete."""


class ConfigError(CepstraError):
    """A setting that doesn't exist or doesn't fit; names the nearest known one."""


class PhrasesError(CepstraError):
    """A phrase file that can't be used; names file, line and column."""


class GuidanceError(CepstraError):
    """A language model, its texts or a boost file that can't be used; names the file, and line and column of text."""


class TrainingError(CepstraError):
    """Training that can't start or can't go on, and why."""
