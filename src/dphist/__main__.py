"""`python -m dphist`."""

from dphist.cli import main

main()
