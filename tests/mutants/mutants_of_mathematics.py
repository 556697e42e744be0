"""Bugs in what is proved and drawn: privacy, noise, mechanisms, aggregates, selection, planning, flexible accuracy."""

from __future__ import annotations

from itertools import chain
from typing import Final

from mutants import Mutant


def in_file(file: str, *bugs: tuple[str, str, str, str, str]) -> tuple[Mutant, ...]:
    """Some bugs of one file: name, old text, new text, what it breaks, and the test that must notice."""
    return tuple(Mutant(name, file, old, new, breaks, (test,)) for name, old, new, breaks, test in bugs)


# The laws of what is drawn.
_LAWS = "tests/publish/test_drawn_laws.py::"
PUBLISHED = _LAWS + "test_what_is_published_is_the_exact_value_and_noise_of_its_own"
BUDGET = _LAWS + "test_the_noise_that_is_drawn_meets_the_budget"
HIDDEN = _LAWS + "test_a_group_exactly_at_the_threshold_stays_hidden"
_ADAPTIVE = "tests/adaptive/test_adaptive_laws.py::"
ROUNDS = _ADAPTIVE + "test_every_round_noises_every_eligible_group_with_its_own_law"
COUNTED = _ADAPTIVE + "test_norms_counts_and_sums_are_exact_values_and_noise_of_their_own"
COSTS_OF_ROUNDS = _ADAPTIVE + "test_everything_that_is_drawn_costs_what_the_plan_says"
ALONE = _ADAPTIVE + "test_a_group_of_one_unit_is_selected_as_rarely_as_is_paid_for"
CHOICE = _ADAPTIVE + "test_a_choice_is_noised_and_paid_for"
_LISTS = "tests/unknown_domain/test_drawn_lists.py::"
FROM_TOP = _LISTS + "test_from_top_noises_the_threshold_and_every_count"
FROM_TOP_HIDDEN = _LISTS + "test_from_top_hides_a_count_exactly_at_the_noisy_threshold"
FROM_TOP_COSTS = _LISTS + "test_from_top_costs_what_its_noise_does"
TOP_K = _LISTS + "test_correlated_top_k_noises_base_and_counts_and_shares_one_noise"
TOP_K_HIDDEN = _LISTS + "test_correlated_top_k_hides_a_residual_exactly_at_the_threshold"
TOP_K_COSTS = _LISTS + "test_correlated_top_k_costs_what_its_noise_does"
RANKED = _LISTS + "test_ranked_choices_are_what_they_cost"
STREAM = _LISTS + "test_a_node_of_a_stream_has_the_noise_it_costs"

# The theorems, and what a plan refuses.
_MECHANISMS = "tests/mechanisms/test_mechanisms.py::"
LAPLACE_LAW = _MECHANISMS + "test_laplace_law_enumerated"
LAPLACE_PURE = _MECHANISMS + "test_laplace_with_aggregates_spends_epsilon_exactly"
DISCRETE_LAW = _MECHANISMS + "test_discrete_gaussian_law_enumerated"
HALVES_LAW = _MECHANISMS + "test_discrete_correlated_noise_enumerated"
HALVES_CALIBRATION = _MECHANISMS + "test_discrete_correlated_calibration"
SPARSITY = "tests/publish/test_release.py::test_sparsity_is_enforced_not_trusted"
SPARSITY_FIRST = _MECHANISMS + "test_sparsity_is_enforced_before_small_counts_are_dropped"
SAMPLERS = _MECHANISMS + "test_the_samplers_of_all_counters_count_under_common_noise"
ROUNDED_UP = _MECHANISMS + "test_thresholds_round_up"
IMPOSSIBLE = _MECHANISMS + "test_impossible_parameters_are_refused"
_COSTS = "tests/mechanisms/test_costs.py::"
COST_FORMULAS = _COSTS + "test_formulas"
FACETS = _COSTS + "test_no_facet_claims_less_than_the_mechanism_itself_has"
PURE_PARTS = _COSTS + "test_pure_parts_are_added"
SAMPLER_PAID = _COSTS + "test_the_sampler_is_paid_at_the_epsilon_of_the_whole_budget"
_PLANS = "tests/planning/test_plan.py::"
CHANGED = _PLANS + "test_a_plan_that_was_changed_is_refused"
OTHERS_CHANGED = _PLANS + "test_other_mechanisms_are_checked_too"
LAST_BIT = "tests/adaptive/test_adaptive_release.py::test_aggregates_are_paid_for_to_the_last_bit"
_LEMMAS = "tests/adaptive/test_adaptive_theory.py::"
LEMMAS = _LEMMAS + "test_the_lemmas_are_the_formulas"
CALIBRATED = _LEMMAS + "test_calibrated_means_the_forward_map_holds"
_H = "tests/adaptive/test_adaptive_hypotheses.py::"
_SUMS = "tests/privacy/test_adding_up.py::"
_GSHM = "tests/privacy/test_sparse_gaussian.py::"
_CSH = "tests/privacy/test_correlated_gaussian.py::"
_TAILS = "tests/noise/test_noise_tails.py::"
_TABLES = "tests/noise/test_noise_tables.py::"
_SAMPLING = "tests/noise/test_noise_sampling.py::"
_ENTROPY = "tests/noise/test_noise_entropy.py::"
_TRUNCATED = "tests/privacy/test_truncated_laplace.py::"
_GOLDEN = "tests/unknown_domain/test_golden.py::"

AGGREGATES: Final = in_file(
    "aggregates.py",
    ("sensitivity-rounded-down", "return math.ceil(max(self.upper", "return math.floor(max(self.upper",
     "a unit moves a sum by more than its sensitivity", _PLANS + "test_quantised_values_never_exceed_the_sensitivity"),
    ("sensitivity-of-the-near-bound", "math.ceil(max(self.upper - self.centre", "math.ceil(min(self.upper - self.centre",
     "the bound far from the centre decides the sensitivity", "tests/histogram/test_histogram.py::test_the_far_bound_decides"),
    ("mean-not-cut", "values = np.clip(means, self.aggregate.lower, self.aggregate.upper)", "values = means",
     "a mean lies in its bounds", "tests/histogram/test_histogram.py::test_a_mean_is_cut_to_its_bounds"),
    ("laplace-std-without-root", "return math.sqrt(2) * float(self.law.scale)", "return float(self.law.scale)",
     "the std that is told is that of the law", _PLANS + "test_laplace_aggregates_spend_epsilon"),
    ("squares-forgotten", "total += (noisy.aggregate.sensitivity_steps / noisy.law.std) ** 2",
     "total += noisy.aggregate.sensitivity_steps / noisy.law.std",
     "Gaussian budgets add up in squares", LAST_BIT),
    ("sums-epsilon-halved", "total += noisy.aggregate.sensitivity_steps / noisy.law.scale",
     "total += noisy.aggregate.sensitivity_steps / (2 * noisy.law.scale)",
     "the sums' epsilon is that of their noise", _PLANS + "test_a_pure_epsilon_is_compared_exactly"),
    ("centre-anywhere", "if not self.lower <= self.centre <= self.upper:", "if False:",
     "values lie around the centre", "tests/histogram/test_histogram.py::test_measures_are_checked"),
    ("record-step-rounded-down", "ceiling = exponent - 1 if mantissa == 0.5 else exponent", "ceiling = exponent - 1",
     "sums of records fit the integers", "tests/histogram/test_histogram.py::test_the_lattice_of_records"),
)  # fmt: skip

