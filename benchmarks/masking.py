"""What masking finds, what it takes for a find, and what it costs; one JSON line on stdout.

    python benchmarks/masking.py

Finds: generated values of every validated format (keys, cards, IBANs, national numbers, addresses, telephone numbers),
each plain and under every disguise, in a sentence. A case counts as masked only if no piece of the value that would
give it away is left. False finds: one megabyte of this Python's own sources and prose (documentation topics, licence texts),
counted by kind and listed on stderr. Cost: CPU time of one process, the median and the worst of repeated runs.
"""

import base64
import json
import random
import re
import statistics
import string
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from pydoc_data import topics

from overnight.kernel.masking import Masker, Owner, Sink, Vault
from overnight.kernel.masking.letter_ids import IBAN_LENGTHS
from overnight.kernel.masking.national_ids import NUMBERS

OWNER = Owner("tenant", "person", "session")
ALNUM = string.ascii_letters + string.digits
PER_FORMAT = 2
CORPUS_BYTES = 512 * 1024


def drawn(rng: random.Random, alphabet: str, length: int) -> str:
    # A digit, a capital and a small letter each, as any long random token has.
    return "".join(rng.choice(alphabet) for _ in range(length - 3)) + "7Qx"[: min(3, length)]


def keys(rng: random.Random) -> Iterator[tuple[str, str]]:
    upper, lower_hex = string.ascii_uppercase + string.digits, "0123456789abcdef"
    url = ALNUM + "_-"

    def hexadecimal(length: int) -> str:
        return "".join(rng.choice(lower_hex) for _ in range(length))

    def part(text: str) -> str:
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    yield "aws", "AKIA" + "".join(rng.choice(upper) for _ in range(16))
    yield "github", rng.choice(["ghp_", "gho_", "ghs_"]) + drawn(rng, ALNUM, 36)
    yield "github-fine-grained", "github_pat_" + drawn(rng, ALNUM, 22) + "_" + drawn(rng, ALNUM, 59)
    yield "gitlab", "glpat-" + drawn(rng, ALNUM, 20)
    yield "slack", f"xoxb-{rng.randrange(10**11, 10**12)}-{rng.randrange(10**11, 10**12)}-{drawn(rng, ALNUM, 24)}"
    yield "stripe", "sk_live_" + drawn(rng, ALNUM, 24)
    yield "openai", "sk-proj-" + drawn(rng, ALNUM, 48)
    yield "anthropic", "sk-ant-api03-" + drawn(rng, url[:-1], 93) + "AA"
    yield "google-api", "AIza" + drawn(rng, ALNUM, 35)
    yield "npm", "npm_" + drawn(rng, ALNUM, 36)
    yield "pypi", "pypi-AgEIcHlwaS5vcmc" + drawn(rng, ALNUM, 60)
    yield (
        "jwt",
        f"{part(json.dumps({'alg': 'HS256'}))}.{part(json.dumps({'sub': rng.random()}))}.{drawn(rng, ALNUM, 43)}",
    )
    yield "huggingface", "hf_" + drawn(rng, ALNUM, 34)
    yield "sendgrid", f"SG.{drawn(rng, ALNUM, 22)}.{drawn(rng, ALNUM, 43)}"
    yield "shopify", "shpat_" + hexadecimal(32)
    yield "digitalocean", "dop_v1_" + hexadecimal(64)
    yield "databricks", "dapi" + hexadecimal(32)
    yield "telegram", f"{rng.randrange(10**8, 10**10)}:AA{drawn(rng, ALNUM, 33)}"
    body = "\n".join(drawn(rng, ALNUM + "+/", 64) for _ in range(6))
    yield "pem", f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"


def cards(rng: random.Random) -> Iterator[tuple[str, str]]:
    for network, prefix, length in (
        ("visa", "4", 16), ("visa-13", "4", 13), ("visa-19", "4", 19), ("mastercard", "53", 16),
        ("mastercard-2", "2223", 16), ("mastercard-2", "2719", 16), ("amex", "37", 15), ("diners", "36", 14),
        ("discover", "6011", 16), ("jcb", "3530", 16), ("unionpay", "62", 18), ("maestro", "5018", 16),
    ):  # fmt: skip
        digits = prefix + "".join(rng.choice(string.digits) for _ in range(length - len(prefix) - 1))
        total = sum(int(d) if i % 2 else sum(divmod(2 * int(d), 10)) for i, d in enumerate(reversed(digits)))
        digits += str(-total % 10)
        separator = rng.choice(["", " ", "-"])
        sizes = (4, 6, 5) if length == 15 else (4, 6, 4) if length == 14 else (4,) * 5
        groups, at = [], 0
        for size in sizes:
            groups.append(digits[at : at + size])
            at += size
        yield network, separator.join(filter(None, groups))


