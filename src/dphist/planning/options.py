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
from dphist.planning.choices import (
    ANALYSES,
    MECHANISMS,
    OF_SELECTIONS,
    Emphasis,
    Noise,
    NullKeys,
    Objective,
    Order,
    ReadAs,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

Panel = Literal["Data", "Privacy", "What to publish", "Output", "Engine", "Advanced"]
"""The parts of `--help`, in their order."""

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Option:
    """What a declaration says beside its type.

    flag, text, metavar: how the command line spells it, where that does not follow from name and type; `text` is the type that
    is read there. expected: the words of an error, where they do not follow from the type. panel, common: where help shows it,
    and whether `--help` does or only `--help-all`. choices: the words it takes, where the type does not list them.
    """

    help: str
    default: Any = None
    flag: str = ""
    text: Any = None
    metavar: str | None = None
    expected: str = ""
    panel: Panel = "Advanced"
    common: bool = False
    choices: tuple[str, ...] = ()


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


_EPSILON: Final = Option("Privacy budget: how much one unit may change the odds.", panel="Privacy", common=True)
_DELTA: Final = Option("Privacy budget: the probability of failure, for example 1e-8.", panel="Privacy", common=True)


class _Budget(TypedDict):
    epsilon: Annotated[float, _EPSILON]
    delta: Annotated[float, _DELTA]


class _BudgetOrPlan(TypedDict, total=False):
    epsilon: Annotated[float | None, _EPSILON]
    delta: Annotated[float | None, _DELTA]


class _Groups(TypedDict, total=False):
    max_groups: Annotated[
        int | None,
        Option(
            "The most groups one unit may be counted in; without it, keys are selected first and all units counted.",
            panel="Privacy",
            common=True,
        ),
    ]
    sparsity: Annotated[int | None, Option("A public bound on the number of non-empty groups.", panel="Privacy")]


_KEYS: Final = (
    "A public list of groups, which needs no threshold: a file (one key per line, .csv, .parquet), COLUMN=a,b,1..9"
    " (repeatable: all combinations) or a SELECT from a public table."
)
_MECHANISM: Final = Option("How groups are found and counted.", "best", metavar="NAME", choices=MECHANISMS)
_LOW_THRESHOLD: Final = Option("Groups with fewer units are never released.", 1, panel="What to publish")
_KEEP_ABOVE: Final = Option(
    "Groups of so many units must not be missing (but for one in 10,000); refused with the epsilon that would do.",
    panel="What to publish",
)
_KEEP_GROUPS: Final = Option(
    "With --keep-above: for units in at most so many of the groups (10, or --max-groups).", panel="What to publish"
)


class _Keys(TypedDict, total=False):
    keys: Annotated[object, Option(_KEYS, text=list[str] | None, metavar="LIST", panel="What to publish", common=True)]


def _aggregate(words: str, flag: str, metavar: str, expected: str, *, common: bool = False) -> Option:
    """One that adds a column to the result, and may be repeated."""
    return Option(
        f"{words} Repeatable.",
        flag=flag,
        text=list[str] | None,
        metavar=metavar,
        expected=expected,
        panel="What to publish",
        common=common,
    )


_BOUNDED: Final = "COLUMN:LOWER:UPPER"


class _Choices(TypedDict, total=False):
    sparse: Annotated[bool, Option("With --keys: publish only groups above a threshold.", False)]
    sketch: Annotated[int | None, Option("Count in bounded memory with this many counters (Misra-Gries). No sums.")]
    sums: Annotated[
        _Bounds | None,
        _aggregate(
            "A sum per group; NAME=EXPRESSION for a column, auto for a bound or both (COLUMN:auto) to choose privately.",
            "--sum",
            _BOUNDED,
            _BOUNDS,
            common=True,
        ),
    ]
    means: Annotated[
        _Bounds | None,
        _aggregate("A mean per group; as --sum.", "--mean", _BOUNDED, _BOUNDS, common=True),
    ]
    variances: Annotated[
        _Bounds | None,
        _aggregate("The variance of records per group.", "--variance", _BOUNDED, _BOUNDS),
    ]
    stds: Annotated[
        _Bounds | None,
        _aggregate("The standard deviation of records per group.", "--std", _BOUNDED, _BOUNDS),
    ]
    quantiles: Annotated[
        _Quantiles | None,
        _aggregate(
            "Quantiles of records per group, such as amount:0.9:0:100 or amount:0.25,0.75:0:100; auto as in --sum.",
            "--quantile",
            "COLUMN:P:LOWER:UPPER",
            _QUANTILES,
        ),
    ]
    medians: Annotated[
        _Bounds | None,
        _aggregate("The median of records per group.", "--median", _BOUNDED, _BOUNDS),
    ]
    count_of: Annotated[
        Sequence[str] | None,
        _aggregate(
            "The units with a value in this column per group, as COUNT(column).",
            "--count-of",
            "COLUMN",
            "a list of columns",
        ),
    ]
    rows: Annotated[
        int | Auto | None,
        Option(
            "Records per group, each unit's clamped to this many; auto chooses the number privately.",
            text=str | None,
            metavar="NUMBER",
            expected="a whole number or 'auto'",
            panel="What to publish",
        ),
    ]
    distinct: Annotated[
        Mapping[str, int | Auto] | None,
        _aggregate(
            "Distinct values per group, of which a unit adds at most so many; COLUMN:auto chooses.",
            "--distinct",
            "COLUMN:MOST",
            "columns with a whole number or 'auto', such as {'url': 5}",
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
            "Share of the budget, relative to the count's 1, for example sum_likes=0.5. Repeatable.",
            flag="--weight",
            text=list[str] | None,
            metavar="NAME=SHARE",
            expected="names of aggregates with shares, such as {'sum_likes': 0.5}",
        ),
    ]
    total: Annotated[
        bool,
        Option(
            "Also publish noisy totals: all units, and those in no released group (5 % of epsilon).",
            False,
            panel="What to publish",
            common=True,
        ),
    ]
    mechanism: Annotated[str, _MECHANISM]
    analysis: Annotated[
        str | None,
        Option(
            "sparse-gaussian: exact, f-dp, add-the-deltas; correlated-gaussian: tight, paper-3.5, paper-3.3.",
            metavar="NAME",
            choices=ANALYSES,
        ),
    ]
    objective: Annotated[
        Objective,
        Option("What to minimise: release95 (count released with 95 %), gap or noise.", "release95", text=str),
    ]
    noise_std: Annotated[float | None, Option("Fix the noise on a count and find the smallest threshold.")]
    correlation: Annotated[float | None, Option("Variance of the common noise relative to the independent noise.")]
    low_threshold: Annotated[int, _LOW_THRESHOLD]
    keep_above: Annotated[int | None, _KEEP_ABOVE]
    keep_groups: Annotated[int | None, _KEEP_GROUPS]
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
    "A column that makes the groups, or NAME=EXPRESSION of a record. Repeatable.",
    text=list[str],
    metavar="COLUMN",
    expected="a column or a list of columns",
    panel="Data",
    common=True,
)


