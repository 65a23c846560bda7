"""Recordings of sentences that nobody has spoken: engines of synthetic speech make them, and a manifest lists them."""

from asr.synthesis.engines import choose_engines
from asr.synthesis.prompts import Prompt, prompts_from
from asr.synthesis.run import Made, synthesize

__all__ = ["Made", "Prompt", "choose_engines", "prompts_from", "synthesize"]
