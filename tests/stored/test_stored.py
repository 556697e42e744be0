"""The one reader: whatever the bytes, an object that fits its type or one error that names the field and quotes nothing."""

import json
import math
from contextlib import suppress
from dataclasses import dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_files import PLANS
from records import GaussianRecords, LaplaceRecords

import dphist as dp
from dphist.errors import InvalidParameter, UnusableLedger
from dphist.files import stored
from dphist.mechanisms import (
    GROUP_MECHANISMS,
    ContinualCounts,
    CorrelatedTopK,
    FromTop,
    LaplaceThreshold,
    Mechanism,
    Ranked,
    SparseGaussian,
    TruncatedLaplace,
)
from dphist.mechanisms.base import Exact
from dphist.mechanisms.continual import calibrate as calibrate_rounds
from dphist.mechanisms.from_top import calibrate as calibrate_from_top
from dphist.mechanisms.ranked import calibrate as calibrate_ranked
from dphist.planning.top_k import plan_top_k


@dataclass(frozen=True, slots=True)
class Inner:
    share: float
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outer:
    number: float
    whole: int
    exact: Exact | None = None
    inner: Inner | None = None

    def __post_init__(self) -> None:
        if self.whole < 0:
            raise InvalidParameter("a whole number >= 0", self.whole)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"1", b"null", b"{", b'{"a": NaN}', b'{"a": Infinity}', b'{"a": 1e999}', b'{"a": 1, "a": 1}',
        b'{"a": "\xff"}',
        b'{"a": ' + b"1" * 21 + b"}", b'{"a": 0.' + b"1" * 70 + b"}", b'{"a": "\\ud800"}',
        b'{"\\ud800": 1}', b'{"a": "\\u0000"}',
        b'{"a": ' + b"[" * 20 + b"]" * 20 + b"}", b'{"a": ' + b"[" * 100_000, b'{"a": "' + b"x" * stored.MOST_BYTES + b'"}',
        b'\xef\xbb\xbf{"a": 1}', b'{"a": 1} {}', b'{"a": 1}\0',
    ],
)  # fmt: skip
def test_what_is_no_ordinary_json_object_is_refused(text: bytes) -> None:
    for error in (InvalidParameter, UnusableLedger):
        with pytest.raises(
            error, match=r"^Expected one readable JSON object in a\.json, got something else\. Hint: is it"
        ):
            stored.parse(text, "a.json", error=error)


def test_ordinary_json_is_read() -> None:
    nested = (
        b'{"a": ' + b"[" * 18 + b"]" * 18 + b', "b": [1, 1.5, -2e-300, "\\u00e9", true, null, 12345678901234567890]}'
    )
    assert stored.parse(nested, "")["b"] == [1, 1.5, -2e-300, "é", True, None, 12345678901234567890]


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_an_object_or_one_error(content: bytes) -> None:
    with suppress(InvalidParameter):
        assert isinstance(stored.parse(content, "x"), dict)


PLAIN = (
    st.sampled_from(
        [None, True, "", "1/3", "exact", "tight", 0, -1, 2**40, 2**63, 5e-324, 1e-300, 1e300, 0.5, 3, 100.0]
    )
    | st.integers(1, 20)
    | st.floats(0, allow_infinity=False)
)
JSON = (
    PLAIN
    | st.lists(PLAIN, max_size=4)
    | st.dictionaries(st.sampled_from(["law", "unit_noise", "x"]), PLAIN, max_size=3)
)


