"""Files and folders that only the user of this process writes to."""

from __future__ import annotations

import os
import stat


def stranger(status: os.stat_result) -> str:
    """Return who else may have written a file or to a folder, in words; "" for nobody."""
    if status.st_uid != os.getuid():
        return f"user {status.st_uid} owns it"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write to it: chmod go-w"
    return ""
