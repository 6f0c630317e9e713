"""Figures of the results of runs, drawn by matplotlib (``pip install 'graphcollab[figures]'``)."""

from graphcollab._base.extras import import_extra

import_extra("matplotlib", "figures", "figures")
