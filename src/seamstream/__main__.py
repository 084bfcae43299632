"""``python -m seamstream`` is the command ``seamstream``."""

import sys

from seamstream.cli import main

if __name__ == "__main__":
    sys.exit(main())