BASE: Final = in_file(
    "mechanisms/base.py",
    ("count-without-noise", "noisy += sample(law, len(counts), entropy)", "sample(law, len(counts), entropy)",
     "every count has noise", PUBLISHED + "[sparse]"),
    ("one-noise-for-all-counts", "noisy += sample(law, len(counts), entropy)", "noisy += sample(law, 1, entropy)",
     "groups have independent noise", PUBLISHED + "[sparse]"),
    ("shared-noise-not-added", "noisy += shared", "noisy += 0", "correlated noise has its common part", PUBLISHED + "[correlated]"),
    ("count-not-saturated", "np.minimum(counts, LARGEST_COUNT) << lattice_bits", "counts << lattice_bits",
     "counts never wrap around", FROM_TOP_HIDDEN),
    ("at-the-threshold-released", "passed = noisy > int(threshold * 2**lattice_bits)", "passed = noisy >= int(threshold * 2**lattice_bits)",
     "strictly above the threshold", HIDDEN + "[sparse]"),
    ("sparsity-one-too-many", "place = len(counts) - sparsity - 1", "place = len(counts) - sparsity - 2",
     "at most `sparsity` groups stay", SPARSITY),
    ("sparsity-not-enforced", "if len(counts) <= sparsity:", "if True:", "at most `sparsity` groups stay", SPARSITY),
    ("sparsity-without-subtraction", "np.maximum(counts - np.partition(counts, place)[place], 0)",
     "np.where(counts > np.partition(counts, place)[place], counts, 0)", "one unit moves counters by at most 1", SPARSITY),
    ("sparsity-trusted", "sparse = counts if self.sparsity is None else enforce_sparsity(counts, self.sparsity)", "sparse = counts",
     "a release enforces the sparsity", SPARSITY_FIRST),
    ("shared-std-without-root", "Fraction(math.sqrt(correlation) * independent_std)", "Fraction(correlation * independent_std)",
     "the common noise has variance c s^2", BUDGET + "[correlated]"),
    ("sums-weight-multiplied", "aggregate.sensitivity / math.sqrt(aggregate.weight)", "aggregate.sensitivity * math.sqrt(aggregate.weight)",
     "less weight is more noise", BUDGET + "[sparse]"),
    ("sums-weight-without-root", "aggregate.sensitivity / math.sqrt(aggregate.weight)", "aggregate.sensitivity / aggregate.weight",
     "Gaussian budgets add up in squares", BUDGET + "[sparse]"),
    ("sums-law-in-wrong-units", "RoundedGaussian(Fraction(std) / Fraction(aggregate.step), 0)", "RoundedGaussian(Fraction(std), 0)",
     "noise is drawn in steps", BUDGET + "[sparse]"),
    ("sums-sensitivity-of-a-count", "std = self.noise_std * aggregate.sensitivity /", "std = self.noise_std * aggregate.step /",
     "noise grows with the sensitivity", BUDGET + "[sparse]"),
    ("aggregates-always-covered", "return Fraction(self.sums_sensitivity) ** 2 >= squared_sensitivity(self.noisy(aggregates))",
     "return True", "aggregates are paid for", LAST_BIT),
    ("misfit-delta", "if not delta <= request.delta:", "if False:", "a plan meets its budget", CHANGED),
    ("misfit-threshold", "if (self.threshold is None) == request.thresholded:", "if False:",
     "unknown groups have a threshold", _PLANS + "test_a_mechanism_for_another_request_is_refused"),
    ("misfit-max-groups", "elif not self.in_rounds and self.max_groups != request.groups_per_unit:", "elif False:",
     "the accounted bound is the enforced one", CHANGED),
    ("misfit-sparsity-with-max-groups", "if self.max_groups != self.sparsity or self.sparsity != request.bounded_groups:",
     "if self.sparsity != request.bounded_groups:", "subtracting moves every counter", OTHERS_CHANGED),
    ("misfit-sparsity", "if self.max_groups != self.sparsity or self.sparsity != request.bounded_groups:",
     "if self.max_groups != self.sparsity:", "the accounted sparsity is the enforced one",
     _PLANS + "test_a_mechanism_for_another_request_is_refused"),
    ("misfit-listed", "if self.sparsity is not None and request.keys is not None and self.sparsity != request.keys:", "if False:",
     "the listed keys are those accounted for", _PLANS + "test_a_mechanism_for_another_request_is_refused"),
    ("misfit-low-threshold", "if self.low_threshold is not None and self.low_threshold != request.low_threshold:", "if False:",
     "low_threshold is the one asked for", _PLANS + "test_a_mechanism_for_another_request_is_refused"),
    ("misfit-rounds", "if self.in_rounds != (request.unbounded and request.choice != \"max_groups\") and not (",
     "if False and not (", "bounded mechanisms get bounded groups", _PLANS + "test_a_mechanism_for_another_request_is_refused"),
    ("sampler-error-dropped", "return min(1.0, delta_at(capped) + sampler_surcharge(capped, changed_counters))",
     "return min(1.0, delta_at(capped))", "the sampler's own error is part of delta", SAMPLERS),
    ("sampler-epsilon-not-capped", "capped = min(epsilon, LARGEST_EPSILON)", "capped = epsilon",
     "deltas beyond the largest epsilon are those at it", SAMPLERS),
    ("sampler-error-of-a-total-dropped", "return of_pure(epsilon, sampler_surcharge(composed_epsilon, 1))", "return of_pure(epsilon)",
     "the sampler's own error is part of every cost", PURE_PARTS),
    ("pure-parts-not-added", "return together([main, *(pure_cost(epsilon, composed_epsilon) for epsilon in pure)]) if pure else main",
     "return main", "a total and a choice are charged", PURE_PARTS),
    ("rho-of-one-group", "rho = groups * math.fsum(", "rho = math.fsum(", "every group of a unit costs", COST_FORMULAS),
    ("mu-of-one-group", "mu = math.sqrt(groups) * math.hypot(", "mu = math.hypot(", "every group of a unit costs", COST_FORMULAS),
    ("threshold-rounded-down", "math.ceil(Fraction(value) * 2**lattice_bits)", "math.floor(Fraction(value) * 2**lattice_bits)",
     "thresholds are rounded up", ROUNDED_UP),
    ("sums-epsilon-to-nearest", "return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)", "return nearest",
     "what is accounted is rounded up", "tests/mechanisms/test_accounting.py::test_what_is_accounted_is_rounded_up"),
    ("threshold-below-the-low-one", "if threshold < low_threshold:", "if False:", "the gap is not negative", IMPOSSIBLE),
    ("threshold-off-the-lattice", "if round_up_to_lattice(threshold, lattice_bits) != threshold:", "if False:",
     "the threshold lies on the lattice of the noise", IMPOSSIBLE),
    ("any-composed-epsilon", "if not 0 < composed_epsilon <= LARGEST_EPSILON:", "if False:",
     "costs are for budgets that samplers are exact enough for", SAMPLER_PAID),
)  # fmt: skip

LAPLACE: Final = in_file(
    "mechanisms/laplace.py",
    ("laplace-weight-multiplied", "aggregate.sensitivity_steps / Fraction(aggregate.weight)", "aggregate.sensitivity_steps * Fraction(aggregate.weight)",
     "less weight is more noise", BUDGET + "[laplace]"),
    ("laplace-sensitivity-halved", "Fraction(self.scale) * aggregate.sensitivity_steps /", "Fraction(self.scale) * aggregate.sensitivity_steps / 2 /",
     "noise is for the whole sensitivity", BUDGET + "[laplace]"),
    ("laplace-always-covered", "return Fraction(self.sums_epsilon) >= pure_epsilon(self.noisy(aggregates))", "return True",
     "aggregates are paid for", OTHERS_CHANGED),
    ("laplace-low-threshold-off-by-one", "counts >= self.low_threshold)", "counts >= self.low_threshold - 1)",
     "small groups are never looked at", HIDDEN + "[laplace, low threshold]"),
    ("laplace-scale-rounded", "DiscreteLaplace(Fraction(self.scale)), 0, entropy)", "DiscreteLaplace(Fraction(int(self.scale))), 0, entropy)",
     "the drawn law is the accounted one", BUDGET + "[laplace]"),
    ("laplace-one-group", "return self.max_groups * (1 / Fraction(self.scale)", "return 1 * (1 / Fraction(self.scale)",
     "every group of a unit costs", LAPLACE_PURE),
    ("laplace-without-sums", "(1 / Fraction(self.scale) + Fraction(self.sums_epsilon))", "(1 / Fraction(self.scale))",
     "aggregates cost", LAPLACE_PURE),
    ("laplace-delta-infinity-dropped", "lambda at: infinity + (1 - infinity) * self.delta_noise(at)", "lambda at: self.delta_noise(at)",
     "a group of one unit may be released", LAPLACE_LAW),
    ("laplace-gap-off-by-one", "delta_laplace(int(self.gap), self.scale", "delta_laplace(int(self.gap) + 1, self.scale",
     "the chance that a group of one unit is released", LAPLACE_LAW),
    ("laplace-share-of-sums", "share = 1 / (1 + request.sums_budget)", "share = 1", "the count leaves budget to the sums", BUDGET + "[laplace]"),
    ("laplace-sums-not-charged", "(1 / self.scale * COST_UP, self.sums_epsilon)", "(1 / self.scale * COST_UP,)",
     "aggregates are charged", COST_FORMULAS),
    ("laplace-d-not-charged", "d = self.delta_infinity() + sampler_surcharge(", "d = sampler_surcharge(",
     "a released group of one unit is charged", FACETS + "[laplace]"),
    ("laplace-noise-too-small", "if asked < scale:", "if False:", "noise that is too small is refused", _PLANS + "test_choices_can_be_fixed"),
)  # fmt: skip

SPARSE: Final = in_file(
    "mechanisms/sparse_gaussian.py",
    ("sparse-small-groups-looked-at", "counts >= self.low_threshold)", "counts > 0)", "small groups are never looked at",
     HIDDEN + "[sparse, low threshold]"),
    ("sparse-noise-halved", "RoundedGaussian(Fraction(self.noise_std), self.lattice_bits)", "RoundedGaussian(Fraction(self.noise_std) / 2, self.lattice_bits)",
     "the drawn law is the accounted one", BUDGET + "[sparse]"),
    ("sparse-profile-without-sums", "sums_sensitivity=self.sums_sensitivity,\n            analysis", "sums_sensitivity=0.0,\n            analysis",
     "aggregates are in the profile", BUDGET + "[sparse]"),
    ("sparse-profile-with-the-threshold", "gap=self.gap,", "gap=self.threshold,", "the gap is above low_threshold", BUDGET + "[sparse, low threshold]"),
    ("sparse-sums-not-charged", "(1 / self.noise_std**2 + self.sums_sensitivity**2)) * COST_UP", "(1 / self.noise_std**2)) * COST_UP",
     "aggregates are charged", COST_FORMULAS),
    ("sparse-one-group-charged", "mu = math.sqrt(self.max_groups * (1 /", "mu = math.sqrt(1 * (1 /", "every group of a unit is charged", COST_FORMULAS),
    ("sparse-d-not-charged", "d = self.delta_infinity() + sampler_surcharge(", "d = sampler_surcharge(",
     "a released group of one unit is charged", FACETS + "[sparse]"),
    ("sparse-sums-without-root", "sums_sensitivity=math.sqrt(request.sums_budget) / noise_std * UP", "sums_sensitivity=request.sums_budget / noise_std",
     "the accounted sums are those drawn", LAST_BIT),
    ("sparse-low-threshold-forgotten", "threshold=request.low_threshold + round_up_to_lattice(gap, bits)", "threshold=1 + round_up_to_lattice(gap, bits)",
     "the gap is above low_threshold", BUDGET + "[sparse, low threshold]"),
)  # fmt: skip

