"""`python -m overnight` is the `overnight` command."""

from overnight.cli.main import main

if __name__ == "__main__":
    main()
