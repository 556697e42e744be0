"""The tests that notice at each place of a limit that it is too large: see `mutants_of_limits`."""

from __future__ import annotations

from typing import Final

from mutants_of_mathematics import FROM_TOP_HIDDEN, RANKED

_REFUSED: Final = "tests/limits/test_refused_beyond.py::"
_CUT: Final = "tests/limits/test_cut_beyond.py::"
_HOSTILE: Final = "tests/spark/test_spark_hostile.py::test_no_more_groups_are_selected_than_the_guarantee_is_stated_for"
_JOINS: Final = "tests/engines/test_joins.py::"
_LINES: Final = "tests/engines/test_engine_lines.py::"
_SPARK_LINES: Final = "tests/spark/test_spark_locality.py::test_a_line_costs_itself_alone"


def _end(name: str) -> tuple[str, ...]:
    """The test of a parameter at both sides of its limit."""
    return (f"{_REFUSED}test_a_parameter_ends_at_its_limit[{name}]",)


def _worth(name: str) -> tuple[str, ...]:
    return (f"{_CUT}test_a_larger_epsilon_is_worth_no_more_than_samplers_are_exact_for[{name}]",)


_SHARES: Final = (f"{_CUT}test_shares_of_a_larger_epsilon_end_there_too",)
_DRAWS: Final = (f"{_REFUSED}test_more_draws_than_anybody_needs_are_refused",)
_DIGITS: Final = (f"{_REFUSED}test_a_decimal_of_a_frame_has_some_hundred_digits",)
_STATEMENTS: Final = (f"{_REFUSED}test_of_standard_input_little_more_is_read_than_statements_may_have",)
_LISTED: Final = (f"{_CUT}test_of_any_sequence_of_keys_no_more_are_taken_than_a_list_may_have",)
_OF_FILES: Final = (f"{_CUT}test_numbers_of_published_files_end_where_those_of_plans_do",)
_APART: Final = (f"{_CUT}test_who_examines_a_file_has_so_much_time_and_memory",)
_ADDED: Final = (f"{_CUT}test_values_of_any_size_are_cut_before_they_are_added_up",)
_SATURATED: Final = ("tests/engines/test_engine_oracle.py::test_the_saturated_sum_of_the_plan",)
_TOTALS: Final = (f"{_CUT}test_sums_of_sums_of_values_of_any_size_end_at_the_largest",)
_NOISY_SUMS: Final = ("tests/publish/test_road.py::test_sums_beyond_the_limit_saturate_before_noise",)
_EXACT: Final = ("tests/noise/test_noise_exact.py",)