@given(st.sampled_from([*GROUP_MECHANISMS, Ranked, FromTop, CorrelatedTopK, ContinualCounts]), st.data())
@settings(max_examples=120, deadline=None)
def test_any_data_is_a_mechanism_or_one_error(kind: type[Mechanism], draw: st.DataObject) -> None:
    """Also with the right names: values of every type and size."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    data = draw.draw(st.fixed_dictionaries(dict.fromkeys(names[:5], JSON)))
    with suppress(InvalidParameter):
        built = kind.from_data(data)
        assert kind.from_data(json.loads(json.dumps(built.to_data()))) == built


def test_types_are_strict_and_numbers_stay_as_they_are_written() -> None:
    built = stored.build(Outer, {"number": 1, "whole": 2, "exact": "6/4", "inner": {"share": 3, "words": ["a"]}}, "x")
    assert built == Outer(1, 2, Fraction(3, 2), Inner(3, ("a",)))
    assert type(built.number) is int, "1 and 1.0 have different hashes in a ledger"
    good: dict[str, Any] = {"number": 1.5, "whole": 2}
    for wrong, place in (
        ({"number": "1"}, "number"), ({"number": True}, "number"), ({"whole": 2.0}, "whole"), ({"whole": None}, "whole"),
        ({"inner": []}, "inner"), ({"inner": {"share": "secret"}}, r"inner\.share"),
        ({"inner": {"share": 1, "words": "ab"}}, r"inner\.words"),
        ({"inner": {"share": 1, "secret": 1}}, r"inner\.secret"), ({"other": 1}, "other"),
    ):  # fmt: skip
        with pytest.raises(
            InvalidParameter, match=rf"^Expected a valid {place} in x, got another one\. Hint: "
        ) as told:
            stored.build(Outer, {**good, **wrong}, "x")
        assert "secret" not in str(told.value).replace("inner.secret", "")
    with pytest.raises(UnusableLedger, match=r"^Expected a whole number >= 0 in x, got something else\.$"):
        stored.build(Outer, {**good, "whole": -7}, "x", error=UnusableLedger)
    assert stored.build(Outer, {**good, "more": 1}, "x", extra="ignore").whole == 2


@pytest.mark.parametrize(
    "text", ["1e9", "0x1", "-1", "1/-2", "1.5", "1/2/3", "9" * 1001, "", 1, 0.5, None, ["1"], "１"]
)
def test_a_fraction_is_two_whole_numbers(text: object) -> None:
    with pytest.raises(InvalidParameter):
        stored.build(Outer, {"number": 1, "whole": 1, "exact": [text]}, "x")
    if text is not None:
        with pytest.raises(InvalidParameter):
            stored.build(Outer, {"number": 1, "whole": 1, "exact": text}, "x")


def test_numbers_beyond_doubles_are_one_error() -> None:
    data = {"sparsity": 2, "variance": "9" * 900, "common_variance": "1", "threshold": 4.0}
    kind = next(kind for kind in GROUP_MECHANISMS if kind.name == "discrete-correlated-gaussian")
    with pytest.raises(InvalidParameter, match="Expected numbers of ordinary size in a mechanism"):
        kind.from_data(data)
    with pytest.raises(
        InvalidParameter, match="the mechanism discrete-correlated-gaussian in a mechanism, got another"
    ):
        kind.from_data({**data, "name": "laplace"})


def test_files_are_read_as_far_as_they_may_go(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(InvalidParameter, match=r"a plan at .*, got nothing"):
        stored.read_file(path, "a plan")
    with pytest.raises(InvalidParameter, match=r"a plan at .*, got something else"):
        stored.read_file(tmp_path, "a plan")
    with pytest.raises(InvalidParameter, match="an unreadable file"):
        stored.read_file(tmp_path / ("x" * 300), "a plan")
    path.write_bytes(b"12345")
    assert stored.read_file(path, "a plan", 5) == b"12345"
    with pytest.raises(InvalidParameter, match=r"at most 4 bytes at .*, got a longer file"):
        stored.read_file(path, "a plan", 4)


def test_words_from_files_are_short_and_harmless() -> None:
    assert stored.excerpt("\x1b[2Jé\n") == "\\x1b[2J\\xe9\\n"
    assert stored.excerpt("x" * 100) == "x" * 60 + "…"


def test_every_mechanism_comes_back_from_its_data() -> None:
    """The identity, to the bit: through JSON, and through a plan's file."""
    mechanisms: list[Mechanism] = [
        calibrate_rounds(1.0, 1e-6, 7, 3),
        calibrate_from_top(1.0, 1e-6, 4),
        calibrate_ranked(1.0, 1e-6, 4, 20, queries=3),
        plan_top_k(k=4, epsilon=1.0, delta=1e-6).mechanism,
        TruncatedLaplace.for_budget(1.0, 1e-6, 2),
        GaussianRecords(3, 2, 20.0, 90.0),
        LaplaceRecords(3, 2, 20.0, 90.0),
    ]
    names = set()
    plans = [dp.plan(epsilon=1, delta=1e-6, **asked) for asked in PLANS.values()]
    for plan in (*plans, dp.plan(epsilon=1, delta=1e-6, keys=9, max_groups=2)):
        mechanisms += [plan.mechanism, *plan.alternatives]
        names |= {plan.mechanism.name, *(other.name for other in plan.alternatives)}
    assert names == {kind.name for kind in GROUP_MECHANISMS}
    for mechanism in mechanisms:
        data = json.loads(json.dumps(mechanism.to_data()))
        assert type(mechanism).from_data(data) == mechanism
        assert type(mechanism).from_data(data).to_data() == mechanism.to_data()
        whole = {
            name: int(value) if type(value) is float and value.is_integer() else value for name, value in data.items()
        }
        assert type(mechanism).from_data(whole).proved_delta(1.0) == mechanism.proved_delta(1.0), "63 for 63.0"


