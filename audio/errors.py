"""The root of every error that Cepstra raises on purpose, the one of sound, and the warning of sound."""


class CepstraError(Exception):
    """Something the user can mend. The message names the place, the fault and the remedy, on one line."""


class AudioError(CepstraError):
    """Sound that can't be used: missing, damaged, not sound at all, too long."""


class TooLongError(AudioError):
    """Sound that lasts longer than the caller allows."""


class AudioWarning(UserWarning):
    """Sound that was read, though something about it isn't as it should be."""


class SynthesisError(CepstraError):
    """An engine of synthetic speech that isn't there, or what it made of a text can't be used."""
