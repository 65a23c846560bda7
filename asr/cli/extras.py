"""Parts of Cepstra that the base install leaves out."""

from importlib.util import find_spec

from asr.errors import CepstraError


def needs(extra: str, *modules: str) -> None:
    """Raise CepstraError that says how to install an extra, unless all these modules are there."""
    _needs(modules, f"'cepstra[{extra}]'")


def needs_alone(*modules: str) -> None:
    """The same for what needs a few packages, called like their modules, and not all of an extra."""
    _needs(modules, " ".join(modules))


def _needs(modules: tuple[str, ...], installed: str) -> None:
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise CepstraError(f"{missing[0]} is not installed; run: pip install {installed}")