TESTS: Final[dict[str, tuple[str, ...]]] = {
    "checks.py::check_budget::SMALLEST_DELTA": _end("delta of a budget"),
    "checks.py::check_budget::SMALLEST_EPSILON": _end("epsilon of a budget"),
    "checks.py::check_whole::MOST_GROUPS": _end("whole numbers"),
    "cli/ledger.py::declared_cost::LARGEST_RECORDED": _end("epsilon of what was spent elsewhere"),
    "cli/sql.py::_decoded::MOST_BYTES": _STATEMENTS,
    "cli/sql.py::read_query::MOST_BYTES-1": _STATEMENTS,
    "cli/sql.py::read_query::MOST_BYTES-2": (f"{_REFUSED}test_a_file_of_statements_has_a_length",),
    "engines/buckets.py::_sums::LARGEST_RECORD-1": _ADDED,
    "engines/buckets.py::_sums::LARGEST_RECORD-2": _ADDED,
    "engines/derived.py::_join::LONGEST_JOINED": (f"{_JOINS}test_steps_and_keys_behind_a_join_are_short[duckdb]",),
    "engines/derived.py::_join::MOST_ROWS": ("tests/engines/test_joins.py::test_a_limit_that_nobody_gives",),
    "engines/derived.py::_shortened::LONGEST_JOINED": (
        f"{_JOINS}test_texts_of_a_row_behind_a_join_are_short_together[duckdb]",
    ),
    "engines/duckdb/distinct.py::_elect::MOST_RELEASED": (f"{_CUT}test_an_election_has_room_for_so_many_values",),
    "engines/duckdb/expressions.py::Steps.add::_MOST_LEVELS": _end("levels of an expression"),
    "engines/duckdb/expressions.py::Steps.__init__::LONGEST_KEY": (f"{_CUT}test_a_long_step_is_null",),
    "engines/duckdb/pairs.py::DuckDBPairs._number_groups::MOST_RELEASED": (
        f"{_CUT}test_codes_have_room_for_so_many_units",
    ),
    "engines/duckdb/session.py::leave_room::LEAST": (f"{_CUT}test_the_engine_keeps_what_it_needs",),
    "engines/duckdb/types.py::column::LONGEST_KEY": (f"{_CUT}test_a_long_text_is_null",),
    "engines/duckdb/types.py::guarded::LONGEST_LIST": (f"{_CUT}test_a_long_list_is_null",),
    "engines/parser.py::_node::LONGEST_NUMBER": _end("digits in an expression"),
    "engines/parser.py::read_expression::LONGEST_EXPRESSION": _end("letters of an expression"),
    "engines/parser.py::read_expression::_MOST_BRACKETS": _end("brackets of an expression"),
    "engines/frames.py::_number::_MOST_DIGITS-1": _DIGITS,
    "engines/frames.py::_number::_MOST_DIGITS-2": _DIGITS,
    "engines/functions.py::module::WIDEST": ("tests/engines/test_functions.py::test_literals_are_checked",),
    "engines/lines.py::_as_lines::LONGEST_LINE": (
        f"{_LINES}test_no_other_record_decides_whether_a_record_of_any_length_stays",
    ),
    "engines/lines.py::_odd_lines::LONGEST_LINE": (f"{_LINES}test_a_long_line_costs_itself",),
    "engines/lines.py::_separate::LONGEST_LINE": (f"{_LINES}test_a_long_line_costs_itself",),
    "engines/lines.py::first_line::LONGEST_LINE-2": (f"{_CUT}test_the_names_of_columns_are_as_long_as_a_line_may_be",),
    "engines/literals.py::format_of.check::LONGEST_FORMAT": _end("bytes of a format"),
    "engines/literals.py::pattern.check::LONGEST_PATTERN": _end("bytes of a pattern"),
    "engines/literals.py::pattern.check::MOST_REPEATS": _end("repeats in a pattern"),
    "engines/literals.py::short.check::LONGEST_REPLACEMENT": _end("bytes of a replacement"),
    "engines/query.py::Files.__post_init__::_MOST_NULLS-1": _end("texts that mean null"),
    "engines/query.py::Files.__post_init__::_MOST_NULLS-2": _end("letters that mean null"),
    "engines/query.py::PerformanceSettings.__post_init__::LEAST_MEMORY": _end("least memory"),
    "engines/query.py::PerformanceSettings.__post_init__::MOST_THREADS": _end("threads"),
    "engines/query.py::_bytes_of::MOST_MEMORY": _end("memory"),
    "engines/query.py::_type_named::_MOST_DIGITS": _end("digits of a type"),
    "engines/query.py::memory_beside_python::LEAST_PROCESS": _end("least memory of a command"),
    "engines/spark/pairs.py::SparkPairsByUnit.norm_histogram::MOST_RELEASED-2": (f"{_HOSTILE}[groups]",),
    "engines/spark/pairs.py::pairs_of::MOST_RELEASED-2": (f"{_HOSTILE}[units]",),
    "engines/spark/sources.py::fields_of::LONGEST_LINE": (
        f"{_CUT}test_a_line_in_another_encoding_is_as_long_as_in_utf_8",
    ),
    "engines/spark/sources.py::module::LONGEST_LINE": (_SPARK_LINES,),
    "engines/spark/types.py::_is_short::LONGEST_KEY": (f"{_CUT}test_what_spark_takes_for_short",),
    "engines/spark/types.py::guarded::LONGEST_KEY": (f"{_CUT}test_what_spark_takes_for_short",),
    "engines/spark/types.py::short::LONGEST_KEY": (f"{_CUT}test_what_spark_takes_for_short",),
    "engines/sql.py::_totals::LARGEST_RECORD-1": _ADDED,
    "engines/sql.py::_totals::LARGEST_RECORD-2": _ADDED,
    "engines/sql.py::saturated::LARGEST_SUM-1": _SATURATED,
    "engines/sql.py::saturated::LARGEST_SUM-2": _SATURATED,
    "engines/sums.py::exact_total::LARGEST-1": _TOTALS,
    "engines/sums.py::exact_total::LARGEST-2": _TOTALS,
    "flexible/bucketing.py::Buckets.__post_init__::MOST_BUCKETS": _end("buckets"),
    "flexible/bucketing.py::Grid.__post_init__::MOST_BUCKETS": _end("buckets of an axis"),
    "flexible/bucketing.py::check_range::SMALLEST_ERROR_IN_ULPS": _end("error of a statistic"),
    "ledger/dataset.py::DataSet.__post_init__::LARGEST_EPSILON": _end("epsilon of a data set"),
    "ledger/ledger.py::_append::MOST_BODY": (
        "tests/ledger/test_ledger.py::test_what_could_not_be_read_back_is_not_written",
    ),
    "ledger/ledger.py::_entry::MOST_BODY": ("tests/ledger/test_ledger.py::test_a_damaged_body_is_told",),
    "lists/running.py::RunningCounts._past::_MOST_BYTES": (
        "tests/unknown_domain/test_continual.py::test_what_a_round_released_is_kept_for_the_report",
    ),
    "measures.py::Measure.__post_init__::LARGEST_WEIGHT-1": _end("least weight"),
    "measures.py::Measure.__post_init__::LARGEST_WEIGHT-2": _end("weight"),
    "measures.py::Measure.__post_init__::MOST_RECORDS-1": _end("distinct values"),
    "measures.py::Measure.__post_init__::MOST_RECORDS-2": _end("records of a unit"),
    "ledger/accountant.py::price::LARGEST_EPSILON-1": (
        f"{_REFUSED}test_without_another_budget_a_cost_is_for_the_largest",
    ),
    "ledger/accountant.py::price::LARGEST_EPSILON-2": _end("epsilon of a composition"),
    "measures.py::Measure.__post_init__::MOST_STEPS": _end("steps of a sum"),
    "mechanisms/adaptive.py::AdaptiveGaussian.require_drawable::LARGEST_SCALE": _end("noise of rounds"),
    "mechanisms/base.py::add_noise::LARGEST_COUNT": (f"{_CUT}test_counts_end_at_a_public_limit",),
    "mechanisms/base.py::check_correlation::LEAST_CORRELATION": _end("least correlation"),
    "mechanisms/base.py::check_correlation::MOST_CORRELATION": _end("correlation"),
    "mechanisms/base.py::check_lattice::MOST_LATTICE_BITS": _end("lattice bits"),
    "mechanisms/base.py::tree_surcharge::LARGEST_EPSILON": _worth("trees"),
    "mechanisms/base.py::with_sampler_error::LARGEST_EPSILON": _worth("samplers"),
    "mechanisms/continual.py::ContinualCounts.__post_init__::MOST_ROUNDS": _end("rounds"),
    "mechanisms/continual.py::ContinualCounts.most_per_round::LARGEST_RUNNING_COUNT": (
        f"{_CUT}test_counts_of_a_stream_fit_into_all_rounds_together",
    ),
    "mechanisms/continual.py::calibrate::LARGEST_EPSILON": _worth("stream"),
    "mechanisms/correlated_top_k.py::CorrelatedTopK.perturb::LARGEST_COUNT": (
        f"{_CUT}test_counts_of_a_list_end_there_too",
    ),
    "mechanisms/correlated_top_k.py::calibrate::LARGEST_EPSILON": _worth("correlated top-k"),
    "mechanisms/counts.py::CountNoise.require_drawable::LARGEST_SCALE-1": _end("noise of a sum"),
    "mechanisms/counts.py::CountNoise.require_drawable::LARGEST_SCALE-2": _end("noise of a histogram"),
    "mechanisms/counts.py::CountNoise.require_drawable::MOST_SUM_STEPS": _end("steps of a sum after rounds"),
    "mechanisms/discrete_correlated.py::calibrate::LARGEST_EPSILON": _worth("discrete halves"),
    "mechanisms/discrete_gaussian.py::calibrate::LARGEST_EPSILON": _worth("discrete"),
    "mechanisms/from_top.py::FromTop.perturb::LARGEST_COUNT": (FROM_TOP_HIDDEN,),
    "mechanisms/from_top.py::calibrate::LARGEST_EPSILON": _worth("from-top"),
    "mechanisms/known_laplace.py::KnownLaplace.perturb_part::LARGEST_COUNT": ("tests/mechanisms/test_listed.py",),
    "mechanisms/ranked.py::Ranked.choose::LARGEST_COUNT": (RANKED,),
    "mechanisms/ranked.py::calibrate::LARGEST_EPSILON": _worth("ranked"),
    "mechanisms/truncated_laplace.py::TruncatedLaplace.__post_init__::LARGEST_Q": _end("q of a truncated law"),
    "mechanisms/truncated_laplace.py::TruncatedLaplace.for_budget::LARGEST_EPSILON": _worth("bars"),
    "mechanisms/voting.py::calibrate::LARGEST_EPSILON": _worth("election"),
    "noise/enclosure.py::bernoulli_exp::LARGEST_SAMPLE": _DRAWS,
    "noise/exact.py::add_exactly::LARGEST_NOISY-1": _EXACT,
    "noise/exact.py::add_exactly::LARGEST_NOISY-2": _EXACT,
    "noise/exact.py::sample_exactly::LARGEST_SAMPLE": _DRAWS,
    "noise/exponential.py::exponential_top_k::LARGEST_COEFFICIENT": _end("coefficient"),
    "noise/exponential.py::exponential_top_k::LARGEST_SAMPLE": _DRAWS,
    "noise/exponential.py::exponential_top_k::LARGEST_UTILITY-1": _end("utility"),
    "noise/exponential.py::exponential_top_k::LARGEST_UTILITY-2": _end("least utility"),
    "noise/laws.py::DiscreteGaussian.__post_init__::LARGEST_SCALE": _end("variance"),
    "noise/laws.py::DiscreteGaussian.__post_init__::SMALLEST_SCALE": _end("least variance"),
    "noise/laws.py::RoundedGaussian.__post_init__::LARGEST_LATTICE_BITS": _end("lattice bits of noise"),
    "noise/laws.py::TruncatedDiscreteLaplace.__post_init__::LARGEST_SCALE": _end("least epsilon of truncated noise"),
    "noise/laws.py::TruncatedDiscreteLaplace.__post_init__::LARGEST_TRUNCATION": _end("q of truncated noise"),
    "noise/laws.py::TruncatedDiscreteLaplace.__post_init__::SMALLEST_SCALE": _end("epsilon of truncated noise"),
    "noise/laws.py::_check_scale::LARGEST_SCALE-1": _end("scale"),
    "noise/laws.py::_check_scale::SMALLEST_SCALE": _end("least scale"),
    "noise/sampling.py::sample::LARGEST_SAMPLE": _DRAWS,
    "noise/tails.py::log_max_tail::_LARGEST_COUNT-1": _end("least t of a largest noise"),
    "noise/tails.py::log_max_tail::_LARGEST_COUNT-2": _end("t of a largest noise"),
    "noise/tails.py::log_max_tail::_LARGEST_COUNT-3": _end("noises with a largest"),
    "noise/tails.py::log_sum_tail::_MOST_TERMS": _end("terms of a sum of noises"),
    "planning/request.py::Request.__post_init__::MOST_MEASURES": _end("sums"),
    "planning/request.py::Request.__post_init__::MOST_QUANTILES": _end("quantiles"),
    "planning/request.py::Request.bounds_epsilon::LARGEST_EPSILON": _SHARES,
    "planning/request.py::Request.choice_epsilon::LARGEST_EPSILON": _SHARES,
    "planning/request.py::Request.mechanism_epsilon::LARGEST_EPSILON": _worth("bounded"),
    "planning/request.py::Request.total_scale::LARGEST_EPSILON": _SHARES,
    "planning/storage.py::_check_number::MOST_OF_A_KIND": _end("mechanisms of a plan"),
    "privacy/composition.py::PrivacyCost.__post_init__::LARGEST_COST": _end("a cost"),
    "privacy/events.py::_Event.__post_init__::LARGEST_COST": _end("a number of an event"),
    "privacy/truncated_laplace.py::check_bars::MOST_BARS": _end("bars"),
    "privacy/truncated_laplace.py::smallest_q::LARGEST_Q": _end("q of a smallest q"),
    "privacy/voting.py::_growth::LARGEST_EPSILON": _SHARES,
    "privacy/voting.py::release_probabilities::MOST_VOTES": (
        f"{_CUT}test_a_rule_has_no_more_votes_than_anybody_needs",
    ),
    "publish/bounds.py::bounds::LARGEST_EPSILON": _end("epsilon of bounds"),
    "publish/bounds.py::bounds::SMALLEST_EPSILON": _end("least epsilon of bounds"),
    "publish/heads.py::_newest::MOST_FILES": (f"{_CUT}test_the_newest_files_of_a_folder_are_looked_at",),
    "publish/keys.py::_column::MOST_KEYS-1": _LISTED,
    "publish/keys.py::_column::MOST_KEYS-2": _LISTED,
    "publish/keys.py::_column::MOST_KEYS-3": _LISTED,
    "publish/keys.py::_product::MOST_KEYS": _LISTED,
    "publish/keys.py::_query::MOST_KEYS-2": _LISTED,
    "publish/sizing.py::chosen_from::MOST_RECORDS": (
        "tests/publish/test_distinct_release.py::test_a_chosen_bound_is_never_above_the_public_limit",
    ),
    "publish/table.py::noisy_sums::LARGEST_SUM-1": _NOISY_SUMS,
    "publish/table.py::noisy_sums::LARGEST_SUM-2": _NOISY_SUMS,
    "publish/totals.py::noisy_units::LARGEST_COUNT": (
        f"{_CUT}test_more_people_than_there_are_count_as_the_public_limit",
    ),
    "quantiles.py::Tree.__post_init__::MOST_HEIGHT": _end("height of a tree"),
    "quantiles.py::Tree.__post_init__::MOST_RECORDS": _end("records in a tree"),
    "quantiles.py::noisy_quantiles::MOST_QUANTILES": (f"{_CUT}test_so_many_quantiles_are_read_off_one_tree",),
    "selection/counting.py::Classes.most_in_trees::LARGEST_CAP": (
        f"{_CUT}test_a_unit_is_in_so_many_trees_of_selected_groups",
    ),
    "selection/counting.py::choose_classes::LARGEST_CAP": (
        "tests/counts/test_counting_bounds.py::test_classes_are_octaves_below_the_largest_bound",
    ),
    "sql/aggregates.py::Aggregates._probabilities::MOST_BOUNDARIES": _end("boundaries of quantiles"),
    "sql/expressions.py::Expressions.counted::MOST_RELATIONS": _end("tables of a statement"),
    "sql/options.py::_delta::LARGEST_DELTA": (f"{_CUT}test_a_delta_of_one_is_the_largest_below",),
    "sql/parse.py::_check_text::LONGEST_STATEMENT": _end("characters of a statement"),
    "sql/parse.py::_check_text::_DEEPEST": _end("brackets of a statement"),
    "stored.py::_finite::_MOST_LETTERS": _end("letters of a stored number"),
    "stored.py::_short::_MOST_DIGITS": _end("digits of what is stored"),
    "stored.py::parse::MOST_BYTES": _end("bytes of what is stored"),
    "stored.py::parse::MOST_DEPTH": _end("depth of what is stored"),
    "stored.py::read_file::MOST_BYTES": (f"{_REFUSED}test_of_a_file_little_more_is_read_than_it_may_have",),
    "verification/isolated.py::_limit::_LEAST_MEMORY": _APART,
    "verification/isolated.py::_limit::_LEAST_SECONDS": _APART,
    "publish/record.py::AnswerRecord::_MOST": (f"{_CUT}test_an_answer_has_so_many_private_tables",),
    "publish/record.py::StreamRecord::MOST_GROUPS": _OF_FILES,
    "publish/record.py::TopKRecord::MOST_GROUPS": _OF_FILES,
    "verification/of_release.py::_check_quantiles::_LEAST_ERROR": (
        "tests/publish/test_quantile_release.py::test_quantiles_that_no_tree_gives_are_not_verified",
    ),
}
"""The tests that notice at each use, which a limit twice as large passes."""


