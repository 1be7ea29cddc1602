"""What a command printed, within bounds: the head and the tail are kept, the middle is counted."""


class Output:
    """Collects one stream. Half of `limit` bytes from its start are kept, half from its end."""

    def __init__(self, limit: int) -> None:
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Take the next piece."""
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        excess = len(self._tail) - self._tail_limit
        # Cut in large steps: deleting from the front of a buffer moves all that stays.
        if excess > self._tail_limit + 65536:
            del self._tail[:excess]
            self._dropped += excess

    @property
    def truncated(self) -> bool:
        """Something was dropped, or will be by `value`."""
        return self._dropped > 0 or len(self._tail) > self._tail_limit

    def value(self) -> bytes:
        """What was kept; where bytes were dropped, a line of its own says how many."""
        excess = max(len(self._tail) - self._tail_limit, 0)
        dropped = self._dropped + excess
        if not dropped:
            return bytes(self._head + self._tail)
        return bytes(self._head) + b"\n[... %d bytes dropped ...]\n" % dropped + bytes(self._tail[excess:])
