"""Folders in git: flat file listings to tree objects and back, at a cost that follows what changed."""

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from overnight.core.errors import GitError
from overnight.store.git.objects import Objects

Mode = Literal["100644", "100755", "120000", "160000"]
_TREE_MODE = "40000"
# 100664 was written by old gits; they all read it as 100644.
_MODES: Mapping[str, Mode] = {
    "100644": "100644",
    "100664": "100644",
    "100755": "100755",
    "120000": "120000",
    "160000": "160000",
}
_CACHED_TREES = 8192
# What file systems that ignore case, trailing dots or streams would open as `.git`; `git fsck` refuses them too.
_DOT_GIT = re.compile(r"(?i)(\.git|git~1)[ .]*(:.*)?", re.DOTALL)
_IGNORED_BY_HFS = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: `mode` 100644 regular, 100755 executable, 120000 symlink, 160000 submodule; `oid` its blob (commit)."""

    mode: Mode
    oid: str


Files = Mapping[str, Entry]
"""Path relative to the arena folder, "/"-separated, odd bytes as in `os.fsdecode` → entry. Holds no folders."""

_Folder = dict[str, tuple[str, str]]  # name → (mode, oid), folders included


def check_path(path: str) -> str:
    """Return `path` if it can stand in a tree.

    Raises:
        GitError: it is absolute, leaves its folder, or has an empty or `.git` component.
    """
    for name in path.split("/"):
        if name in ("", ".", "..") or "\0" in name or _DOT_GIT.fullmatch(_IGNORED_BY_HFS.sub("", name)):
            raise GitError(f"{path!r} is not a path that git can keep", hint="no empty, '.', '..' or '.git' parts")
    return path


def to_text(raw: bytes) -> str:
    """A path of git or the file system as text; bytes that are not UTF-8 become lone surrogates."""
    return raw.decode("utf-8", "surrogateescape")


def to_bytes(path: str) -> bytes:
    """The inverse of `to_text`."""
    return path.encode("utf-8", "surrogateescape")


class Trees:
    """Trees of one repository; any method from any thread."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._lock = threading.Lock()
        self._files: dict[str, Entry] = {}
        self._folders: dict[str, _Folder] = {"": {}}
        self._parsed: OrderedDict[str, _Folder] = OrderedDict()

    def write(self, files: Files) -> str:
        """Store the tree of `files`, return its id.

        Only folders that differ from the last tree written are built; the comparison looks at every file.

        Raises:
            GitError: a path or mode can't stand in a tree, or a name is both file and folder.
        """
        with self._lock:
            known = self._files
            changed = {
                path
                for path, entry in files.items()
                if (old := known.get(path)) is not entry and (old is None or old != entry)
            }
            gone = known.keys() - files.keys()
            if not changed and not gone:
                # Written anew although known: a root that was pruned meanwhile would be missed otherwise.
                return self._objects.write("tree", _serialize(self._folders[""]))
            try:
                oid = self._apply(files, changed, gone)
            except BaseException:
                # Half applied: start from nothing next time.
                self._files, self._folders = {}, {"": {}}
                raise
            self._files = dict(files)
            return oid

    def read(self, tree: str) -> dict[str, Entry]:
        """All files below `tree`."""
        files: dict[str, Entry] = {}
        stack = [("", tree)]
        while stack:
            prefix, oid = stack.pop()
            for name, (mode, child) in self.entries(oid).items():
                if mode == _TREE_MODE:
                    stack.append((f"{prefix}{name}/", child))
                else:
                    files[prefix + name] = Entry(_MODES[mode], child)
        return files

    def entries(self, tree: str) -> _Folder:
        """The direct entries of one tree; must not be changed."""
        with self._lock:
            found = self._parsed.get(tree)
            if found is not None:
                self._parsed.move_to_end(tree)
                return found
        found = _parse(tree, self._objects.read(tree, "tree"), self._objects.id_length // 2)
        with self._lock:
            self._parsed[tree] = found
            while len(self._parsed) > _CACHED_TREES:
                self._parsed.popitem(last=False)
        return found

    def below(self, tree: str, prefix: str) -> str:
        """The tree at folder `prefix` of `tree`; the empty tree if there is no such folder."""
        for name in prefix.split("/") if prefix else ():
            mode, oid = self.entries(tree).get(name, ("", ""))
            if mode != _TREE_MODE:
                return self.write_folder({})
            tree = oid
        return tree

    def replace(self, tree: str | None, prefix: str, subtree: str) -> str:
        """`tree` with the folder `prefix` being `subtree`; what stood in its way is gone, an empty one is left out."""
        if not prefix:
            return subtree
        name, _, rest = prefix.partition("/")
        folder = dict(self.entries(tree)) if tree else {}
        mode, oid = folder.get(name, ("", ""))
        child = self.replace(oid if mode == _TREE_MODE else None, rest, subtree)
        if self.entries(child):
            folder[name] = (_TREE_MODE, child)
        else:
            folder.pop(name, None)
        return self.write_folder(folder)

    def write_folder(self, entries: Mapping[str, tuple[str, str]]) -> str:
        """Store one tree from its direct entries."""
        return self._objects.write("tree", _serialize(entries))

    def forget(self) -> None:
        """Drop what is remembered, because objects were removed from disk."""
        with self._lock:
            self._parsed.clear()
            self._files, self._folders = {}, {"": {}}

    def _apply(self, files: Files, changed: set[str], gone: set[str]) -> str:
        dirty: set[str] = {""}
        for path in gone:
            folder, name = _split(path)
            del self._folders[folder][name]
            dirty.add(folder)
        # Folders that became empty go before files come: a file may take the name of a former folder.
        self._prune_empty(dirty)
        for path in sorted(changed):
            check_path(path)
            entry = files[path]
            if entry.mode not in _MODES:
                raise GitError(f"{path!r} has mode {entry.mode!r}", hint=f"git knows {', '.join(sorted(set(_MODES)))}")
            self._objects.check_id(entry.oid)
            folder, name = _split(path)
            self._make(folder, path, dirty)
            if path in self._folders:
                raise GitError(f"{path!r} is both a file and a folder")
            self._folders[folder][name] = (entry.mode, entry.oid)
            dirty.add(folder)
        for folder in sorted(dirty, key=lambda item: -1 if item == "" else item.count("/"), reverse=True):
            oid = self.write_folder(self._folders[folder])
            if folder:
                parent, name = _split(folder)
                self._folders[parent][name] = (_TREE_MODE, oid)
        return oid

    def _make(self, folder: str, path: str, dirty: set[str]) -> None:
        while folder not in dirty:
            dirty.add(folder)
            if folder not in self._folders:
                parent, name = _split(folder)
                if self._folders.get(parent, {}).get(name, (_TREE_MODE, ""))[0] != _TREE_MODE:
                    raise GitError(f"{folder!r} is both a file and a folder", hint=f"it stands in the way of {path!r}")
                self._folders[folder] = {}
            folder = _split(folder)[0]

    def _prune_empty(self, dirty: set[str]) -> None:
        queue = sorted(dirty, key=lambda item: item.count("/") if item else -1, reverse=True)
        for start in queue:
            folder = start
            while folder:
                parent, name = _split(folder)
                dirty.add(parent)
                if folder in self._folders and not self._folders[folder]:
                    del self._folders[folder]
                    del self._folders[parent][name]
                    dirty.discard(folder)
                folder = parent
        dirty.intersection_update(self._folders)


def _split(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


def _serialize(entries: Mapping[str, tuple[str, str]]) -> bytes:
    rows = []
    for name, (mode, oid) in entries.items():
        raw = to_bytes(name)
        # Git sorts a folder as if its name ended in "/".
        rows.append((raw + b"/" if mode == _TREE_MODE else raw, raw, mode, oid))
    rows.sort()
    return b"".join(b"%s %s\0%s" % (mode.encode(), raw, bytes.fromhex(oid)) for _, raw, mode, oid in rows)


def _parse(tree: str, content: bytes, id_size: int) -> _Folder:
    folder: _Folder = {}
    at = 0
    while at < len(content):
        space = content.find(b" ", at)
        end = content.find(b"\0", space)
        if space < 0 or end < 0 or end + 1 + id_size > len(content):
            raise GitError(f"tree {tree} is damaged", hint="run `git fsck`")
        mode = content[at:space].decode("ascii", "replace").lstrip("0")
        if mode != _TREE_MODE and mode not in _MODES:
            raise GitError(f"tree {tree} has an entry of mode {mode!r}", hint="run `git fsck`")
        name = to_text(content[space + 1 : end])
        at = end + 1 + id_size
        folder[name] = (mode, content[end + 1 : at].hex())
    return folder
