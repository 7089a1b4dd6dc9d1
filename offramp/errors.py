"""Exit statuses of the command, and the errors that end it with each.

::

    OfframpError
    ├── CheckFailedError      1  what was asked about was checked, and failed
    ├── ConfigurationError    2  usage or configuration
    └── CouldNotCheckError    3  store or broker out of reach, or owned by somebody else
"""

OK, CHECK_FAILED, USAGE, COULD_NOT_CHECK = 0, 1, 2, 3


class OfframpError(Exception):
    """Ends the command: ``str`` is one sentence for people, ``status`` the exit status."""

    status = CHECK_FAILED


class CheckFailedError(OfframpError):
    """What was asked about was checked, and failed."""

    status = CHECK_FAILED


class ConfigurationError(OfframpError):
    """Usage or configuration."""

    status = USAGE


class CouldNotCheckError(OfframpError):
    """Store or broker out of reach, or owned by somebody else."""

    status = COULD_NOT_CHECK
