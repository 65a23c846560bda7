"""The seventh run's model with two positions made one after its second layer: `halve.py seventh/best.ckpt halved.ckpt`.

The matrix that does it begins as their mean; the windows of the layers above it are halved too, since their positions
are twice as far apart.
"""

from __future__ import annotations

import sys

import torch

AFTER = 2  # layers

checkpoint = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
model = checkpoint["cepstra"]["model"]
width = model["d_model"]
model["halve_after"] = AFTER
model["windows"] = [*model["windows"][:AFTER], *(window // 2 for window in model["windows"][AFTER:])]
checkpoint["state_dict"]["model.encoder.halve.weight"] = torch.eye(width).repeat(1, 2) / 2
checkpoint["state_dict"]["model.encoder.halve.bias"] = torch.zeros(width)
torch.save(checkpoint, sys.argv[2])
