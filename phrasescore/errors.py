"""The exceptions that speak to the user."""


class UserError(Exception):
    """A fault the user can mend: bad input, a wrong option, a full disk.

    Its message is one sentence: which file and place, what is wrong, what to do. The command line prints
    it and exits with 1; no other exception is expected to reach a user.
    """


class UsageError(UserError):
    """Options that do not go together, or a missing one that others call for; the exit code is 2."""
