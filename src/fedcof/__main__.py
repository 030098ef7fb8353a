"""``python -m fedcof``: the command line."""

from fedcof.cli import main

main()
