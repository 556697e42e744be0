"""What plans, releases and statistics are asked for: each option declared once, with its type, default and help.

From these declarations come the options of the command line (`dphist.cli.options`), the signatures of `dphist.plan`, `release`
and `stat` (`spelled_out`), and the strict model that checks what a caller gives (`read`). The model is pydantic's and is built
when it is first needed: importing pydantic takes longer than all else that `dphist --help` does.
"""

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    Required,
    TypedDict,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from dphist.errors import InvalidParameter
from dphist.mechanisms.counts import Emphasis
from dphist.planning.request import Noise, Objective

if TYPE_CHECKING:
    from pydantic import BaseModel

NullKeys = Literal["group", "drop"]
Order = Literal["count", "key"]
ReadAs = Literal["number", "text"]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Option:
    """What a declaration says beside its type.

    flag, text, metavar: how the command line spells it, where that does not follow from name and type; `text` is the type that
    is read there. expected: the words of an error, where they do not follow from the type.
    """

    help: str
    default: Any = None
    flag: str = ""
    text: Any = None
    metavar: str | None = None
    expected: str = ""


class _Lists:
    """Takes a list where the type says tuple."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {**handler(source), "strict": False}


Auto = Literal["auto"]
_Pair = Annotated[tuple[float | Auto, float | Auto], _Lists()]
_Bounds = Mapping[str, _Pair | Auto]
_BOUNDS: Final = "columns with lower and upper bounds, such as {'likes': (0, 1)}, or 'auto'"
_Probabilities = float | Annotated[Sequence[float], _Lists()]
_Quantiles = Mapping[
    str,
    Annotated[tuple[_Probabilities, float | Auto, float | Auto], _Lists()]
    | Annotated[tuple[_Probabilities, Auto], _Lists()],
]
_QUANTILES: Final = (
    "columns with probabilities and bounds, such as {'amount': (0.5, 0, 100)} or {'amount': ([0.25, 0.75], 'auto')}"
)


class _Budget(TypedDict):
    epsilon: Annotated[float, Option("Privacy budget: how much one unit may change the odds.")]
    delta: Annotated[float, Option("Privacy budget: the probability of failure, for example 1e-8.")]


class _BudgetOrPlan(TypedDict, total=False):
    epsilon: Annotated[float | None, Option("Privacy budget.")]
    delta: Annotated[float | None, Option("Privacy budget, for example 1e-8.")]


class _Groups(TypedDict, total=False):
    max_groups: Annotated[
        int | None,
        Option(
            "The most groups one unit may be counted in; without it, keys are selected first and all units counted."
        ),
    ]
    sparsity: Annotated[int | None, Option("A public bound on the number of non-empty groups.")]


_KEYS: Final = (
    "A public list of groups, which needs no threshold: a file (one key per line, .csv or .parquet), column=a,b,1..9"
    " (repeatable: all combinations), or a SELECT from a table that is public."
)


class _Keys(TypedDict, total=False):
    keys: Annotated[object, Option(_KEYS, text=list[str] | None, metavar="LIST")]


class _Choices(TypedDict, total=False):
    sparse: Annotated[bool, Option("With --keys: publish only groups above a threshold.", False)]
    sketch: Annotated[int | None, Option("Count in bounded memory with this many counters (Misra-Gries). No sums.")]
    sums: Annotated[
        _Bounds | None,
        Option(
            "column:lower:upper, a sum per group; or name=expression:lower:upper; auto for a bound, or for both (column:auto),"
            " chooses privately. Repeatable.",
            flag="--sum",
            text=list[str] | None,
            expected=_BOUNDS,
        ),
    ]
    means: Annotated[
        _Bounds | None,
        Option(
            "column:lower:upper, a mean per group; expressions and auto as in --sum. Repeatable.",
            flag="--mean",
            text=list[str] | None,
            expected=_BOUNDS,
        ),
    ]
    variances: Annotated[
        _Bounds | None,
        Option(
            "column:lower:upper, the variance of records per group. Repeatable.",
            flag="--variance",
            text=list[str] | None,
            expected=_BOUNDS,
        ),
    ]
    stds: Annotated[
        _Bounds | None,
        Option(
            "column:lower:upper, the standard deviation of records per group. Repeatable.",
            flag="--std",
            text=list[str] | None,
            expected=_BOUNDS,
        ),
    ]
    quantiles: Annotated[
        _Quantiles | None,
        Option(
            "column:probability:lower:upper, such as amount:0.9:0:100 or amount:0.25,0.75:0:100, quantiles of records per"
            " group; auto as in --sum. Repeatable.",
            flag="--quantile",
            text=list[str] | None,
            expected=_QUANTILES,
        ),
    ]
    medians: Annotated[
        _Bounds | None,
        Option(
            "column:lower:upper, the median of records per group: --quantile with 0.5. Repeatable.",
            flag="--median",
            text=list[str] | None,
            expected=_BOUNDS,
        ),
    ]
    count_of: Annotated[
        Sequence[str] | None,
        Option(
            "column, the units with a value in it per group, as COUNT(column). Repeatable.",
            text=list[str] | None,
            expected="a list of columns",
        ),
    ]
    rows: Annotated[
        int | Auto | None,
        Option(
            "Records per group, each unit's clamped to this many; auto chooses the number privately.",
            text=str | None,
            expected="a whole number or 'auto'",
        ),
    ]
    distinct: Annotated[
        Mapping[str, int | Auto] | None,
        Option(
            "column:most, distinct values per group, of which a unit adds at most so many; column:auto chooses. Repeatable.",
            text=list[str] | None,
            expected="columns with a whole number or 'auto', such as {'url': 5}",
        ),
    ]
    records: Annotated[
        int | None,
        Option(
            "How much the records of one unit weigh in one group at most, in a variance, std or quantile (default: 1)."
        ),
    ]
    weights: Annotated[
        Mapping[str, float] | None,
        Option(
            "name=share of the budget, relative to the count's 1, for example sum_likes=0.5.",
            flag="--weight",
            text=list[str] | None,
            expected="names of aggregates with shares, such as {'sum_likes': 0.5}",
        ),
    ]
    total: Annotated[
        bool, Option("Also publish noisy totals: all units, and those in no released group (5 % of epsilon).", False)
    ]
    mechanism: Annotated[
        str,
        Option("best, adaptive, voting, sparse-gaussian, correlated-gaussian or laplace.", "best"),
    ]
    analysis: Annotated[
        str | None,
        Option("sparse-gaussian: exact, f-dp, add-the-deltas; correlated-gaussian: tight, paper-3.5, paper-3.3."),
    ]
    objective: Annotated[
        Objective,
        Option("What to minimise: release95 (count released with 95 %), gap or noise.", "release95", text=str),
    ]
    noise_std: Annotated[float | None, Option("Fix the noise on a count and find the smallest threshold.")]
    correlation: Annotated[float | None, Option("Variance of the common noise relative to the independent noise.")]
    low_threshold: Annotated[int, Option("Groups with fewer units are dropped before noise is drawn.", 1)]
    noise: Annotated[
        Noise,
        Option("rounded: Gaussian on a fine lattice, least noise; discrete: whole counts.", "rounded", text=str),
    ]
    emphasis: Annotated[
        Emphasis,
        Option(
            "Without --max-groups: groups finds more of them, counts makes counts more precise, balanced does some of both.",
            "balanced",
            text=str,
        ),
    ]


class PlanOptions(_Budget, _Groups, _Keys, _Choices, total=False):
    """What `dphist.plan` takes."""

    no_groups: Annotated[bool, Option("Plan one row for all units: for a release without --by.", False)]
    keys_only: Annotated[bool, Option("Plan a selection of keys, without counts: for `dphist select`.", False)]


class BudgetOptions(_BudgetOrPlan, _Groups, _Keys, _Choices):
    """What a release takes in place of a plan; `keys` are read beside a plan, too."""


_BY: Final = Option(
    "A column that makes the groups, or name=SQL expression of a record. Repeatable.",
    text=list[str],
    expected="a column or a list of columns",
)
_BY_OR_NONE: Final = replace(_BY, help=f"{_BY.help} Without it all units are one row.", text=list[str] | None)


class _Records(TypedDict, total=False):
    unit: Required[
        Annotated[
            str | Sequence[str],
            Option(
                "The column that names the person protected, or an SQL expression of a record, such as lower(email)."
                " Repeated: protected is each combination of their values.",
                text=list[str],
                expected="a column, an expression or a list of them",
            ),
        ]
    ]
    where: Annotated[str | None, Option("An SQL condition on a record's own columns.")]
    null_keys: Annotated[NullKeys, Option("group: null is a group like any other; drop: drop such records.", "group")]


class ReleaseOptions(BudgetOptions, _Records, total=False):
    """What `dphist.release` takes: which records, which groups, in which form, and a budget."""

    by: Annotated[str | Sequence[str] | None, _BY_OR_NONE]
    order: Annotated[Order, Option("Rows by noisy `count` (largest first) or by `key`.", "count")]
    intervals: Annotated[float | None, Option("Add bounds that cover the noise with this probability, e.g. 0.95.")]
    integers: Annotated[bool, Option("Round counts to whole numbers.", False)]
    allow_negative: Annotated[
        bool, Option("Publish a total that noise made negative as it is; without this, as 0.", False)
    ]


class SelectBudget(_BudgetOrPlan, total=False):
    """What a selection of keys takes in place of a plan."""

    mechanism: Annotated[str, Option("best, adaptive or voting.", "best")]
    low_threshold: Annotated[int, Option("Groups with fewer units are never released.", 1)]


class SelectOptions(SelectBudget, _Records, total=False):
    """What `dphist.select` takes: which records, which groups, and a budget."""

    by: Required[Annotated[str | Sequence[str], _BY]]


class StatisticOptions(TypedDict, total=False):
    """What `dphist.stat` takes: a budget, a range and what the answer may be off by."""

    epsilon: Required[Annotated[float, Option("Privacy budget.")]]
    delta: Annotated[float, Option("Privacy budget: the probability of failure, for example 1e-8.", 1e-6)]
    lower: Annotated[float | None, Option("Public lower end; values are clamped to it.")]
    upper: Annotated[float | None, Option("Public upper end; values are clamped to it.")]
    error: Annotated[float | None, Option("The allowed error of the answer.")]
    drop: Annotated[float | None, Option("The share of records that may be disregarded, e.g. 0.005.")]
    min_records: Annotated[int | None, Option("With --drop: a public lower bound on the number of units with a value.")]
    max_records: Annotated[int, Option("The most different buckets or values that one unit may count in.", 1)]
    max_values: Annotated[int | None, Option("mode, max-k: a public bound on the number of different values.")]
    probability: Annotated[float | None, Option("quantile: which one, e.g. 0.9.")]
    k: Annotated[int | None, Option("max-k: the records that a value must have.")]
    read_as: Annotated[
        ReadAs | None,
        Option(
            "mode, max-k: read values as numbers (what is no number is left out) or as text. By default they are what the file"
            " says; CSV and JSON columns are text, which max-k does not compare unless asked to.",
            flag="--as",
            text=str | None,
            metavar="number|text",
        ),
    ]


class Declaration(NamedTuple):
    """One option as it is declared."""

    type: Any
    option: Option
    required: bool

    @property
    def expected(self) -> str:
        """What an error says that it must be."""
        return self.option.expected or _words(self.type)


@cache
def declarations(kind: type) -> dict[str, Declaration]:
    """The options of a kind by name, in the order of the command line."""
    required: frozenset[str] = kind.__required_keys__  # type: ignore[attr-defined]
    hints = get_type_hints(kind, include_extras=True)
    plain = {name: get_args(hint)[0] if get_origin(hint) is Required else hint for name, hint in hints.items()}
    return {name: Declaration(hint.__origin__, hint.__metadata__[0], name in required) for name, hint in plain.items()}


def spelled_out(kind: type) -> Callable[[F], F]:
    """Spell out the signature of a function that takes `**options: Unpack[kind]`, as help() and notebooks show it."""

    def spell(function: F) -> F:
        signature = inspect.signature(function)
        named = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        types = get_type_hints(kind)
        options = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if one.required else one.option.default,
                annotation=types[name],
            )
            for name, one in declarations(kind).items()
        ]
        required_first = sorted([*named, *options], key=lambda one: (one.kind, one.default is not one.empty))
        function.__signature__ = signature.replace(parameters=required_first)  # type: ignore[attr-defined]
        return function

    return spell


def read(kind: type[T], given: Mapping[str, Any], function: Callable[..., Any]) -> T:
    """All options of a kind: what was given to the function, checked strictly but not converted, and the other defaults."""
    declared = declarations(kind)
    for name in given:
        if name not in declared:
            raise _unknown(name, function)
    for name, one in declared.items():
        if one.required and name not in given:
            raise InvalidParameter(name, "none", one.option.help)
    _check(kind, given)
    defaults = {name: one.option.default for name, one in declared.items() if not one.required}
    options: Any = {**defaults, **given}
    return options  # type: ignore[no-any-return]


def _unknown(name: str, function: Callable[..., Any]) -> InvalidParameter:
    import difflib

    names = list(inspect.signature(function).parameters)
    near = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}."
    return InvalidParameter(f"a parameter of {function.__name__}", name, hint)


@cache
def model(kind: type) -> type["BaseModel"]:
    """The strict pydantic model of a kind of options."""
    from pydantic import ConfigDict, Field, create_model

    fields: dict[str, Any] = {
        name: (one.type, Field(... if one.required else one.option.default, description=one.option.help))
        for name, one in declarations(kind).items()
    }
    return create_model(kind.__name__, __config__=ConfigDict(strict=True, extra="forbid", frozen=True), **fields)


def _check(kind: type, given: Mapping[str, Any]) -> None:
    from pydantic import ValidationError

    try:
        model(kind)(**given)
    except ValidationError as problem:
        error = problem.errors(include_url=False)[0]
        name = str(error["loc"][0])
        raise InvalidParameter(f"{name} to be {declarations(kind)[name].expected}", _shown(error["input"])) from None


def _words(kind: Any) -> str:
    """A type in the words of an error."""
    if get_origin(kind) is Literal:
        words = get_args(kind)
        return words[0] if len(words) == 1 else f"one of {', '.join(words)}"
    inside = [_words(one) for one in get_args(kind) if one is not NoneType]
    plain = {float: "a number", int: "a whole number", bool: "true or false", str: "text"}
    return " or ".join(inside) if inside else plain[kind]


def _shown(value: object) -> str:
    """A value in an error: only what a caller may have typed. Anything larger may hold data, and is named by its type."""
    small = isinstance(value, float | bool | NoneType) or (isinstance(value, int) and value.bit_length() <= 64)
    return repr(value) if small or (isinstance(value, str) and len(value) <= 40) else type(value).__name__