CORRELATED: Final = in_file(
    "mechanisms/correlated_gaussian.py",
    ("common-noise-not-drawn", "return shared_noise(self.independent_std, self.correlation, self.lattice_bits, entropy)", "return 0",
     "correlated noise has its common part", PUBLISHED + "[correlated]"),
    ("correlated-bound-without-list", "max_groups=sparsity if request.keys is None else request.groups_per_unit", "max_groups=request.groups_per_unit",
     "subtracting moves every counter", _PLANS + "test_sparsity_without_public_keys_moves_every_counter"),
    ("correlated-lattice-forgotten", "lattice_step=2.0**-self.lattice_bits,\n            analysis", "lattice_step=0.0,\n            analysis",
     "the common shift lies on the lattice", "tests/mechanisms/test_accounting.py::test_a_coarse_lattice_is_paid_for"),
    ("correlated-lattice-not-charged", "lattice_step=2.0**-mechanism.lattice_bits,", "lattice_step=0.0,",
     "the common shift lies on the lattice", "tests/mechanisms/test_accounting.py::test_a_coarse_lattice_is_paid_for"),
    ("correlated-samplers-of-few", "return with_sampler_error(bound, epsilon, self.sparsity)", "return with_sampler_error(bound, epsilon, self.max_groups)",
     "the samplers of all counters count", SAMPLERS),
    ("correlated-d-not-charged", "d = new + sampler_surcharge(", "d = sampler_surcharge(", "a released group of one unit is charged", BUDGET + "[correlated]"),
    ("correlated-sums-not-charged", "sums_ratio=(mechanism.sums_sensitivity * mechanism.independent_std) ** 2", "sums_ratio=0.0",
     "aggregates are charged", BUDGET + "[correlated]"),
    ("correlated-profile-without-sums", "gap=self.gap,\n            sums_sensitivity=self.sums_sensitivity,", "gap=self.gap,",
     "aggregates are in the profile", BUDGET + "[correlated]"),
    ("correlated-low-threshold-off-by-one", "counts >= self.low_threshold)", "counts >= self.low_threshold - 1)",
     "small groups are never looked at", HIDDEN + "[correlated, low threshold]"),
    ("correlated-sums-without-root", "math.sqrt(setting.sums_ratio(chosen.correlation)) / chosen", "setting.sums_ratio(chosen.correlation) / chosen",
     "the accounted sums are those drawn", LAST_BIT),
    ("paper-analysis-of-anything", "if self.analysis != \"tight\":\n            self._check_paper()", "if False:\n            self._check_paper()",
     "the paper's theorems need their correlation", IMPOSSIBLE),
    ("more-groups-than-sparsity", "if self.max_groups > self.sparsity:", "if False:", "a unit is in at most all groups", IMPOSSIBLE),
)  # fmt: skip

DISCRETE: Final = (
    *in_file(
        "mechanisms/discrete_gaussian.py",
        ("std-for-variance", "DiscreteGaussian(self.variance), 0, entropy)", "DiscreteGaussian(Fraction(self.noise_std)), 0, entropy)",
         "the drawn law is the accounted one", BUDGET + "[discrete]"),
        ("discrete-rho-of-one-group", "float(self.max_groups / (2 * self.variance))", "float(1 / (2 * self.variance))",
         "every group of a unit costs", BUDGET + "[discrete]"),
        ("discrete-rho-rounded-down", "math.nextafter(float(self.max_groups / (2 * self.variance)), math.inf)",
         "math.nextafter(float(self.max_groups / (2 * self.variance)), 0.0)", "rho is rounded up",
         "tests/mechanisms/test_accounting.py::test_what_is_accounted_is_rounded_up"),
        ("discrete-new-group-alone", "-math.expm1(self.max_groups * math.log1p(", "-math.expm1(1 * math.log1p(",
         "every new group may be released", DISCRETE_LAW),
        ("discrete-delta-infinity-dropped", "lambda at: infinity + (1 - infinity) * self.delta_noise(at)", "lambda at: self.delta_noise(at)",
         "a group of one unit may be released", DISCRETE_LAW),
        ("discrete-aggregates-covered", "return not aggregates", "return True", "no aggregates beside discrete noise",
         _PLANS + "test_a_mechanism_for_another_request_is_refused"),
        ("discrete-d-not-charged", "d = self.delta_infinity() + sampler_surcharge(", "d = sampler_surcharge(",
         "a released group of one unit is charged", BUDGET + "[discrete]"),
        ("discrete-low-threshold-off-by-one", "counts >= self.low_threshold)", "counts >= self.low_threshold - 1)",
         "small groups are never looked at", HIDDEN + "[discrete, low threshold]"),
    ),
    *in_file(
        "mechanisms/discrete_correlated.py",
        ("common-half-not-drawn", "return int(sample(DiscreteGaussian(self.common_variance), 1, entropy)[0])", "return 0",
         "correlated noise has its common part", PUBLISHED + "[discrete correlated]"),
        ("halves-rho-without-common", " + 1 / (2 * self.common_variance)\n", "\n", "the shift of the common noise costs", HALVES_CALIBRATION),
        ("halves-gap-too-wide", "int(2 * self.gap), self.sparsity", "int(2 * self.gap) + 1, self.sparsity",
         "the chance that a group of one unit is released", HALVES_LAW),
        ("halves-delta-infinity-dropped", "lambda at: self.delta_noise(at) + infinity", "lambda at: self.delta_noise(at)",
         "a group of one unit may be released", HALVES_LAW),
    ),
    *in_file(
        "mechanisms/known_groups.py",
        ("listed-but-empty-dropped", "return Kept(np.arange(len(counts)), noisy, self.lattice_bits)",
         "return Kept(np.flatnonzero(counts), noisy[counts != 0], self.lattice_bits)", "a public list is released whole", PUBLISHED + "[known]"),
        ("known-common-noise-not-drawn", "return shared_noise(self.independent_std, self.correlation, self.lattice_bits, entropy)", "return 0",
         "correlated noise has its common part", PUBLISHED + "[known, all]"),
        ("known-profile-of-one-group", "max_groups=self.max_groups,", "max_groups=1,", "every group of a unit costs", BUDGET + "[known]"),
        ("known-profile-without-sums", "sums_sensitivity=self.sums_sensitivity,", "sums_sensitivity=0.0,", "aggregates are in the profile", BUDGET + "[known]"),
        ("known-noise-too-small", "if asked < independent_std:", "if False:", "noise that is too small is refused",
         _PLANS + "test_known_groups_are_correlated_when_that_is_quieter"),
        ("known-another-list", "listed = [] if self.groups == request.keys else", "listed = [] if True else", "the listed keys are those accounted for", OTHERS_CHANGED),
        ("known-samplers-of-few", "return with_sampler_error(self.delta_noise, epsilon, self.groups)", "return with_sampler_error(self.delta_noise, epsilon, 1)",
         "the samplers of all counters count", "tests/mechanisms/test_accounting.py::test_samplers_of_all_listed_groups_count"),
    ),
    *in_file(
        "mechanisms/records.py",
        ("records-at-one", "int(self.threshold) - self.max_per_group, self.scale", "int(self.threshold) - 1, self.scale",
         "a new group has up to max_per_group records", "tests/unknown_domain/test_exact_laws.py::test_theorem_7_on_all_kinds_of_neighbours"),
        ("records-sensitivity-one", "return self.max_groups * self.max_per_group / Fraction(self.scale)", "return self.max_groups / Fraction(self.scale)",
         "a unit adds up to max_per_group", "tests/unknown_domain/test_exact_laws.py::test_theorem_7_on_all_kinds_of_neighbours"),
    ),
    *in_file(
        "mechanisms/truncated_laplace.py",
        ("truncated-not-checked-again", "if mechanism.delta(usable) <= delta:", "if True:", "only the forward map is trusted",
         "tests/mechanisms/test_truncated_laplace_mechanism.py::test_calibrated_implies_target_and_one_step_less_fails"),
        ("truncated-one-bar", "q=self.q, bars=self.max_groups)", "q=self.q, bars=1)", "every bar of a unit costs",
         "tests/mechanisms/test_accounting.py::test_truncated_noise_costs_every_bar"),
        ("truncated-d-of-one-bar", "-math.expm1(self.max_groups * math.log1p(-one))", "-math.expm1(math.log1p(-one))",
         "every bar of a unit costs", "tests/mechanisms/test_accounting.py::test_truncated_noise_costs_every_bar"),
    ),
)  # fmt: skip

