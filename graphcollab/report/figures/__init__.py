"""Figures of what runs have shown, drawn by matplotlib (``pip install 'graphcollab[figures]'``)."""

from graphcollab._base.extras import import_extra

import_extra("matplotlib", "figures", "figures")
