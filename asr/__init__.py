"""Text and models: from features to words."""
