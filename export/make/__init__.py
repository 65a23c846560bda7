"""A model for a phrase file, out of the file alone: speech is synthesised, and the model that ships learns from it."""

from export.make.run import make
from export.make.settings import MakeSettings

__all__ = ["MakeSettings", "make"]