ADAPTIVE: Final = in_file(
    "mechanisms/adaptive.py",
    ("adaptive-sums-not-scaled", "std = math.ldexp(float(noisy.law.std) * math.sqrt(cap), sum_shift(noisy.aggregate))",
     "std = math.ldexp(float(noisy.law.std), sum_shift(noisy.aggregate))", "noise on sums grows with the allowed norm", COSTS_OF_ROUNDS),
    ("adaptive-sums-scaled-by-the-cap", "std = math.ldexp(float(noisy.law.std) * math.sqrt(cap), sum_shift", "std = math.ldexp(float(noisy.law.std) * cap, sum_shift",
     "noise on sums grows with the root of the cap", COSTS_OF_ROUNDS),
    ("adaptive-sums-in-coarse-steps", "std = math.ldexp(float(noisy.law.std) * math.sqrt(cap), sum_shift(noisy.aggregate))",
     "std = float(noisy.law.std) * math.sqrt(cap)", "noise is drawn in the refined steps", COSTS_OF_ROUNDS),
    ("adaptive-mu-without-sums", "self.noise_std, self.probe_std, *sums])", "self.noise_std, self.probe_std])", "aggregates cost", COSTS_OF_ROUNDS),
    ("adaptive-mu-without-histogram", "[*self.round_stds, self.histogram_std, self.noise_std", "[*self.round_stds, self.noise_std",
     "the histogram of norms costs", COSTS_OF_ROUNDS),
    ("adaptive-mu-without-probe", "self.noise_std, self.probe_std, *sums])", "self.noise_std, *sums])", "the probe costs", COSTS_OF_ROUNDS),
    ("adaptive-mu-of-one-round", "theory.gdp([*self.round_stds,", "theory.gdp([self.round_stds[0],", "every round costs", COSTS_OF_ROUNDS),
    ("adaptive-selection-takes-all", "mu * math.sqrt(1 - counts - tuning.histogram_share)", "mu * math.sqrt(1 - tuning.histogram_share)",
     "the shares of the budget add up to 1", CALIBRATED),
    ("adaptive-sums-for-free", "counts / (1 + tuning.probe_share + sums_budget)", "counts / (1 + tuning.probe_share)", "sums take their share", CALIBRATED),
    ("adaptive-delta-used-twice", "theory.delta_gauss_left(target, infinity)", "target", "the noise leaves delta to the threshold", CALIBRATED),
    ("adaptive-not-checked-again", "assert built.delta(epsilon) <= delta", "assert True", "only the forward map is trusted",
     "tests/mechanisms/test_accounting.py::test_calibration_is_checked_with_the_forward_map"),
    ("adaptive-samplers-of-few", "+ 1 + MOST_RELEASED * (2 + MOST_AGGREGATES)", "+ 1", "the samplers of all counts and sums count",
     "tests/mechanisms/test_accounting.py::test_the_samplers_of_everything_a_unit_moves_count"),
    ("adaptive-lattice-forgotten", "self.selection_std, self.max_groups, 2.0**-LATTICE_BITS)", "self.selection_std, self.max_groups, 0.0)",
     "rounding lifts a sum by half a step", ALONE),
    ("adaptive-one-new-group", "self.selection_std, self.max_groups, 2.0**-LATTICE_BITS)", "self.selection_std, 1, 2.0**-LATTICE_BITS)",
     "every new group may be selected", ALONE),
    ("adaptive-d-not-charged", "d = self.delta_infinity() + sampler_surcharge(", "d = sampler_surcharge(", "a selected group of one unit is charged", COSTS_OF_ROUNDS),
    ("adaptive-undrawable", "self.require_drawable(request.aggregates)\n        except", "pass\n        except", "noise that cannot be drawn is refused",
     "tests/adaptive/test_adaptive_release.py::test_noise_that_cannot_be_drawn_is_found_when_a_plan_is_read"),
)  # fmt: skip

LISTS: Final = (
    *in_file(
        "mechanisms/from_top.py",
        ("from-top-threshold-without-noise", "limit = base + self.threshold + int(sample(law, 1, entropy)[0])", "limit = base + self.threshold",
         "the threshold above the next largest count is noisy", FROM_TOP),
        ("from-top-at-the-threshold", "passed = noisy > limit", "passed = noisy >= limit", "strictly above the threshold", FROM_TOP_HIDDEN),
        ("from-top-without-base", "limit = base + self.threshold +", "limit = self.threshold +", "a list is cut above the next largest count", FROM_TOP),
        ("from-top-base-not-saturated", "int(min(largest[self.most_groups], LARGEST_COUNT))", "int(largest[self.most_groups])",
         "base and counts are cut alike", FROM_TOP_HIDDEN),
        ("from-top-empty-groups", "eligible = np.flatnonzero(listed > 0)", "eligible = np.flatnonzero(listed >= 0)", "empty groups are never looked at", FROM_TOP),
        ("from-top-std-for-variance", "return Fraction(self.noise_std) ** 2", "return Fraction(self.noise_std)", "the drawn law is the accounted one", FROM_TOP),
        ("from-top-gap-too-wide", "self.threshold - self.max_per_group, new", "self.threshold, new", "the chance that a new group passes", FROM_TOP_COSTS),
        ("from-top-delta-infinity-dropped", "min(1.0, infinity + delta_from_rho(self.rho, at))", "delta_from_rho(self.rho, at)", "a new group may pass", FROM_TOP_COSTS),
        ("from-top-d-not-charged", "d = self.delta_infinity() + sampler_surcharge(", "d = sampler_surcharge(", "a new group that passes is charged", FROM_TOP_COSTS),
    ),
    *in_file(
        "mechanisms/correlated_top_k.py",
        ("top-k-base-without-noise", "<< self.lattice_bits) + of_base - common", "<< self.lattice_bits) - common", "the base has noise of its own", TOP_K),
        ("top-k-common-noise-stays", "<< self.lattice_bits) + of_base - common", "<< self.lattice_bits) + of_base", "base and counts are anti-correlated", TOP_K),
        ("top-k-base-with-the-common-law", "shared_noise(self.independent_std, self.base_variance,", "shared_noise(self.independent_std, self.correlation,",
         "the drawn law is the accounted one", TOP_K),
        ("top-k-at-the-threshold", "passed = noisy > int(", "passed = noisy >= int(", "strictly above the threshold", TOP_K_HIDDEN),
        ("top-k-equals-looked-at", "np.flatnonzero(above_base > 0)", "np.flatnonzero(above_base >= 0)", "groups no larger than the base are not looked at", TOP_K_HIDDEN),
        ("top-k-common-noise-not-added", "self.lattice_bits, entropy, common)\n        passed", "self.lattice_bits, entropy)\n        passed",
         "residuals have the common noise", TOP_K_HIDDEN),
        ("top-k-mu-without-root", "mu = math.sqrt(float(squared)) /", "mu = float(squared) /", "the charge is that of the noise", TOP_K_COSTS),
        ("top-k-d-not-charged", "d = new + sampler_surcharge(", "d = sampler_surcharge(", "a new counter that is released is charged", TOP_K_COSTS),
    ),
    *in_file(
        "mechanisms/ranked.py",
        ("stop-without-threshold", "np.append(listed, base + self.threshold)", "np.append(listed, base)", "STOP precedes new groups", RANKED),
        ("stop-without-base", "np.append(listed, base + self.threshold)", "np.append(listed, self.threshold)", "STOP stands above the next largest count", RANKED),
        ("ranked-coefficient-per-record", "coefficient = Fraction(self.symbol_epsilon) / self.max_per_group", "coefficient = Fraction(self.symbol_epsilon)",
         "a unit moves a score by max_per_group", RANKED),
        ("ranked-counts-not-saturated", "counts = np.minimum(largest, LARGEST_COUNT)", "counts = largest", "counts are cut at the public limit", RANKED),
        ("ranked-stop-for-free", "return len(self.index) + int(self.stopped)", "return len(self.index)", "STOP is a symbol and is paid for", RANKED),
        ("ranked-session-of-one-query", "return ranked.delta_of_session(per_query, self.queries, self.symbols)", "return per_query", "every query may show a new group", COST_FORMULAS),
        ("ranked-one-query-charged", "d = min(1.0, min(self.queries, self.symbols) * per_query * COST_UP)", "d = min(1.0, per_query * COST_UP)",
         "every query may show a new group", COST_FORMULAS),
        ("ranked-one-symbol-charged", "mu = math.sqrt(self.symbols) * mu_of_range(", "mu = mu_of_range(", "every symbol costs", COST_FORMULAS),
        ("ranked-any-number-of-symbols", "if not 1 <= symbols <= self.symbols:", "if False:", "no more symbols than are paid for",
         "tests/unknown_domain/test_unknown_mechanisms.py::test_a_ranked_list_ends_with_stop_or_is_full"),
    ),
    *in_file(
        "mechanisms/continual.py",
        ("stream-std-for-variance", "return sample(DiscreteGaussian(self.variance), groups, entropy)", "return sample(DiscreteGaussian(Fraction(self.noise_std)), groups, entropy)",
         "the drawn law is the accounted one", STREAM),
        ("stream-one-noise-for-all", "return sample(DiscreteGaussian(self.variance), groups, entropy)", "return sample(DiscreteGaussian(self.variance), 1, entropy).repeat(groups)",
         "groups have independent noise", STREAM),
        ("stream-gap-off-by-one", "log_sum_tail(law, terms, self.threshold - 1)", "log_sum_tail(law, terms, self.threshold)", "the chance that a new group is ever released", STREAM),
        ("stream-new-group-alone", "return min(1.0, self.max_groups * total", "return min(1.0, 1 * total", "every new group may be released", STREAM),
        ("stream-delta-infinity-dropped", "min(1.0, infinity + delta_from_rho(self.rho, at))", "delta_from_rho(self.rho, at)", "a new group may be released", STREAM),
        ("stream-d-not-charged", "d = self.delta_infinity() + sampler_surcharge(", "d = sampler_surcharge(", "a released new group is charged", STREAM),
        ("stream-round-not-limited", "return LARGEST_RUNNING_COUNT // self.rounds", "return LARGEST_RUNNING_COUNT", "running counts never wrap around",
         "tests/mechanisms/test_accounting.py::test_running_counts_have_headroom"),
    ),
)  # fmt: skip

