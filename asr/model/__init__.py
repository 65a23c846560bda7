"""The Transformer: torch only; the caller's path runs its exported graphs instead."""
