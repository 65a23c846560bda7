"""Sound in, features out."""

import os

# From 1.32 on ONNX Runtime tells its makers about its use, and keeps a number of the machine for that in the home
# folder. It reads this when it is imported, so it stands where everything of ours begins
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