def ibans(rng: random.Random) -> Iterator[tuple[str, str]]:
    for country, length in IBAN_LENGTHS.items():
        account = "".join(rng.choice(string.digits) for _ in range(length - 4))
        number = int("".join(str(int(char, 36)) for char in account + country + "00"))
        plain = f"{country}{98 - number % 97:02d}{account}"
        yield "iban", plain if rng.random() < 0.5 else " ".join(plain[i : i + 4] for i in range(0, length, 4))


def national(rng: random.Random) -> Iterator[tuple[str, str]]:
    for number in NUMBERS:
        layout = rng.choice(number.bare or number.layouts)
        while True:
            digits = "".join(rng.choice(string.digits) for _ in range(sum(layout)))
            if number.check(digits):
                break
        groups, at = [], 0
        for size in layout:
            groups.append(digits[at : at + size])
            at += size
        joint = "-" if number.name in ("us-ssn", "kr-rrn", "se-pnr") else " "
        lead = "" if layout in number.bare else f"{number.words[0]} "
        yield number.name, lead + "\0" + joint.join(groups)
    yield from (
        ("uk-nino", "AB123456C"),
        ("es-dni", "12345678Z"),
        ("es-dni", "X1234567L"),
        ("it-cf", "RSSMRA85T10A562S"),
        ("fi-hetu", "131052-308T"),
        ("ie-pps", "1234567T"),
        ("de-rvnr", "15070649C103"),
        ("sg-nric", "S1234567D"),
        ("cn-id", "11010519491231002X"),
        ("mx-curp", "BOXW310820HNERXN09"),
    )


def contacts(rng: random.Random) -> Iterator[tuple[str, str]]:
    first, last = (
        rng.choice(["alice", "bob.m", "j_doe+news", "x"]),
        rng.choice(["example.com", "mail.example.co.uk", "firm.example.de"]),
    )
    yield "email", f"{first}@{last}"
    yield (
        "phone",
        rng.choice(["+49 30 901820", "+1 (415) 555-2671", "+442079460958", "0044 20 7946 0958", "+33 1 23 45 67 89"]),
    )
    yield "phone", rng.choice(["(415) 555-2671", "415-555-2671", "tel. \x00030 901820", "phone: \x0007700 900123"])


