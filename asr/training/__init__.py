"""Training: a manifest in, a checkpoint out."""