_NULL: Final = ("tests/engines/test_engine_bounding.py::test_what_a_guard_rules_out_is_null_and_ends_no_run",)
_LISTED_GUARDS: Final = ("tests/engines/test_functions.py::test_the_document_lists_the_same",)

GUARDS: Final[dict[str, tuple[str, ...]]] = {
    "replace of 3": _LISTED_GUARDS,
    "chr of 1": _LISTED_GUARDS,
    "string_split str_split split string_to_array of 2": _LISTED_GUARDS,
    "split_part of 3": _NULL,
    "regexp_replace of 4": _LISTED_GUARDS,
    "time_bucket of 2": _NULL,
    "to_timestamp of 1": _LISTED_GUARDS,
    "make_timestamp of 1": _LISTED_GUARDS,
    "epoch_ms make_timestamp_ms of 1": _LISTED_GUARDS,
    "make_date of 3": _LISTED_GUARDS,
    "make_timestamp of 6": _LISTED_GUARDS,
}
"""The tests that notice where a function is called without its guard."""


_DISTINCT: Final = "tests/engines/test_distinct.py::"
_ONE_UNIT_LESS: Final = (f"{_DISTINCT}test_one_unit_less_takes_away_at_most_so_many_values_of_its_own_groups",)
_CROWDS: Final = f"{_DISTINCT}test_crowds_are_served_as_the_loop_serves_them"
_SAMPLED: Final = ("tests/engines/test_engine_pairs.py::test_each_unit_samples_as_many_of_its_groups_as_it_may",)
_OF_BINS: Final = "tests/engines/test_engine_bins.py::test_without_a_bound_a_unit_takes_part_in_so_many_selected_groups"
_CUT_ON_SPARK: Final = ("tests/spark/test_spark_laws.py::test_more_groups_than_the_sparsity_are_cut_on_spark",)
_SKETCHED: Final = (
    "tests/spark/test_spark_engine.py::test_a_tree_of_sketches_keeps_neighbours_close_and_states_its_error",
)

