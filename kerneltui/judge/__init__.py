"""A program: `python -m kerneltui.judge`. Holds torch, the reference and the buffers; decides on candidates."""
