"""`python -m kerneltui`."""

from kerneltui.cli import main

main()
