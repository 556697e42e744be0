"""Damage: flipped bits, cut ends, exchanged types, fields dropped, doubled and added, depth, huge numbers, bad text."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from dphist.files.digests import seal
from dphist.words import hash_of

Place = tuple[str | int, ...]
Reseal = Callable[[dict[str, Any]], dict[str, Any]]

VALUES: list[Any] = [
    None, True, False, "", "text", "1", "1e9", "\x00", "\x1b[2J", "é" * 300, [], {}, [[]], [1, "1"], {"name": None},
    0, 1, -1, 2, 2**31, 2**40, 2**40 + 1, 2**63, 10**19, 0.0, -0.0, 0.5, 1.5, -1.5, 1e-9, 1e9, 5e-324, 1e-308, 1e-300, 1e15,
    2.0**52, 1e100, 1e300, 1e308, -1e308,
    [0.5] * 1000, ["a"] * 1000, [1e308] * 16, "9" * 4000, "1/" + "9" * 1000, "0/0", "1/0", "99999999999/3",
]  # fmt: skip
TEXTS = [
    b"NaN", b"Infinity", b"-Infinity", b"1" + b"0" * 5000, b"1e999", b"-1e999", b"1" + b"." + b"3" * 5000, b'"\\ud800"',
    b'"\\u0000"', b"[" * 3000 + b"]" * 3000, b"[" * 100_000, b'{"a":' * 3000 + b"1" + b"}" * 3000, b"", b"nul", b'"',
    b"\xff", b"0x10", b"1_000", b"'a'", b"[" + b"{}," * 200_000 + b"{}]", b'{"a":1,"a":2}',
]  # fmt: skip
"""What JSON cannot say, or should not."""

_MARK = "3.141592653589793e77"


def leaves(data: Any, path: Place = ()) -> Iterator[Place]:
    """The places of all values that hold no others."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else None
    if items is None or not data:
        yield path
        return
    for name, value in items:
        yield from leaves(value, (*path, name))


def nodes(data: Any, path: Place = ()) -> Iterator[Place]:
    """The places of all values but the outermost."""
    if path:
        yield path
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for name, value in items:
        yield from nodes(value, (*path, name))


def at(data: Any, path: Place) -> Any:
    """The value at a place."""
    for name in path:
        data = data[name]
    return data


def put(data: Any, path: Place, value: Any) -> Any:
    """A copy with another value at a place."""
    changed = copy.deepcopy(data)
    at(changed, path[:-1])[path[-1]] = value
    return changed


def damage_bytes(content: bytes, rng: random.Random) -> bytes:
    """Anything that can happen to a file without anybody looking at what is in it."""
    content = content or b"\0"
    place = rng.randrange(len(content))
    usual, rare = ["flip", "cut"], ["flip", "few", "many", "zeros", "double", "insert", "junk", "tail", "empty"]
    kind = rng.choice(usual + rare)
    changed = bytearray(content)
    if kind in ("flip", "few", "many"):
        for _ in range({"flip": 1, "few": 8, "many": 1 + len(content) // 20}[kind]):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    length = rng.choice([1, 4, 8, 64, 500])
    return {
        "cut": content[:place],
        "zeros": content[:place] + b"\0" * min(length, len(content) - place) + content[place + length :],
        "double": content[:place] + content[place : place + length] * 2 + content[place + length :],
        "insert": content[:place] + rng.choice([b"\0", b"\xff", b"\xed\xa0\x80", b'"', b"\n"]) + content[place:],
        "junk": rng.randbytes(len(content)),
        "tail": content + rng.randbytes(length),
        "empty": b"",
    }[kind]


def damage_json(content: bytes, rng: random.Random, number: int, reseal: Reseal | None = None) -> bytes:
    """Damage to a document: the leaves take their turns by `number`. reseal: digests as somebody would compute them anew."""
    if rng.random() < 0.15:
        return damage_bytes(content, rng)
    data = json.loads(content)
    data.pop("digest", None)
    places = list(leaves(data))
    place = places[number % len(places)]
    kind = rng.choice(
        ["value", "value", "value", "value", "near", "near", "drop", "add", "double", "text", "text", "move"]
    )
    changed, raw = data, None
    if kind == "value":
        changed = put(data, place, rng.choice(VALUES))
    elif kind == "near":
        changed = put(data, place, near(at(data, place), rng))
    elif kind == "drop":
        place = rng.choice(list(nodes(data)))
        changed = copy.deepcopy(data)
        del at(changed, place[:-1])[place[-1]]
    elif kind == "move":
        other = rng.choice(places)
        changed = put(data, place, at(data, other))
    elif kind == "add":
        inside = [path for path in [(), *nodes(data)] if isinstance(at(data, path), dict)]
        changed = copy.deepcopy(data)
        name = rng.choice(["extra", "epsilon", "lattice", "__class__", "\x1b[31m", ""])
        at(changed, rng.choice(inside))[name] = rng.choice(VALUES)
    else:
        changed = put(data, place, float(_MARK))
        raw = rng.choice(TEXTS) if kind == "text" else b'1,"format":"x"'
    if reseal is not None and rng.random() < 0.7:
        changed = reseal(changed)
    text = json.dumps(changed, indent=2).encode("utf-8", "surrogatepass") + b"\n"
    return text if raw is None else text.replace(_MARK.replace("e77", "e+77").encode(), raw)


def near(value: Any, rng: random.Random) -> Any:
    """A value of the same type that somebody would rather see there."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, value * 10, value // 2, -value, float(value), str(value)])
    if isinstance(value, float):
        return rng.choice([value / 2, value * 2, value * (1 + 1e-12), -value, int(value), str(value)])
    if isinstance(value, str):
        return rng.choice([value + "x", value[:-1], value.upper(), value * 50, [value]])
    return rng.choice([{}, [], 1, "x"])


def reseal_session(data: dict[str, Any]) -> dict[str, Any]:
    """As the session does."""
    return {**data, "digest": hash_of(data)}


def reseal_metadata(data: dict[str, Any]) -> dict[str, Any]:
    """As a release does."""
    return seal(data)