def test_a_guarantee_that_cannot_be_computed_proves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A NaN is not above any delta: compared the wrong way round it would pass."""
    assert SparseGaussian(3, 1e-300, 10.0).proved_delta(1.0) == 1.0  # its square is no double
    dp.plan(epsilon=1, delta=1e-6, max_groups=3).save(tmp_path / "plan.json")
    plan = dp.Plan.load(tmp_path / "plan.json")
    assert LaplaceThreshold.name in {other.name for other in plan.alternatives}
    session = dp.Session.start(tmp_path / "s.json", unit="u", epsilon=1, delta=1e-6, results=3, queries=2)
    stream = dp.Continual.start(tmp_path / "c", unit="u", by="k", rounds=3, max_groups=1, epsilon=1, delta=1e-6)
    for kind, read in (
        (SparseGaussian, lambda: dp.Plan.load(tmp_path / "plan.json")),
        (LaplaceThreshold, lambda: dp.Plan.load(tmp_path / "plan.json")),
        (Ranked, lambda: session.account),
        (ContinualCounts, lambda: dp.Continual(stream.path)),
    ):
        read()
        with monkeypatch.context() as patch:
            patch.setattr(kind, "delta", lambda *_: math.nan)
            if kind is ContinualCounts:
                from dphist.run import continual

                continual._delta.cache_clear()
            with pytest.raises(dp.DphistError, match=r"guarantee holds|meet the budget"):
                read()


def test_a_plan_compares_a_few_mechanisms(tmp_path: Path) -> None:
    """Each has to be checked: ten thousand would take hours."""
    path = tmp_path / "plan.json"
    dp.plan(epsilon=1, delta=1e-6, max_groups=3).save(path)
    data = json.loads(path.read_text())
    for change, told in (
        ({"alternatives": [data["mechanism"]] * 3}, "at most 3 mechanisms of a kind"),
        ({"alternatives": [{}]}, "an alternative of .* to be one of"),
        ({"mechanism": {**data["mechanism"], "name": ["x"]}}, "the mechanism of .* to be one of"),
        ({"extra": 1}, "a valid extra"),
        ({"version": True}, "of version 1"),
    ):
        path.write_text(json.dumps({**data, **change}))
        with pytest.raises(dp.InvalidPlan, match=told):
            dp.Plan.load(path)