DISGUISES: dict[str, Callable[[str], str]] = {
    "plain": lambda t: t,
    "zero-width": lambda t: "\u200b".join(t),
    "full-width": lambda t: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in t),
    "look-alikes": lambda t: t.translate(str.maketrans("AEOPCTBHKMXaeopcyxs", "АЕОРСТВНКМХаеорсухѕ")),
    "accents": lambda t: "".join(c + "\u0332" if c.isalnum() else c for c in t),
    "base64": lambda t: base64.b64encode(t.encode()).decode(),
    "base64url": lambda t: base64.urlsafe_b64encode(t.encode()).decode().rstrip("="),
    "base64 of full-width": lambda t: base64.b64encode(DISGUISES["full-width"](t).encode()).decode(),
    "hex": lambda t: t.encode().hex(),
    "percent": lambda t: "".join(f"%{b:02X}" for b in t.encode()),
    "entities": lambda t: "".join(f"&#{ord(c)};" for c in t),
    "\\u": lambda t: "".join(f"\\u{ord(c):04x}" for c in t),
    "quoted-printable": lambda t: "".join(f"={b:02X}" for b in t.encode()),
    "base64 twice": lambda t: base64.b64encode(base64.b64encode(t.encode())).decode(),
    "hex of base64 of percent": lambda t: base64.b64encode(DISGUISES["percent"](t).encode()).hex(),
}
# Only what its form alone proves can be found backwards or taken apart.
BY_FORM: dict[str, Callable[[str], str]] = {
    "backwards": lambda t: t[::-1],
    "line break": lambda t: t[: len(t) // 2] + "\n" + t[len(t) // 2 :],
    "letter by letter": lambda t: (
        " ".join(t.replace(" ", "").replace("-", "")) if " " in t or t.isalnum() else " ".join(t)
    ),
    "concatenated": lambda t: f'"{t[: len(t) // 2]}" + "{t[len(t) // 2 :]}"',
}


def left_over(masked: str, shown: str) -> bool:
    """Whether a third of what was shown is still there in one piece."""
    size = max(6, len(shown) // 3)
    return any(shown[i : i + size] in masked for i in range(len(shown) - size + 1))


def finds(rng: random.Random) -> dict[str, object]:
    tried: Counter[str] = Counter()
    found: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    sources = {"key": keys, "card": cards, "iban": ibans, "national_id": national, "contact": contacts}
    for group, source in sources.items():
        for _ in range(PER_FORMAT):
            for name, value in source(rng):
                disguises = DISGUISES if group != "key" and group != "iban" else DISGUISES | BY_FORM
                for disguise, apply in disguises.items():
                    if name == "pem" and disguise in ("letter by letter", "concatenated"):
                        continue
                    # A NUL parts the word that some numbers need beside them from the number.
                    shown = apply(value.rsplit("\0", 1)[-1])
                    text = f"Please note: {apply(value.replace(chr(0), ''))} , thank you."
                    masker = Masker(Vault(OWNER))
                    masked = masker.mask(text)
                    assert masker.unmask(masked.text, Sink(OWNER, "secret")).text == text
                    tried[disguise] += 1
                    if masked.findings and not left_over(masked.text, shown):
                        found[disguise] += 1
                    else:
                        missed[f"{group}/{name}/{disguise}"] += 1
                        if missed[f"{group}/{name}/{disguise}"] == 1:
                            print(f"missed {group}/{name}/{disguise}: {text!r} -> {masked.text!r}", file=sys.stderr)
    return {
        "cases": sum(tried.values()),
        "masked": sum(found.values()),
        "share": round(sum(found.values()) / sum(tried.values()), 6),
        "by_disguise": {name: round(found[name] / tried[name], 4) for name in tried},
        "missed": dict(missed.most_common(20)),
    }


def corpus() -> dict[str, str]:
    """Program text and prose of this Python installation, half a megabyte each, the same on every machine with it."""
    library = Path(sysconfig.get_paths()["stdlib"])
    code = "".join(path.read_text("utf-8", "replace") for path in sorted(library.glob("*.py")))
    prose = "\n".join(topics.topics.values())[: CORPUS_BYTES * 3 // 4]
    for distribution in sorted(metadata.distributions(), key=lambda d: d.metadata["Name"] or ""):
        for file in distribution.files or ():
            if re.search(r"LICEN[CS]E|COPYING|NOTICE", file.name):
                prose += Path(str(file.locate())).read_text("utf-8", "replace")
    return {"code": code[:CORPUS_BYTES], "prose": prose[:CORPUS_BYTES]}


def false_finds(texts: dict[str, str]) -> dict[str, object]:
    result: dict[str, object] = {}
    for name, text in texts.items():
        masker = Masker(Vault(OWNER))
        findings = masker.mask(text).findings
        for finding in findings:
            around = text[max(0, finding.start - 30) : finding.end + 15]
            print(f"{name}: {finding.kind}/{finding.rule}: {around!r}", file=sys.stderr)
        result[name] = {"bytes": len(text.encode()), "found": dict(Counter(finding.kind for finding in findings))}
    return result


def cost(texts: dict[str, str], rng: random.Random) -> dict[str, object]:
    # One disguised value a kilobyte, as a hidden secret is met; and one in every 250 characters, to see what it costs most.
    sparse = []
    for at in range(0, 48 * 1024, 1024):
        value = rng.choice([v for source in (keys, cards, ibans, national, contacts) for _, v in source(rng)])
        disguise = rng.choice(list(DISGUISES.values()))
        said = disguise(value.replace(chr(0), ""))[:600]
        sparse.append(f"{texts['prose'][at : at + 1022 - len(said)]} {said}\n")
    hiding: list[str] = []
    while len("".join(hiding)) < 64 * 1024:
        value = rng.choice([v for source in (keys, cards, ibans, national, contacts) for _, v in source(rng)])
        disguise = rng.choice(list(DISGUISES.values()))
        at = rng.randrange(len(texts["prose"]) - 400)
        hiding.append(f"{texts['prose'][at : at + rng.randrange(100, 400)]} {disguise(value.replace(chr(0), ''))}\n")
    samples = {
        "clean_prose": texts["prose"],
        "clean_code": texts["code"],
        "hiding": "".join(sparse),
        "hiding_densely": "".join(hiding),
    }
    result: dict[str, object] = {}
    for name, text in samples.items():
        for size in (1024, 65536):
            times = []
            for start in range(0, min(len(text), 16 * max(size, 4096)), size):
                piece = text[start : start + size]
                masker = Masker(Vault(OWNER))
                masker.mask(piece[:256])
                begun = time.process_time()
                masker.mask(piece)
                times.append((time.process_time() - begun) * 1000 / (len(piece.encode()) / 1024))
            result[f"{name}_{size // 1024}kb_ms_per_kb"] = {
                "median": round(statistics.median(times), 3),
                "worst": round(max(times), 3),
                "runs": len(times),
            }
    return result


def main() -> None:
    rng = random.Random(20_261_130)
    texts = corpus()
    print(json.dumps({"finds": finds(rng), "false_finds": false_finds(texts), "cost": cost(texts, rng)}))


if __name__ == "__main__":
    main()
