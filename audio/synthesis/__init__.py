"""Synthetic speech: engines that may be installed, behind one small interface."""

from audio.synthesis.catalogue import KINDS, EngineSpec, open_engine
from audio.synthesis.engine import SAMPLE_RATE, Engine, Voice

__all__ = ["KINDS", "SAMPLE_RATE", "Engine", "EngineSpec", "Voice", "open_engine"]
