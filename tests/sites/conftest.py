"""What is not looked into where NVIDIA FLARE is missing."""

from __future__ import annotations

import importlib.util

collect_ignore = [] if importlib.util.find_spec("nvflare") else ["admin.py", "parts.py"]
