"""`python -m polytask`."""

from polytask.cli import main

main()