SELECTION: Final = (
    *in_file(
        "selection/rounds.py",
        ("round-without-noise", "return np.asarray(exact + sample(law, len(exact), entropy))", "return np.asarray(exact)", "every round is noisy", ROUNDS),
        ("round-with-one-noise", "return np.asarray(exact + sample(law, len(exact), entropy))", "return np.asarray(exact + sample(law, 1, entropy))",
         "groups have independent noise", ROUNDS),
        ("given-up-groups-not-noised", "return np.asarray(exact + sample(law, len(exact), entropy))",
         "return np.asarray(np.where(exact > 0, exact + sample(law, len(exact), entropy), 0))", "groups of weight 0 get fresh noise", ROUNDS),
        ("first-rounds-noise-in-all", "mechanism.round_stds[number])", "mechanism.round_stds[-1])", "each round has its own law", ROUNDS),
        ("round-at-the-threshold", "return np.asarray(total > int(", "return np.asarray(total >= int(", "strictly above the threshold",
         _H + "test_a_group_must_be_strictly_above_the_threshold"),
        ("rounds-without-shares", "total = groups[\"total\"] + shares[number] * noisy", "total = groups[\"total\"] + 4 * noisy", "rounds count by their shares", ROUNDS),
        ("weights-not-local", "np.where(level < tuning.hopeless[number - 1], 0.0", "np.where(level < np.median(level), 0.0", "a group's weight is its own affair",
         _H + "test_weights_are_local"),
        ("weights-above-one", "np.clip(wanted, 0.0, 1.0))", "np.maximum(wanted, 0.0))", "weights are at most 1", _H + "test_weights_are_local"),
        ("first-sum-of-the-last-round", "first = noisy if number == 0 else groups[\"first\"]", "first = noisy", "published sums are those of round 1", ROUNDS),
    ),
    *in_file(
        "selection/counting.py",
        ("norms-without-noise", "noisy = (exact << LATTICE_BITS) + draw(mechanism.histogram_std, LATTICE_BITS, len(exact), entropy)", "noisy = exact << LATTICE_BITS",
         "the histogram of norms is noisy", COUNTED),
        ("norms-with-one-noise", "draw(mechanism.histogram_std, LATTICE_BITS, len(exact), entropy)", "draw(mechanism.histogram_std, LATTICE_BITS, 1, entropy)",
         "buckets have independent noise", COUNTED),
        ("norms-noise-in-steps", "draw(mechanism.histogram_std, LATTICE_BITS, len(exact), entropy)", "draw(mechanism.histogram_std, 0, len(exact), entropy)",
         "noise is drawn on the lattice", COSTS_OF_ROUNDS),
        ("main-count-without-noise", "\"main\": groups[\"main\"] + draw(main_std, LATTICE_BITS, size, entropy)", "\"main\": groups[\"main\"]", "counts are noisy", COUNTED),
        ("probe-without-noise", "\"probe\": groups[\"probe\"] + draw(probe_std, LATTICE_BITS, size, entropy)", "\"probe\": groups[\"probe\"]", "the probe is noisy", COUNTED),
        ("adaptive-sums-without-noise", "steps + sample(mechanism.clipped_law(noisy, caps[0]), size, entropy)", "steps", "sums are noisy", COUNTED),
        ("adaptive-sums-with-one-noise", "sample(mechanism.clipped_law(noisy, caps[0]), size, entropy)", "sample(mechanism.clipped_law(noisy, caps[0]), 1, entropy)",
         "groups have independent noise", COUNTED),
        ("adaptive-sums-with-the-plain-law", "sample(mechanism.clipped_law(noisy, caps[0]), size, entropy)", "sample(noisy.law, size, entropy)",
         "noise on sums grows with the allowed norm", COSTS_OF_ROUNDS),
        ("main-not-scaled-by-its-cap", "mechanism.noise_std * math.sqrt(caps[0]) * up", "mechanism.noise_std * up", "noise grows with the allowed norm", COSTS_OF_ROUNDS),
        ("probe-scaled-by-the-main-cap", "mechanism.probe_std * math.sqrt(caps[1]) * up", "mechanism.probe_std * math.sqrt(caps[0]) * up",
         "noise grows with the allowed norm", COSTS_OF_ROUNDS),
        ("cap-that-grows", "return int(cap * 4**WEIGHT_BITS)", "return int(cap * 4**WEIGHT_BITS) * 2", "units are cut to the norm that is paid for", COUNTED),
        ("main-cut-like-the-probe", "(whole_cap(caps[0]), whole_cap(caps[1]))", "(whole_cap(caps[1]), whole_cap(caps[1]))", "units are cut to the norm that is paid for", COUNTED),
    ),
    *in_file(
        "selection/choice.py",
        ("choice-without-noise", "noisy = (exact + sample(DiscreteLaplace(Fraction(scale)), len(exact), entropy)).astype(np.float64)", "noisy = exact.astype(np.float64)",
         "degrees are noisy before they choose", CHOICE),
        ("choice-with-one-noise", "sample(DiscreteLaplace(Fraction(scale)), len(exact), entropy)", "sample(DiscreteLaplace(Fraction(scale)), 1, entropy)",
         "buckets have independent noise", CHOICE),
        ("choice-scale-inverted", "scale = 1 / epsilon * (1 + 1e-15)", "scale = 1 / (3 * epsilon)", "the choice costs its share of epsilon", CHOICE),
        ("choice-at-the-whole-epsilon", "degree_histogram(DEGREE_EDGES), plan.request.choice_epsilon, entropy)", "degree_histogram(DEGREE_EDGES), plan.request.epsilon, entropy)",
         "the choice costs its share of epsilon", CHOICE),
        ("chosen-branch-not-checked", "storage.check(decided.request, decided.mechanism, \"the chosen branch of the plan\")", "pass",
         "what is chosen is what was paid for", _ADAPTIVE + "test_a_branch_that_is_not_paid_for_is_not_chosen"),
    ),
)  # fmt: skip

PLANNING: Final = (
    *in_file(
        "planning/request.py",
        ("total-not-paid", "left = self.epsilon if self.total_scale is None else math.nextafter(self.epsilon - 1 / self.total_scale, 0.0)", "left = self.epsilon",
         "a total is paid for", _PLANS + "test_totals_and_sketches_are_paid_for"),
        ("choice-not-paid", "left = math.nextafter(left - self.choice_epsilon, 0.0)", "pass", "a choice is paid for", CHOICE),
        ("choice-paid-until-it-is-made", "if self.choice != \"given\":\n            left", "if self.undecided:\n            left", "a choice stays paid for", CHOICE),
        ("total-at-the-whole-epsilon", "return 1 / min(TOTAL_SHARE * self.epsilon, LARGEST_EPSILON)", "return 1 / min(self.epsilon, LARGEST_EPSILON)",
         "a total costs its share of epsilon", BUDGET + "[sparse]"),
        ("choice-costs-nothing", "return 0.0 if self.choice == \"given\" else min(", "return 1e-9 if True else min(", "a choice has its share of epsilon", CHOICE),
        ("epsilon-beyond-the-samplers", "return min(left, LARGEST_EPSILON)", "return left", "samplers are exact enough", _PLANS + "test_huge_epsilons_are_capped_where_samplers_are_exact_enough"),
        ("largest-weight-for-all", "return sum(aggregate.weight for aggregate in self.aggregates)", "return max((aggregate.weight for aggregate in self.aggregates), default=0.0)",
         "every aggregate takes its share", BUDGET + "[sparse]"),
        ("unknown-keys-without-threshold", "return self.keys is None or self.sparse_keys", "return self.keys is None", "groups are hidden where that is asked for",
         _PLANS + "test_sparsity_without_public_keys_moves_every_counter"),
        ("sketch-with-a-bound", "if self.max_groups is not None or self.sparsity is not None or self.keys is not None:\n            raise InvalidParameter(\n                \"sketch alone\"",
         "if False:\n            raise InvalidParameter(\n                \"sketch alone\"", "a unit moves all counters of a sketch", _PLANS + "test_totals_and_sketches_are_paid_for"),
        ("sketch-with-aggregates", "if self.aggregates:\n", "if False:\n", "a sketch carries counts only", _PLANS + "test_totals_and_sketches_are_paid_for"),
        ("discrete-noise-with-aggregates", "if self.noise == \"discrete\" and (", "if False and (", "discrete noise is for counts alone", _PLANS + "test_discrete_noise_keeps_counts_whole"),
        ("bound-beyond-the-list", "if bound is not None and self.max_groups is not None and self.max_groups > bound:", "if False:", "a unit is in at most all groups", _PLANS + "test_bad_input_is_named"),
        ("chosen-bound-forgotten", "return replace(self, max_groups=max_groups) if self.undecided else self", "return self", "the chosen bound is the enforced one", CHOICE),
    ),
    *in_file(
        "planning/candidates.py",
        ("candidate-not-checked-again", "if mechanism.delta(request.mechanism_epsilon) > request.delta:", "if False:", "only the forward map is trusted",
         "tests/mechanisms/test_accounting.py::test_calibration_is_checked_with_the_forward_map"),
    ),
    *in_file(
        "planning/storage.py",
        ("misfits-ignored", "if problems := mechanism.misfits(request):", "if problems := mechanism.misfits(request)[:0]:", "a stored plan is checked anew", CHANGED),
        ("only-the-first-branch", "for mechanism in mechanisms if request.undecided else mechanisms[:1]:", "for mechanism in mechanisms[:1]:", "every branch is paid for",
         "tests/adaptive/test_adaptive_order.py::test_every_branch_of_a_plan_is_checked"),
        ("alternatives-not-checked", "if any(other.delta(request.mechanism_epsilon) > request.delta for other in alternatives):", "if False:", "alternatives meet the budget", CHANGED),
        ("types-not-checked", "check_types(Request, data[\"request\"])", "pass", "stored requests are read strictly", "tests/planning/test_options.py::test_stored_requests_are_read_strictly"),
    ),
    *in_file(
        "planning/plan.py",
        ("decided-without-its-bound", "return Plan(self.request.for_branch(mechanism), mechanism, others)", "return Plan(self.request, mechanism, others)",
         "the chosen bound is the enforced one", CHOICE),
        ("keys-counted-twice", "len(set(keys))", "len(keys)", "the number of groups is that of different keys", _PLANS + "test_known_groups_are_correlated_when_that_is_quieter"),
    ),
    *in_file(
        "planning/top_k.py",
        ("list-plan-not-checked", "if not (fits and self.mechanism.delta(self.epsilon) <= self.delta):", "if not fits:", "a plan meets its budget",
         "tests/unknown_domain/test_edges.py::test_a_plan_must_fit_its_mechanism"),
        ("list-with-a-bound", "if max_groups is not None and method != \"from-top\":", "if False:", "a unit moves all of the largest groups",
         "tests/unknown_domain/test_top_k_release.py::test_what_cannot_be_used_is_refused"),
    ),
)  # fmt: skip

