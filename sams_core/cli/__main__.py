"""Run the command where no script was installed: `python -m sams_core.cli`."""

from sams_core.cli import main

if __name__ == "__main__":
    main()
