"""Manifests too long for one machine: cut into blocks, which are transcribed anywhere and kept as they come."""
