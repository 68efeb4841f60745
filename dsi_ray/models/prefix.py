"""How much of a session's old token sequence the new one keeps."""


def common_prefix(old: tuple[int, ...], new: tuple[int, ...]) -> int:
    """Returns the number of leading ids that both sequences share."""
    length = min(len(old), len(new))
    # Comparing whole slices in C is the common case: a session's tokens mostly only grow.
    if old[:length] == new[:length]:
        return length
    return next(index for index in range(length) if old[index] != new[index])
