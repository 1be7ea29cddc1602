"""Counts primes in many ranges, by a sieve in segments."""

from math import isqrt

SEGMENT = 4096  # knob: 256..1048576 log
REMEMBER = 16  # knob: 0..4096
TRIAL_BELOW = 60  # knob: 0..2000
SKIP_EVEN = False


def count_primes(ranges):
    """For each (low, high) the number of primes p with low <= p < high.

    Segments lie on a grid; the counts of whole ones are remembered. Narrow ranges are tested number by number.
    """
    if not ranges:
        return []
    base = primes_below(isqrt(max(high for _, high in ranges)) + 1)
    remembered = {}
    return [count_range(low, high, base, remembered) for low, high in ranges]


def count_range(low, high, base, remembered):
    """The number of primes from `low` to below `high`; `base` holds all primes up to its square root."""
    if high - low < TRIAL_BELOW:
        return sum(is_prime(number, base) for number in range(low, high))
    total = 0
    while low < high:
        start = low - low % SEGMENT
        stop = min(start + SEGMENT, high)
        if low == start and stop == start + SEGMENT:
            if start not in remembered:
                if len(remembered) >= REMEMBER and remembered:
                    del remembered[next(iter(remembered))]
                remembered[start] = count_sieved(start, stop, base)
            total += remembered[start]
        else:
            total += count_sieved(low, stop, base)
        low = stop
    return total


def is_prime(number, base):
    """Whether no prime of `base` up to the square root divides `number`."""
    if number < 2:
        return False
    for prime in base:
        if prime * prime > number:
            break
        if number % prime == 0:
            return False
    return True


def count_sieved(low, high, base):
    """The number of primes from `low` to below `high`, by crossing out multiples."""
    if SKIP_EVEN:
        return count_odd(low, high, base)
    flags = bytearray(b"\1") * (high - low)
    for number in range(low, min(2, high)):
        flags[number - low] = 0
    for prime in base:
        first = max(prime * prime, -(-low // prime) * prime)
        if first < high:
            flags[first - low :: prime] = bytes(len(range(first, high, prime)))
    return flags.count(1)


def count_odd(low, high, base):
    """The same, with no room for even numbers."""
    found = low <= 2 < high
    low, size = max(low | 1, 3), 0
    size = max(0, (high - low + 1) // 2)
    flags = bytearray(b"\1") * size
    for prime in base[1:]:
        first = max(prime * prime, -(-low // prime) * prime)
        first += prime if first % 2 == 0 else 0
        at = (first - low) // 2
        if at < size:
            flags[at::prime] = bytes(len(range(at, size, prime)))
    return flags.count(1) + found


def primes_below(limit):
    """All primes below `limit`, ascending."""
    flags = bytearray(b"\1") * max(limit, 2)
    flags[:2] = b"\0\0"
    for number in range(2, isqrt(limit) + 1):
        if flags[number]:
            flags[number * number :: number] = bytes(len(range(number * number, len(flags), number)))
    return [number for number in range(limit) if flags[number]]
