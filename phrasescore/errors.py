"""The one exception that speaks to the user."""


class UserError(Exception):
    """A fault the user can mend: bad input, a wrong option, a full disk.

    Its message is one sentence: which file and place, what is wrong, what to do. The command line prints
    it and exits with 1; no other exception is expected to reach a user.
    """