PRIVACY: Final = (
    *in_file(
        "privacy/gaussian.py",
        ("delta-rounded-down", "return min(1.0, delta * (1.0 + ROUNDING))", "return min(1.0, delta * (1.0 - ROUNDING))", "deltas are rounded up",
         "tests/mechanisms/test_accounting.py::test_what_is_accounted_is_rounded_up"),
        ("mirror-without-factor", "mirrored = -np.expm1(-magnitude) + np.exp(-magnitude) * positive", "mirrored = -np.expm1(-magnitude) + 0 * positive",
         "the profile at negative epsilons", "tests/privacy/test_gaussian.py::test_profile_holds_for_any_sign_of_epsilon"),
        ("largest-mu-too-large", "delta_gaussian(mu, epsilon) <= delta, np.zeros", "delta_gaussian(mu, epsilon) <= 2 * delta, np.zeros", "calibration meets its target",
         "tests/privacy/test_gaussian.py::test_largest_mu_meets_its_target_and_one_step_more_does_not"),
    ),
    *in_file(
        "privacy/sparse_gaussian.py",
        ("gauss-of-one-group", "mu = math.sqrt(max_groups * (1 / noise_std**2", "mu = math.sqrt(1 * (1 / noise_std**2", "every group of a unit costs", BUDGET + "[sparse]"),
        ("gauss-without-sums", "(1 / noise_std**2 + sums_sensitivity**2))\n    return", "(1 / noise_std**2))\n    return", "aggregates cost", BUDGET + "[sparse]"),
        ("infinity-of-one-group", "-math.expm1(max_groups * float(log_ndtr(gap / noise_std)))", "-math.expm1(float(log_ndtr(gap / noise_std)))",
         "every new group may be released", BUDGET + "[sparse]"),
        ("smaller-direction", "np.maximum(added, removed)", "np.minimum(added, removed)", "both directions count", _GSHM + "test_fast_maximum_equals_the_loop"),
        ("smaller-end", "at_least=max(gauss, infinity)", "at_least=min(gauss, infinity)", "the worst split decides", BUDGET + "[sparse]"),
        ("splits-without-sums", "per_group=1 / noise_std**2 + sums_sensitivity**2", "per_group=1 / noise_std**2", "aggregates cost in mixed splits", _GSHM + "test_fast_maximum_equals_the_loop"),
        ("splits-at-their-best-end", "mu = np.sqrt(high * per_group)", "mu = np.sqrt(low * per_group)", "a range of splits is bounded by its worst end",
         "tests/mechanisms/test_accounting.py::test_many_splits_are_bounded_from_above"),
        ("added-deltas-not-added", "return min(1.0, gauss + infinity)", "return min(1.0, max(gauss, infinity))", "add-the-deltas adds", _GSHM + "test_golden_gaps"),
    ),
    *in_file(
        "privacy/correlated_gaussian.py",
        ("lattice-shift-for-free", "np.minimum(linear, np.maximum(*values) + surcharge)", "np.minimum(linear, np.maximum(*values))", "the common shift lies on the lattice",
         _CSH + "test_squared_sensitivity_against_brute_force"),
        ("sums-not-joint", "p * sums_ratio + p * (", "p * (", "aggregates are maximised jointly", _CSH + "test_aggregates_are_maximised_jointly"),
        ("infinity-without-groups", "float(common.delta_infinity(np.array([max_groups]))[0])", "float(common.delta_infinity(np.array([1]))[0])",
         "every new group may be released", BUDGET + "[correlated]"),
        ("correlated-smaller-end", "pure = float(product(ends, ends).max())", "pure = float(product(ends, ends).min())", "the worst split decides", BUDGET + "[correlated]"),
        ("base-that-never-moves", "for moved in (0.0, block)", "for moved in (0.0,)", "the base moves with the counters",
         "tests/privacy/test_correlated_top_k.py::test_sensitivity_with_the_base_against_brute_force"),
        ("mixed-cases-forgotten", "return raise_for_rounding(bound)", "return raise_for_rounding(pure)", "mixed cases bind",
         "tests/privacy/test_correlated_top_k.py::test_mixed_cases_bind_when_the_base_is_released"),
    ),
    *in_file(
        "privacy/adaptive.py",
        ("largest-mu-alone", "return math.hypot(*(1 / std for std in noise)) * _UP", "return max(1 / std for std in noise) * _UP", "Gaussian mechanisms add up", LEMMAS),
        ("weight-of-one-forgotten", "reach = (threshold - 1 - lattice_step / 2) / std", "reach = (threshold - lattice_step / 2) / std", "one unit has weight 1", LEMMAS),
        ("new-groups-forgotten", "-math.expm1(most_groups * float(", "-math.expm1(1 * float(", "every new group may be selected", LEMMAS),
        ("larger-delta-alone", "return raise_for_rounding(gauss + infinity - gauss * infinity)", "return raise_for_rounding(max(gauss, infinity))", "the deltas add up", LEMMAS),
        ("threshold-two-steps-low", "while delta_infinity(math.ldexp(steps, -fine), std, most_groups, step) > target:", "while False:", "only the forward map is trusted",
         _LEMMAS + "test_thresholds_are_rounded_up_to_the_lattice"),
        ("combined-noise-of-the-first", "share * std for share, std in zip", "share * share * std for share, std in zip", "noise of all rounds lifts a group", LEMMAS),
    ),
    *in_file(
        "privacy/composition.py",
        ("mu-of-pure-halved", "return -2 * float(ndtri_exp(", "return -1 * float(ndtri_exp(", "a pure epsilon as mu", _SUMS + "test_mu_of_pure_is_the_exact_one_from_above"),
        ("rho-of-pure-halved", "return epsilon * math.tanh(epsilon / 2) * _UP", "return epsilon * math.tanh(epsilon / 4) * _UP", "a pure epsilon as rho",
         _SUMS + "test_rho_of_pure_bounds_every_renyi_divergence_and_is_attained"),
        ("largest-mu-of-several", "math.hypot(*(cost.mu for cost in listed))", "max(cost.mu for cost in listed)", "squares of mus add up", PURE_PARTS),
        ("least-of-the-branches", "PrivacyCost(*(max(getattr", "PrivacyCost(*(min(getattr", "every branch is covered", _SUMS + "test_the_worst_covers_each"),
        ("rho-of-gaussian-halved", "mu * mu / 2 * _UP", "mu * mu / 4 * _UP", "a Gaussian pair as rho", _COSTS + "test_gaussian_costs_are_those_of_their_noise"),
        ("declared-d-dropped", "delta=(d + convert_at) * _UP)", "delta=convert_at * _UP)", "an approximate spend has its d",
         "tests/mechanisms/test_accounting.py::test_a_declared_spend_keeps_its_d"),
        ("mu-delta-of-rho", "return PrivacyCost(epsilon, delta, rho, d, mu_of_pure(epsilon), delta)", "return PrivacyCost(epsilon, delta, rho, d, mu_of_pure(epsilon), d)",
         "a mu that comes from (epsilon, delta) has that delta", COST_FORMULAS),
        ("conversion-too-good", "- log_x + (1 + x) * log_ratio", "- log_x + (2 + x) * log_ratio", "rho to delta", "tests/privacy/test_laplace_and_zcdp.py::test_golden_conversions"),
    ),
    *in_file(
        "privacy/filters.py",
        ("one-limit-is-enough", "self.noise <= limit.noise and self.delta <= limit.delta", "self.noise <= limit.noise or self.delta <= limit.delta",
         "both sums stay below their limits", _SUMS + "test_sums_are_exact_monotone_and_in_any_order"),
        ("spends-rounded-down", "return -(-math.prod([exact.numerator] * power) * UNITS // math.prod([exact.denominator] * power))",
         "return math.prod([exact.numerator] * power) * UNITS // math.prod([exact.denominator] * power)", "spends are rounded up", _SUMS + "test_edges_of_costs_and_sums"),
        ("delta-given-twice", "left = _down(Fraction(delta) - for_events)", "left = _down(Fraction(delta))", "the d's and the noise share delta",
         _SUMS + "test_limits_meet_the_budget_and_nothing_larger_does"),
        ("mu-not-squared", "return Amount(_up(cost.mu, 2), _up(cost.mu_delta))", "return Amount(_up(cost.mu), _up(cost.mu_delta))", "squares of mus add up",
         _SUMS + "test_sums_are_exact_monotone_and_in_any_order"),
        ("limit-not-checked-again", "if not raise_for_rounding(float(delta_gaussian(mu, epsilon))) <= left:", "if False:", "only the forward map is trusted",
         _SUMS + "test_a_limit_is_only_given_if_the_forward_map_allows_it"),
        ("d-not-counted", "return Amount(_up(cost.rho), _up(cost.rho_delta))", "return Amount(_up(cost.rho), 0)", "the d's add up",
         _COSTS + "test_two_thresholded_releases_are_within_every_bound_and_not_without_d"),
        ("limits-rounded-up", "return Amount(math.floor(noise * UNITS), math.floor(for_events * UNITS))", "return Amount(math.ceil(noise * UNITS) + 1, math.ceil(for_events * UNITS) + 1)",
         "limits are rounded down", "tests/mechanisms/test_accounting.py::test_limits_are_rounded_down"),
    ),
    *in_file(
        "privacy/search.py",
        ("edge-returns-the-wrong-end", "        allowed /= 2\n    return inside", "        allowed /= 2\n    return outside", "what is returned holds",
         "tests/privacy/test_search.py::test_edge_returns_a_point_that_holds_next_to_one_that_fails"),
        ("whole-number-one-too-small", "low, high = (low, middle) if holds(middle) else (middle, high)\n    return high", "low, high = (low, middle) if holds(middle) else (middle, high)\n    return low",
         "what is returned holds", "tests/privacy/test_laplace_and_zcdp.py::test_smallest_whole_number"),
        ("dropped-ranges-forgotten", "return max(best, dropped)", "return best", "the bound covers every split", "tests/privacy/test_search.py::test_worst_split_remembers_ranges_it_dropped"),
    ),
    *in_file(
        "privacy/unknown_domain.py",
        ("laplace-tail-one-step-on", "tail = math.exp(-(gap + 1) / scale)", "tail = math.exp(-(gap + 2) / scale)", "the tail of the drawn law",
         "tests/privacy/test_laplace_and_zcdp.py::test_discrete_tail_is_the_sum_of_its_law"),
        ("laplace-tail-of-one-group", "-math.expm1(max_groups * math.log1p(-tail))", "-math.expm1(math.log1p(-tail))", "every new group may be released", BUDGET + "[laplace]"),
        ("records-not-squared", "return max_groups * max_per_group**2 / (2 * noise_std**2) * _UP", "return max_groups * max_per_group / (2 * noise_std**2) * _UP",
         "the sensitivity is squared", _GOLDEN + "test_theorem_7_thresholds_and_rho"),
        ("no-group-behind-the-list", "return most_groups + 1 if max_groups is None else min(max_groups, most_groups + 1)", "return most_groups if max_groups is None else min(max_groups, most_groups)",
         "the group behind the list moves too", FROM_TOP_COSTS),
        ("one-new-group-in-the-list", "return most_groups if max_groups is None else min(max_groups, most_groups)", "return 1", "all of a list may be new", FROM_TOP_COSTS),
        ("one-level-too-few", "return rounds.bit_length()", "return (rounds - 1).bit_length()", "an event is in every level", _GOLDEN + "test_theorem_11_thresholds_and_rho"),
        ("stream-of-one-level", "return rho_records(noise_std, max_groups * levels(rounds))", "return rho_records(noise_std, max_groups)", "every level costs", STREAM),
    ),
    *in_file(
        "privacy/ranked.py",
        ("stop-precedes-too-often", "log_odds = symbol_epsilon * (threshold - max_per_group) / max_per_group", "log_odds = symbol_epsilon * threshold / max_per_group",
         "the chance that a new group precedes STOP", RANKED),
        ("shortlist-of-one", " - math.log(shortlist)\n    if log_odds", "\n    if log_odds", "every group of the shortlist may precede STOP", RANKED),
        ("session-of-one-query", "-math.expm1(min(queries, symbols) * math.log1p(", "-math.expm1(1 * math.log1p(", "every query may show a new group",
         _GOLDEN + "test_sessions_pay_for_the_smaller_of_queries_and_symbols"),
        ("range-split-in-halves", "return math.expm1((epsilon - e) / 2) ** 2 /", "return math.expm1((epsilon - e) / 4) ** 2 /", "the worst choice within a range",
         _GOLDEN + "test_the_profile_of_one_choice_is_the_worst_over_all_ranges"),
        ("ranked-infinity-dropped", "return raise_for_rounding(infinity + delta_of_symbols(", "return raise_for_rounding(0 * infinity + delta_of_symbols(", "a new group may precede STOP",
         "tests/unknown_domain/test_exact_laws.py::test_theorem_9_on_all_small_neighbours"),
    ),
    *in_file(
        "privacy/truncated_laplace.py",
        ("outermost-atom-halved", "return min(1.0, math.expm1(epsilon) / (2 * math.expm1(epsilon * half)) * _UP)", "return min(1.0, math.expm1(epsilon) / (4 * math.expm1(epsilon * half)) * _UP)",
         "the outermost atom shows the input", _TRUNCATED + "test_enumeration_delta_is_attained_and_never_exceeded"),
        ("atoms-of-one-bar", "-math.expm1(bars * math.log1p(-loss.infinite))", "-math.expm1(math.log1p(-loss.infinite))", "every bar may show the input",
         _TRUNCATED + "test_enumeration_of_several_bars_is_the_profile"),
        ("first-loss-skipped", "exact_at // epsilon + 1)", "exact_at // epsilon + 2)", "every loss above epsilon counts", _TRUNCATED + "test_enumeration_of_several_bars_is_the_profile"),
        ("calibrated-one-less", "q = max(0, math.floor(guess) - 4)\n    while delta_one_bar(epsilon, q) > target_delta:", "q = max(0, math.floor(guess) - 4)\n    while False:",
         "only the forward map is trusted", _TRUNCATED + "test_smallest_q_holds_and_one_less_fails"),
    ),
)  # fmt: skip

