"""Numbers written in the manner of those they replace."""


def write_number(value: bool | int | float, before: str) -> str:
    """`value` as Python and most formats write it; hex, underscores and `1e-4` style are kept from `before`."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        if before.lstrip("+-")[:2].lower() == "0x":
            return hex(value)
        return f"{value:_}" if "_" in before else str(value)
    text = repr(value)
    if "e" in before.lower() and "e" not in text and value != 0 and not 1e-2 <= abs(value) < 1e3:
        return write_scientific(value)
    return text


def write_scientific(value: float) -> str:
    """`value` like 7.1e-4, with as many digits as it takes to read back the same."""
    for digits in range(17):
        mantissa, exponent = f"{value:.{digits}e}".split("e")
        if float(f"{mantissa}e{exponent}") == value:
            break
    return f"{mantissa}e{int(exponent)}"
