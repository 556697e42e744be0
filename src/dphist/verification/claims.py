"""What metadata states, compared field by field with what its plan gives: a claim that does not follow is a failed check."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

from dphist import checks
from dphist.errors import InvalidParameter
from dphist.publish.charge import Receipt
from dphist.publish.digests import DIGEST, FILE, TABLE, VERSION, canonical
from dphist.verification.check import Check, skipped
from dphist.version import __version__

WORDS: Final = ("guarantee", "estimand", "assumption")
"""Sentences, which another version of dphist may word in another way. Numbers are compared whatever the version."""

_SEALS: Final = (DIGEST, FILE, TABLE)
_SINCE_2: Final = ("keys", "null_keys")
"""What metadata of a stream lacked in version 1; that of a release had both names of its own."""

_CLOSE: Final = 1e-9
"""Another version of a numerical library may move the last digits of a number."""

_SHOWN: Final = 60
_HASH: Final = re.compile("[0-9a-f]{64}")


def check_version(metadata: dict[str, Any]) -> int:
    """The version of the metadata, if this code can read it."""
    version = metadata.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= VERSION:
        raise InvalidParameter(
            f"metadata of version {VERSION} or older", _shown(version), "it was written by a newer dphist, or changed."
        )
    return version


def compare(stated: dict[str, Any], expected: dict[str, Any]) -> list[Check]:
    """One failed check for every field that differs, is unknown or is missing; else one that all agree.

    An old file is not blamed for what came later.
    """
    version = stated["version"]
    fields = {name: value for name, value in stated.items() if name != FILE and (version == 1 or name not in _SEALS)}
    if version == 1:
        expected = {name: value for name, value in expected.items() if name in fields or name not in _SINCE_2}
    expected = {**json.loads(canonical(expected)), "version": version, "dphist": stated.get("dphist")}
    found, differing = [], dict(_differences(fields, expected, ""))
    for name in WORDS:
        if name in differing and isinstance(fields.get(name), str) and fields["dphist"] != __version__:
            del differing[name]
            found.append(skipped(name, f"worded by dphist {_shown(fields['dphist'])}, and otherwise than here"))
    found += [Check(name, False, problem) for name, problem in differing.items()]
    if not any(check.failed for check in found):
        others = "every other field" if found else "every field"
        found.append(Check("claims", True, f"{others} is what the plan gives"))
    return found


def _differences(stated: Any, expected: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(stated, dict) and isinstance(expected, dict):
        for name in dict.fromkeys([*expected, *stated]):
            place = f"{path}.{name}" if path else name
            if name not in expected:
                yield ascii(place)[1:-1], "is a field that dphist does not write"
            elif name not in stated:
                yield place, f"is missing; the plan gives {_shown(expected[name])}"
            else:
                yield from _differences(stated[name], expected[name], place)
    elif isinstance(stated, list) and isinstance(expected, list) and len(stated) == len(expected):
        for place, (one, other) in enumerate(zip(stated, expected, strict=True)):
            yield from _differences(one, other, f"{path}[{place}]")
    elif not _same(stated, expected):
        yield path, f"says {_shown(stated)}, the plan gives {_shown(expected)}"


def _same(stated: Any, expected: Any) -> bool:
    if isinstance(stated, bool) or isinstance(expected, bool):
        return stated is expected
    if isinstance(stated, int | float) and isinstance(expected, int | float):
        return math.isclose(stated, expected, rel_tol=_CLOSE)
    return bool(stated == expected)


def _shown(value: Any) -> str:
    """A value from a file of anyone: short, and without letters that a terminal would obey."""
    text = canonical(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def created_of(metadata: dict[str, Any]) -> dt.datetime:
    """When it was written, which nothing but a ledger could confirm."""
    check_text(metadata, "dphist")
    found = dt.datetime.fromisoformat(check_text(metadata, "created"))
    if found.tzinfo is None:
        raise InvalidParameter("a time with its zone", _shown(metadata["created"]))
    return found


def receipt_of_file(metadata: dict[str, Any]) -> Receipt | None:
    """The entry of a ledger that a file names."""
    named = metadata.get("ledger")
    if named is None:
        return None
    if not isinstance(named, dict) or set(named) != {"dataset", "entry", "hash"}:
        raise InvalidParameter("an entry of a ledger, named by dataset, entry and hash", _shown(named))
    checks.check_whole("the entry of the ledger", named["entry"], 0)
    if _HASH.fullmatch(check_text(named, "hash")) is None:
        raise InvalidParameter("the hash of an entry", _shown(named["hash"]))
    return Receipt(check_text(named, "dataset"), named["entry"], named["hash"])


def check_text(metadata: dict[str, Any], name: str) -> str:
    """A text that is not empty."""
    value = metadata.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidParameter(f"a text as {name}", _shown(value))
    return value


def check_text_or_none(metadata: dict[str, Any], name: str) -> str | None:
    """The same, or none."""
    return None if metadata.get(name) is None else check_text(metadata, name)


def check_names(metadata: dict[str, Any], name: str) -> tuple[str, ...]:
    """A list of different texts, not empty."""
    values = metadata.get(name)
    if not isinstance(values, list) or not values or not all(isinstance(value, str) and value for value in values):
        raise InvalidParameter(f"a list of names as {name}", _shown(values))
    if len(set(values)) < len(values):
        raise InvalidParameter(f"different names as {name}", _shown(values))
    return tuple(values)
