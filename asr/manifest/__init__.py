"""Manifests: JSON lines that say which recording holds which words."""

from asr.manifest.records import Utterance, read_manifest, write_manifest

__all__ = ["Utterance", "read_manifest", "write_manifest"]
