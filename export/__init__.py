"""From a trained checkpoint to the bundle that runs without torch."""