BOUNDS: Final[dict[str, tuple[str, ...]]] = {
    "engines/distinct.py::contested_sql::most": (f"{_CROWDS}[duckdb]",),
    "engines/distinct.py::light_sql::most": _ONE_UNIT_LESS,
    "engines/distinct.py::valued_sql::bounds.max_groups": _ONE_UNIT_LESS,
    "engines/duckdb/pairs.py::DuckDBPairs.bins_of::most": (f"{_OF_BINS}[duckdb]",),
    "engines/duckdb/pairs.py::DuckDBPairs.histogram::bounds.max_groups": (
        "tests/adaptive/test_adaptive_release.py::test_the_plain_histogram_of_the_pairs_is_bounded",
    ),
    "engines/duckdb/pairs.py::DuckDBPairs.sampled::most_groups-1": _SAMPLED,
    "engines/duckdb/pairs.py::DuckDBPairs.sampled::most_groups-2": _SAMPLED,
    "engines/duckdb/pairs.py::DuckDBPairs.sampled::most_groups-3": _SAMPLED,
    "engines/joins.py::limited_sql::most": (
        "tests/engines/test_joins.py::test_rows_with_several_partners_become_so_many_of_one_unit",
    ),
    "engines/joins.py::together::most": (f"{_JOINS}test_texts_of_a_row_behind_a_join_are_short_together[duckdb]",),
    "engines/spark/groups.py::SparkGroups.less_next_largest::most": _CUT_ON_SPARK,
    "engines/spark/groups.py::SparkGroups.less_next_largest::most + 1": _CUT_ON_SPARK,
    "engines/spark/pairs.py::SparkPairs.sampled::most_groups": (
        "tests/spark/test_spark_engine.py::test_every_set_of_groups_is_kept_equally_often",
    ),
    "engines/spark/pairs.py::with_bins_sql::most": (f"{_OF_BINS}[spark]",),
    "engines/spark/sketch.py::_reduced::sparsity": _SKETCHED,
    "engines/spark/sketch.py::_reduced::sparsity + 1": _SKETCHED,
    "engines/sql.py::histogram_sql::bounds.max_groups": (
        "tests/engines/test_engine_bounding.py::"
        "test_one_unit_moves_few_groups_and_each_by_no_more_than_its_sensitivity[duckdb]",
    ),
    "engines/sql.py::histogram_sql::largest": (f"{_CUT}test_no_more_groups_are_brought_than_are_asked_for",),
}
"""The tests that notice one group or value more than a unit is bounded to."""

