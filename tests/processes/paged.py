"""Compare methods in several processes, and let every process ask for a page of its own: the first writes one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from graphcollab import report
from tests.report.page.found import compared

if __name__ == "__main__":
    report.page(compared(), Path(sys.argv[1]) / f"{os.environ['RANK']}.html")
