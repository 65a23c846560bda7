"""How fast a bundle is on the machine at hand: time by stage, memory, cold start, and what the processor could do."""