class _Records(TypedDict, total=False):
    unit: Required[
        Annotated[
            str | Sequence[str],
            Option(
                "The column that names the person protected, or an SQL expression, such as lower(email). Repeated: protected"
                " is each combination of their values.",
                text=list[str],
                metavar="COLUMN",
                expected="a column, an expression or a list of them",
                panel="Data",
                common=True,
            ),
        ]
    ]
    where: Annotated[
        str | None,
        Option("An SQL condition on a record's own columns.", metavar="CONDITION", panel="Data", common=True),
    ]
    null_keys: Annotated[
        NullKeys,
        Option("group: null is a group like any other; drop: drop such records.", "group", text=str, panel="Data"),
    ]


class ReleaseOptions(BudgetOptions, _Records, total=False):
    """What `dphist.release` takes: which records, which groups, in which form, and a budget."""

    by: Annotated[str | Sequence[str] | None, replace(_BY, text=list[str] | None)]
    order: Annotated[
        Order, Option("Rows by noisy `count` (largest first) or by `key`.", "count", text=str, panel="What to publish")
    ]
    intervals: Annotated[
        float | None,
        Option(
            "Add bounds that cover the noise with this probability, e.g. 0.95.", panel="What to publish", common=True
        ),
    ]
    integers: Annotated[bool, Option("Round counts to whole numbers.", False, panel="What to publish")]
    allow_negative: Annotated[
        bool, Option("Publish a total that noise made negative as it is; without this, as 0.", False)
    ]


