"""``python -m offramp``."""

from offramp.main import main

if __name__ == "__main__":
    main()
