"""A program: `python -m kerneltui.runner`. Runs one candidate for the judge and ends. No torch, except in `module`."""