NOISE: Final = (
    *in_file(
        "noise/entropy.py",
        ("constant-key", "algorithms.AES256(os.urandom(32))", "algorithms.AES256(bytes(32))", "entropy is fresh", _ENTROPY + "test_a_fork_does_not_repeat_the_parent"),
        ("one-key-for-all", "WORDS_PER_KEY = 1 << 17\n_ZEROS", "WORDS_PER_KEY = 1 << 20\n_ZEROS", "a key serves its share of words", _ENTROPY + "test_no_key_is_used_for_more_than_its_share"),
        ("test-entropy-let-in", "if type(entropy) is SystemEntropy or _TEST_ENTROPY_ALLOWED.get():", "if True:", "test sources stay in tests", _ENTROPY + "test_public_functions_refuse_test_sources"),
        ("subclass-let-in", "if type(entropy) is SystemEntropy or", "if isinstance(entropy, SystemEntropy) or", "no predictable source passes",
         _ENTROPY + "test_a_subclass_of_the_system_source_is_refused_too"),
        ("test-entropy-for-good", "_TEST_ENTROPY_ALLOWED.reset(token)", "pass", "test sources stay in tests", _ENTROPY + "test_the_switch_ends_with_its_block_and_stays_in_its_thread"),
    ),
    *in_file(
        "noise/sampling.py",
        ("floor-for-rounding", "values += 1 << (self.blocks.rounded_bits - 1)", "pass", "noise is rounded to the nearest step", _SAMPLING + "test_both_sides_and_the_middle_have_their_share"),
        ("shift-forgotten", "values += self.blocks.shift", "pass", "truncated noise is never positive", _SAMPLING + "test_truncated_samples_stay_in_their_support"),
        ("support-one-too-wide", "accepted &= values < positive", "accepted &= values <= positive", "a truncated law has its support", _SAMPLING + "test_samples_fit_their_law_and_no_other_scale"),
        ("everything-accepted", "accepted[open_cases] = surplus > 0", "accepted[open_cases] = True", "proposals are accepted by their law", _SAMPLING + "test_floats_never_contradict_the_exact_decision"),
        ("close-calls-by-floats", "for index in open_cases[np.abs(surplus) <= self.guard]:", "for index in open_cases[:0]:", "close calls are exact",
         _SAMPLING + "test_a_close_call_of_a_discrete_law_is_decided_by_further_words"),
        ("tie-to-the-alias", "entries[index] += next_word(entropy) < threshold", "entries[index] += 0 * next_word(entropy) > threshold", "ties have their probability",
         _SAMPLING + "test_a_tie_in_the_alias_table_is_decided_by_the_next_word"),
        ("rejected-kept", "values[gaps] = values[count:][accepted[count:]]", "pass", "rejected proposals are left out", _SAMPLING + "test_samples_fit_their_law_and_no_other_scale"),
        ("error-without-rejection", "return Fraction(3, 2) * distance / acceptance", "return Fraction(1, 1000) * distance", "the stated error bounds the distance",
         _TABLES + "test_the_stated_error_bounds_the_distance_computed_from_the_tables"),
        ("missing-blocks-forgotten", "return from_rounding + from_weights + missing", "return from_rounding", "the stated error bounds the distance",
         _TABLES + "test_the_stated_error_bounds_the_distance_computed_from_the_tables"),
        ("surcharge-of-one-side", "surcharge = (1 + Fraction(1 << 2048, low))", "surcharge = Fraction(1 << 2048, low)", "both laws are off", _TABLES + "test_the_surcharge_is_the_formula_rounded_up"),
        ("surcharge-without-shared", "* (changed_counters + 1) * error", "* changed_counters * error", "a shared noise counts too", _TABLES + "test_the_surcharge_is_the_formula_rounded_up"),
    ),
    *in_file(
        "noise/blocks.py",
        ("table-of-wrong-masses", "thresholds[poor], aliases[poor] = left[poor], rich", "thresholds[poor], aliases[poor] = left[poor] >> 1, rich", "the table has its masses",
         _TABLES + "test_the_alias_table_has_exactly_the_masses_it_was_built_from"),
        ("weights-bend-once", "bend = exp_minus(2 * blocks.decay.quadratic * blocks.width**2)", "bend = exp_minus(blocks.decay.quadratic * blocks.width**2)", "blocks have their weights",
         _TABLES + "test_weights_are_within_one_unit"),
        ("zero-twice", "width_bits = _width_bits(reach, _LAPLACE_INDEX_BITS)\n        return Blocks(Decay(1 / law.scale, Fraction(0)), _LAPLACE_INDEX_BITS, width_bits, negative_start=1)",
         "width_bits = _width_bits(reach, _LAPLACE_INDEX_BITS)\n        return Blocks(Decay(1 / law.scale, Fraction(0)), _LAPLACE_INDEX_BITS, width_bits, negative_start=0)",
         "noise is symmetric about 0", _SAMPLING + "test_samples_fit_their_law_and_no_other_scale"),
        ("variance-for-std", "Decay(Fraction(0), 1 / (2 * law.variance))", "Decay(Fraction(0), 1 / law.variance)", "the law that was asked for", _SAMPLING + "test_samples_fit_their_law_and_no_other_scale"),
        ("headroom-for-one-noise", "if largest_count + terms * largest_value(law) >= 1 << 63:", "if largest_count + largest_value(law) >= 1 << 63:", "sums of noises never wrap around",
         "tests/noise/test_noise_laws.py::test_headroom_is_checked_from_public_limits"),
    ),
    *in_file(
        "noise/enclosure.py",
        ("coin-by-its-lower-bound", "if leading >= high:\n            return False", "if leading >= low:\n            return False", "coins are exact",
         "tests/noise/test_noise_bernoulli.py::test_a_tie_is_decided_by_further_words"),
        ("margin-inwards", "low = context.subtract(scaled, _MARGIN)", "low = context.add(scaled, Decimal(3))", "bounds enclose", _TABLES + "test_exponential_bounds_enclose"),
    ),
    *in_file(
        "noise/tails.py",
        ("tail-one-step-on", "    first = t + 1\n", "    first = t + 2\n", "tails are rounded up", _TAILS + "test_probabilities_are_tight_and_on_the_safe_side"),
        ("tail-rounded-down", "return np.where(points >= 0, high, _log_complement(low) * (1 - _SLACK))", "return np.where(points >= 0, low, _log_complement(low) * (1 - _SLACK))",
         "tails are rounded up", _TAILS + "test_probabilities_are_tight_and_on_the_safe_side"),
        ("one-of-many", "np.log(-np.expm1(count * log_cdf(each, t)))", "np.log(-np.expm1(log_cdf(each, t)))", "the largest of many noises", _TAILS + "test_the_largest_of_many_by_definition"),
        ("sum-of-one", "log_tail(DiscreteGaussian(number * law.variance), points)", "log_tail(DiscreteGaussian(law.variance), points)", "variances of nodes add up",
         _TAILS + "test_sums_against_exact_convolution"),
        ("shared-noise-ignored", "_log_any(each, threshold - highest, many)", "_log_any(each, threshold - 0 * highest, many)", "a noisy threshold may be low", FROM_TOP_COSTS),
    ),
    *in_file(
        "noise/exponential.py",
        ("worst-first", "order = np.argsort(-high, kind=\"stable\")", "order = np.argsort(high, kind=\"stable\")", "the best come first",
         "tests/noise/test_noise_exponential.py::test_the_order_is_that_of_the_peeled_exponential_mechanism"),
        ("gumbel-without-second-log", "score = -penalties - np.log(-np.log1p(-uniform))", "score = -penalties + np.log1p(-uniform)", "noise is Gumbel",
         "tests/noise/test_noise_exponential.py::test_float_bounds_hold_and_are_narrow"),
        ("overlaps-left-open", "sort = self._sorted if _SMALL_RUN < size < members.size else self._sorted_exactly", "sort = lambda items, _: items", "close calls are exact",
         "tests/noise/test_noise_exponential.py::test_equal_words_are_told_apart_by_further_words"),
    ),
)  # fmt: skip

