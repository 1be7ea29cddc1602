"""Our own server `files`: reading and changing files of the workspace, through directory descriptors only."""

import os
import stat
from collections.abc import Mapping

from overnight.core.errors import UsageError
from overnight.kernel.canonical import Json
from overnight.kernel.paths import PathRoot
from overnight.kernel.tool.code import ToolCode
from overnight.kernel.tool.spec import Argument, ToolSpec

LONGEST_READ_BYTES = 4 << 20

_PATH = Argument("path", kind="path")
READ = ToolSpec("files.read", "read", (_PATH,), confidentiality="private", description="The text of a file.")
WRITE = ToolSpec(
    "files.write", "write", (_PATH, Argument("content")), reversible=True, description="Write a file, making it if new."
)
DELETE = ToolSpec("files.delete", "destructive", (_PATH,), reversible=True, description="Delete a file.")
LIST = ToolSpec("files.list", "read", (_PATH,), confidentiality="private", description="The names in a folder.")

SPECS = (READ, WRITE, DELETE, LIST)


def file_tools(paths: PathRoot) -> list[ToolCode]:
    """The server's tools over the files below a root."""

    def read(arguments: Mapping[str, Json]) -> Json:
        with os.fdopen(_regular(paths, arguments, os.O_RDONLY), "rb") as file:
            content = file.read(LONGEST_READ_BYTES + 1)
        if len(content) > LONGEST_READ_BYTES:
            raise UsageError(
                f"{arguments['path']} is longer than {LONGEST_READ_BYTES} bytes", hint="read a smaller file"
            )
        return content.decode("utf-8", "backslashreplace")

    def write(arguments: Mapping[str, Json]) -> Json:
        content = str(arguments["content"]).encode("utf-8")
        with os.fdopen(_regular(paths, arguments, os.O_WRONLY | os.O_CREAT), "wb") as file:
            file.truncate(0)
            file.write(content)
        return {"bytes": len(content)}

    def delete(arguments: Mapping[str, Json]) -> Json:
        name = str(arguments["path"])
        folder, _, last = name.rpartition("/")
        handle = paths.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.unlink(last, dir_fd=handle)  # pathlib takes no directory descriptor
        finally:
            os.close(handle)
        return None

    def listing(arguments: Mapping[str, Json]) -> Json:
        handle = paths.open(str(arguments["path"]), os.O_RDONLY | os.O_DIRECTORY)
        try:
            return sorted(os.listdir(handle))  # pathlib takes no directory descriptor
        finally:
            os.close(handle)

    return [ToolCode(READ, read), ToolCode(WRITE, write), ToolCode(DELETE, delete), ToolCode(LIST, listing)]


def _regular(paths: PathRoot, arguments: Mapping[str, Json], flags: int) -> int:
    handle = paths.open(str(arguments["path"]), flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UsageError(f"{arguments['path']} is no plain file", hint="name a file")
    return handle