class SelectBudget(_BudgetOrPlan, total=False):
    """What a selection of keys takes in place of a plan."""

    mechanism: Annotated[str, replace(_MECHANISM, choices=OF_SELECTIONS)]
    low_threshold: Annotated[int, _LOW_THRESHOLD]
    keep_above: Annotated[int | None, _KEEP_ABOVE]
    keep_groups: Annotated[int | None, _KEEP_GROUPS]


class SelectOptions(SelectBudget, _Records, total=False):
    """What `dphist.select` takes: which records, which groups, and a budget."""

    by: Required[Annotated[str | Sequence[str], _BY]]


class StatisticOptions(TypedDict, total=False):
    """What `dphist.stat` takes: a budget, a range and what the answer may be off by."""

    epsilon: Required[Annotated[float, _EPSILON]]
    delta: Annotated[float, replace(_DELTA, default=1e-6)]
    lower: Annotated[
        float | None, Option("Public lower end; values are clamped to it.", panel="What to publish", common=True)
    ]
    upper: Annotated[
        float | None, Option("Public upper end; values are clamped to it.", panel="What to publish", common=True)
    ]
    error: Annotated[float | None, Option("The allowed error of the answer.", panel="What to publish", common=True)]
    drop: Annotated[
        float | None,
        Option("The share of records that may be disregarded, e.g. 0.005.", panel="What to publish", common=True),
    ]
    min_records: Annotated[int | None, Option("With --drop: a public lower bound on the number of units with a value.")]
    max_records: Annotated[int, Option("The most different buckets or values that one unit may count in.", 1)]
    max_values: Annotated[
        int | None,
        Option("mode, max-k: a public bound on the number of different values.", panel="What to publish"),
    ]
    probability: Annotated[float | None, Option("quantile: which one, e.g. 0.9.", panel="What to publish", common=True)]
    k: Annotated[int | None, Option("max-k: the records that a value must have.", panel="What to publish")]
    read_as: Annotated[
        ReadAs | None,
        Option(
            "mode, max-k: read values as numbers (what is no number is left out) or as text. By default they are what the file"
            " says; CSV and JSON columns are text, which max-k does not compare unless asked to.",
            flag="--as",
            text=str | None,
            panel="Data",
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

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it takes, if it takes no others."""
        kinds = [one for one in (get_args(self.type) or [self.type]) if one is not NoneType]
        literal = self.type if get_origin(self.type) is Literal else kinds[0] if len(kinds) == 1 else None
        return self.option.choices or (get_args(literal) if get_origin(literal) is Literal else ())


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
def model(kind: type, names: frozenset[str] | None = None) -> type["BaseModel"]:
    """The strict pydantic model of a kind of options, or of those with these names: a model of all takes long to build."""
    from pydantic import ConfigDict, Field, create_model

    fields: dict[str, Any] = {
        name: (one.type, Field(... if one.required else one.option.default, description=one.option.help))
        for name, one in declarations(kind).items()
        if names is None or name in names
    }
    return create_model(kind.__name__, __config__=ConfigDict(strict=True, extra="forbid", frozen=True), **fields)


def _check(kind: type, given: Mapping[str, Any]) -> None:
    from pydantic import ValidationError

    try:
        model(kind, frozenset(given))(**given)
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
