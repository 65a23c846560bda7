"""The twelfth run's model with the first 20 of its 40 cepstra, all divided by one number.

  python truncate.py twelfth/best.ckpt truncated.ckpt

Its weights take over what each cepstrum was divided by: it hears the same but for the cepstra that are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from asr.training.checkpoint import read_checkpoint

KEPT = 20  # cepstra
SPREAD = 5.22571  # what a training from nothing measures and divides them by, over this recipe's data

trained = read_checkpoint(Path(sys.argv[1]))
weights = {f"model.{name}": value for name, value in trained.model.state_dict().items()}
spec = trained.model.spec
before = torch.tensor(spec.spread[:KEPT])
splice = "model.encoder.splice.weight"  # (D, C, frames)
weights[splice] = weights[splice][:, :KEPT] * (SPREAD / before)[:, None]
front_end = {**spec.to_dict(), "n_cepstra": KEPT, "spread": [SPREAD] * KEPT}
facts = {name: value for name, value in trained.facts.items() if name != "training"}
content = {
    "state_dict": weights,
    "global_step": trained.steps,
    "cepstra": {**facts, "front_end": front_end, "earlier": trained.history},
}
torch.save(content, sys.argv[2])
