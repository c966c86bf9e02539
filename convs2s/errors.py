"""The one exception that a user's mistake raises; scripts print it as one line and exit with status 1."""


class UserError(Exception):
    """A mistake the user can mend: the message names the file, line or option, and the fix, in one line."""
