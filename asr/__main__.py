"""`python -m asr` is `cepstra`, also where its folder of commands is on no path."""

from asr.cli import main

main()