CLAMPS: Final[dict[str, tuple[str, ...]]] = {
    "engines/buckets.py::_sums::clamped": _ADDED,
    "engines/sql.py::_steps::clamped-2": (
        "tests/engines/test_engine_bounding.py::"
        "test_one_unit_moves_few_groups_and_each_by_no_more_than_its_sensitivity[duckdb]",
    ),
    "engines/sql.py::_totals::clamped-1": (f"{_CUT}test_each_value_is_clamped_before_those_of_a_unit_are_added_up",),
    "engines/sql.py::_totals::clamped-2": _ADDED,
    "engines/sql.py::bin_sql::clamped": (
        "tests/engines/test_engine_bins.py::test_listed_groups_without_records_have_no_bins[duckdb]",
    ),
    "engines/sums.py::exact_total::clamped": _TOTALS,
}
"""The tests that notice where a number is not clamped."""

WHOLE: Final = ("tests/limits/test_whole_numbers.py",)
CHECKED: Final = frozenset({
    'cli/options.py::_check_rows::"--show"', 'cli/profile.py::build::"low_threshold"', 'cli/profile.py::build::"sparsity"',
    'engines/base.py::check_sketch::"sparsity"', 'engines/query.py::PerformanceSettings.__post_init__::"threads"',
    'flexible/statistics.py::own_function::"q"', "flexible/statistics.py::own_function::name",
    'flexible/plan.py::_check_extras::"k"', 'flexible/plan.py::_check_share::"max_values"',
    'flexible/plan.py::_check_share::"min_records"', 'flexible/statistics.py::max_k::"k"',
    'histogram.py::ContributionBounds.__post_init__::"max_groups"',
    'histogram.py::ContributionBounds.__post_init__::"sparsity"', 'histogram.py::largest_groups::"most"',
    'ledger/dataset.py::recommend::"the number of releases"', 'lists/session.py::Account.reserve::"k"',
    "lists/session.py::Session.start::name", 'measures.py::Measure.__post_init__::"records"',
    'mechanisms/base.py::check_lattice::"lattice_bits"',
    'mechanisms/continual.py::ContinualCounts.__post_init__::"max_groups"',
    'mechanisms/continual.py::ContinualCounts.__post_init__::"rounds"',
    'mechanisms/continual.py::ContinualCounts.__post_init__::"threshold"',
    'mechanisms/continual.py::calibrate::"max_groups"', 'mechanisms/continual.py::calibrate::"rounds"',
    'mechanisms/correlated_gaussian.py::CorrelatedGaussian.__post_init__::"low_threshold"',
    'mechanisms/correlated_gaussian.py::CorrelatedGaussian.__post_init__::"max_groups"',
    'mechanisms/correlated_gaussian.py::CorrelatedGaussian.__post_init__::"sparsity"',
    'mechanisms/correlated_top_k.py::CorrelatedTopK.__post_init__::"k"', 'mechanisms/correlated_top_k.py::calibrate::"k"',
    'mechanisms/discrete_correlated.py::DiscreteCorrelatedGaussian.__post_init__::"low_threshold"',
    'mechanisms/discrete_correlated.py::DiscreteCorrelatedGaussian.__post_init__::"sparsity"',
    'mechanisms/discrete_gaussian.py::DiscreteGaussianThreshold.__post_init__::"low_threshold"',
    'mechanisms/discrete_gaussian.py::DiscreteGaussianThreshold.__post_init__::"max_groups"',
    'mechanisms/from_top.py::FromTop.__post_init__::"max_groups"',
    'mechanisms/from_top.py::FromTop.__post_init__::"max_per_group"',
    'mechanisms/from_top.py::FromTop.__post_init__::"most_groups"',
    'mechanisms/from_top.py::FromTop.__post_init__::"threshold"',
    'mechanisms/known_groups.py::ListedGroups._check_groups::"max_groups"',
    'mechanisms/known_groups.py::ListedGroups._check_groups::"the number of public keys"',
    'mechanisms/laplace.py::LaplaceThreshold.__post_init__::"low_threshold"',
    'mechanisms/laplace.py::LaplaceThreshold.__post_init__::"max_groups"',
    'mechanisms/ranked.py::Ranked.__post_init__::"threshold"', "mechanisms/ranked.py::Ranked.__post_init__::field",
    'mechanisms/records.py::_check::"max_groups"', 'mechanisms/records.py::_check::"max_per_group"',
    'mechanisms/sparse_gaussian.py::SparseGaussian.__post_init__::"low_threshold"',
    'mechanisms/sparse_gaussian.py::SparseGaussian.__post_init__::"max_groups"',
    "mechanisms/tuning.py::Tuning.__post_init__::name", 'mechanisms/voting.py::Voting.__post_init__::"capacity"',
    'mechanisms/voting.py::Voting.__post_init__::"low_threshold"', 'planning/plan.py::_request::"rows"',
    'planning/request.py::Request.__post_init__::"low_threshold"', "planning/request.py::Request.__post_init__::name",
    'planning/top_k.py::plan_top_k::"k"', 'planning/top_k.py::plan_top_k::"max_groups"',
    'planning/top_k.py::plan_top_k::"shortlist"', 'publish/charge.py::Receipt.__post_init__::"the entry of a ledger"',
    'show/view.py::View.plot::"most"', "quantiles.py::Tree.__post_init__::name",
    'sketch.py::MisraGries.__init__::"sparsity"',
})  # fmt: skip
"""Where a whole number is checked: each place has its line in the tables of that file."""