FLEXIBLE: Final = (
    *in_file(
        "flexible/statistics.py",
        ("true-counts-published", "return PrivateHistogram(found[order], kept.noisy[order])", "return PrivateHistogram(found[order], counts[kept.index][order])",
         "statistics see noisy counts alone", "tests/flexible/test_statistics.py::test_statistics_see_noisy_counts_alone"),
    ),
    *in_file(
        "flexible/bucketing.py",
        ("values-not-clamped", "places = np.floor((np.clip(values, lower, upper) - np.asarray(lower)) / width)", "places = np.floor((values - np.asarray(lower)) / width)",
         "values outside the range are clamped", "tests/flexible/test_statistics.py::test_values_outside_the_range_are_in_its_buckets"),
        ("upper-end-in-a-bucket-of-its-own", "np.minimum(places, np.asarray(number) - 1)", "places", "there are as many buckets as promised",
         "tests/flexible/test_statistics.py::test_values_outside_the_range_are_in_its_buckets"),
    ),
    *in_file(
        "flexible/plan.py",
        ("statistic-of-one-record", "TruncatedLaplace.for_budget(epsilon, delta, max_records)\n    buckets", "TruncatedLaplace.for_budget(epsilon, delta)\n    buckets",
         "every record of a unit costs", "tests/flexible/test_statistics.py::test_every_record_of_a_unit_is_paid_for"),
    ),
)  # fmt: skip

WEIGHTS: Final = in_file(
    "engines/memory.py",
    ("norms-rounded-up", "(1 << 2 * NORM_BITS) // whole).astype(np.float64)).astype(np.int64)", "(1 << 2 * NORM_BITS) // whole).astype(np.float64)).astype(np.int64) + 1",
     "a unit's weights have norm 1 at most", _H + "test_a_units_norm_is_at_most_one_after_rounding"),
    ("weights-not-normalised", "return np.asarray((weights * factors) >> (NORM_BITS - LATTICE_BITS))", "return np.asarray(weights << (LATTICE_BITS - WEIGHT_BITS))",
     "a unit's weights have norm 1 at most", _H + "test_a_units_norm_is_at_most_one_after_rounding"),
    ("clipping-rounded-up", "(cap << 2 * FACTOR_BITS) // whole).astype(np.float64)).astype(np.int64)", "(cap << 2 * FACTOR_BITS) // whole).astype(np.float64)).astype(np.int64) + 1",
     "a unit's counts stay inside the cap", _H + "test_a_units_counts_and_sums_stay_inside_the_cap"),
    ("steps-rounded-away-from-zero", "scaled = np.abs(steps) * (weights * factors)", "scaled = np.abs(steps) * (weights * factors + 1)",
     "a unit's sums stay inside the cap", _H + "test_a_units_counts_and_sums_stay_inside_the_cap"),
)  # fmt: skip

TOTAL: Final = in_file(
    "publish/run.py",
    ("total-published-without-noise", "float(units + int(sample(DiscreteLaplace(Fraction(scale)), 1, entropy)[0]))", "float(units)",
     "the total is noisy", PUBLISHED + "[sparse]"),
    ("total-with-less-noise", "sample(DiscreteLaplace(Fraction(scale)), 1, entropy)", "sample(DiscreteLaplace(Fraction(1)), 1, entropy)",
     "a total costs its share of epsilon", BUDGET + "[sparse]"),
)  # fmt: skip

MUTANTS: Final[tuple[Mutant, ...]] = tuple(
    chain(
        AGGREGATES,
        BASE,
        LAPLACE,
        SPARSE,
        CORRELATED,
        DISCRETE,
        ADAPTIVE,
        LISTS,
        SELECTION,
        PLANNING,
        PRIVACY,
        NOISE,
        FLEXIBLE,
        WEIGHTS,
        TOTAL,
    )
)
