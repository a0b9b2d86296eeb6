"""Every numbered statement of the paper, and the place that shows it: the last table of docs/reproduction.md.

A place is ``STUDY`` (a section of the page), ``FILE::TEST`` under tests/, ``PAGE.md#Heading`` under docs/, or
``#Heading`` of the page itself. A test looks whether all of them exist. A statement without a place has a note.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from studies.markdown import table

__all__ = ["STATEMENTS", "Statement", "slug", "statements_table"]

PLAIN_LOOP = "methods/test_bootstrap.py::test_rows_are_those_of_the_plain_loop"
AS_PRINTED = "methods/test_bootstrap.py::test_as_printed_is_the_paper_to_the_letter"
FORMULA = "algorithms/test_algorithms.py::test_expected_increment_is_the_formula"
FIXED_POINT = "algorithms/test_algorithms.py::test_least_squares_arrives_at_the_fixed_point"
POISSON = "environments/test_finite.py::test_score_covariance_by_enumeration"
READ_OFF = "methods/test_bootstrap.py::test_intervals_are_read_off_the_rows"
KINDS = "test_interval.py::test_percentile_and_basic_are_quantiles_and_their_reflection"
OBJECTIVES = "environments/test_finite.py::test_against_enumeration_and_the_definitions"
OBJECTIVES_OF_A_LOG = "environments/test_finite.py::test_a_log_against_plain_loops_and_in_chunks"
IID = "methods/test_least_squares.py::test_a_statistician_s_own_increments"
NOISE = (
    "studies/test_theory.py::"
    "test_the_noise_splits_into_martingale_differences_and_a_rest_but_not_as_the_supplement_prints_it"
)
FIELD = "algorithms/test_field.py::test_a_logistic_regression_with_dependent_covariates_is_covered"
DEPENDENT_FIELD = (
    "algorithms/test_field.py::"
    "test_a_median_of_dependent_numbers_is_covered_as_seldom_as_its_scores_depend_on_each_other"
)
ERRATA = "method.md#9. Errata of the paper"
EXAMPLE, COVERAGE = "#One run's intervals (Figure 1a)", "#Coverage (Figure 1b)"
STEPS, RATES = "#Sensitivity to the step size (Figures 2 and 3)", "#Rates of the coverage error (Figure 8)"
GAME, POLICIES = "#A game, and one run's intervals (Figure 4)", "#Widths, and error bars of the policies (Figure 5)"
COMPARISON, MSPBE_CURVE = "#Coverage and widths (Figure 6)", "#The error over episodes (Figure 7a)"
WIDTHS = "#Widths (Figure 7b)"


class Statement(NamedTuple):
    """A statement: its number or section, what it says, where it is shown, and what remains to be said."""

    number: str
    says: str
    where: tuple[str, ...] = ()
    note: str = ""


STATEMENTS = (
    # 2. Background
    Statement("(2.1)", "the linear recursion", (PLAIN_LOOP, ERRATA), "with the other sign"),
    Statement("2.1", "step sizes α₀ / t^η, η in (1/2, 1)", ("methods/test_step_sizes.py::test_formulas",)),
    Statement("2.1", "Polyak-Ruppert average", (PLAIN_LOOP,)),
    Statement(
        "2.2",
        "a policy and an MDP induce a stationary law",
        ("environments/test_finite.py::test_stationary_is_the_eigenvector",),
    ),
    Statement(
        "2.2, (2.2)",
        "the value is the one solution of Bellman's equation",
        ("environments/test_finite.py::test_values_by_iteration",),
    ),
    Statement("(2.3)", "the TD update", (FORMULA, "enumerations"), "as printed it diverges"),
    Statement("2.2", "TD solves Φ'Ξ(I - γP)Φ θ = Φ'Ξr", (FORMULA, FIXED_POINT)),
    Statement(
        "2.2",
        "with one feature a state that is the value",
        ("environments/test_finite.py::test_fixed_point_of_tabular_features_is_the_value",),
    ),
    Statement(
        "2.2",
        "n-step TD and TD(λ) are special cases",
        ("algorithms/test_algorithms.py::test_expected_n_step_increment_is_the_formula", FORMULA),
    ),
    Statement(
        "2.2",
        "off-policy, TD may fail to converge",
        (
            "enumerations",
            "environments/test_classics.py::test_bairds_star_diverges_as_a_recursion_and_has_a_linear_value",
        ),
    ),
    Statement("2.2", "off-policy, GTD converges", ("enumerations",)),
    Statement(
        "2.2", "the ratio corrects the law of the actions", ("environments/test_trajectory.py::test_ratios", FORMULA)
    ),
    Statement(
        "2.2", "NEU and MSPBE are norms of the projected error, M = I or Φ'ΞΦ", (OBJECTIVES, OBJECTIVES_OF_A_LOG)
    ),
    Statement("2.2", "GTD's two updates are one linear recursion of (θ, y)", (FORMULA, ERRATA), "with the other sign"),
    Statement("2.2", "X_t = (s, r, s') off-policy too", (ERRATA,), "the ratio needs the action"),
    # 3. Method
    Statement(
        "(3.1)",
        "perturbed recursion, W bounded, of mean and variance 1",
        ("engine/test_multipliers.py::test_mean_1_and_the_deviation", PLAIN_LOOP),
    ),
    Statement(
        "3.1",
        "replicas can be updated in parallel",
        ("engine/test_backends.py::test_threads_and_shards_change_no_bit",),
    ),
    Statement("3.1", "fully online: the data are not stored", ("#Time and memory on FrozenLake",)),
    Statement("Algorithm 1", "the whole scheme", (PLAIN_LOOP, AS_PRINTED, ERRATA), "its step size is a misprint"),
    Statement("3.2", "quantile interval", (KINDS, COVERAGE)),
    Statement("3.2", "standard-error interval", (READ_OFF, COVERAGE)),
    Statement("3.2", "second moments converge, so the SE interval is valid", (COVERAGE,), "by its coverage"),
    Statement("3.2", "intervals for the value under a distribution ν", (READ_OFF, ERRATA), "the printed σ̃ has no root"),
    # 4. Theory
    Statement("(A1)", "uniform ergodicity", (), "an assumption; the finite chains of all studies meet it"),
    Statement(
        "4.1",
        "(A1) always holds for irreducible, aperiodic chains",
        ("enumerations",),
        "for finite ones; an infinite one need not even have a stationary law",
    ),
    Statement("(4.1)", "the chain mixes geometrically", ("enumerations",)),
    Statement("(A2)(i)", "Ã and b̃ have limits in mean", (FORMULA,)),
    Statement("(A2)(ii)", "Ā is Hurwitz", ("enumerations",), "-Ā is, on-policy"),
    Statement("(A2)(iii)", "Ã and b̃ are bounded", (), "an assumption; finite MDPs meet it"),
    Statement("(4.2), (4.4)", "mean field plus noise", (), "algebra"),
    Statement("(A3)", "η in (1/2, 1)", ("methods/test_step_sizes.py::test_bad_decay",)),
    Statement("Proposition 4.1", "‖θ_t - θ*‖ = o(t^-γ) for all γ in (0, η - 1/2)", ("limits",)),
    Statement(
        "4.1",
        "the iterates stay in a compact set, without a projection",
        ("limits",),
        "each path in its own, as it converges; the proposition gives no set for all paths",
    ),
    Statement(
        "(4.3)",
        "noise is a martingale difference plus terms that vanish",
        (POISSON,),
        "by Poisson's equation, from which the exact covariances come",
    ),
    Statement("Proposition 4.2", "central limit theorem of the average", ("limits", POISSON)),
    Statement(
        "4.1",
        "under i.i.d. noise a plug-in estimator has the variance",
        (IID, "#Bias of the features, and dependence"),
        '`LeastSquares("none")`; the second place compares it with blocks',
    ),
    Statement(
        "4.1",
        "no method separates e_t, so Q cannot be estimated directly",
        ("method.md#6. Streaming least squares", "methods/test_least_squares.py::test_standard_error_is_the_formula"),
        "it can: as the long-run variance of the scores",
    ),
    Statement("4.2", "the perturbed field is unbiased", ("engine/test_multipliers.py::test_mean_1_and_the_deviation",)),
    Statement("Proposition 4.3", "the same rate for the perturbed iterates", ("limits",)),
    Statement("Lemma 4.1, (4.5)", "the perturbed average is a weighted sum of scores, but for o_p(1)", ("limits",)),
    Statement("(4.6)", "the same for W = 1", ("limits",)),
    Statement("(4.7)", "the same for their difference", ("limits",)),
    Statement(
        "Theorem 4.2, (4.8)",
        "bootstrap law and error law agree in the limit",
        ("limits", ERRATA),
        "if and only if the autocovariances of the scores cancel",
    ),
    Statement(
        "4.2",
        "with B large, its Monte-Carlo error may be ignored",
        ("test_interval.py::test_one_more_draw_of_the_replicas_law_is_held_as_often_as_the_level_says",),
        "and at any B by the ranks of the quantiles",
    ),
    # 5. Experiments
    Statement(
        "5",
        "W uniform on 1 ∓ 1/√3 has variance 1",
        ("engine/test_multipliers.py::test_declared_deviation", ERRATA),
        "it is 1/9",
    ),
    Statement(
        "5",
        "B = 200, η = 3/4, θ₀ = 0 in all experiments",
        (COVERAGE, "#As printed and corrected"),
        "also as printed",
    ),
    Statement(
        "5",
        "episodes may be joined to one infinite stream",
        ("environments/test_trajectory.py::test_transitions", ERRATA),
        "with discount 0 at their ends",
    ),
    Statement(
        "5",
        "the vanilla bootstrap is the benchmark; as many resampled units as data",
        ("baselines/test_offline_bootstrap.py::test_a_resample_is_what_the_evaluator_makes_of_its_rows",),
    ),
    Statement(
        "5",
        "the bootstrap is known to have better second-order accuracy",
        (RATES,),
        "cited, for studentised intervals of independent data; none here is studentised, and with independent data "
        "two-sided intervals of all kinds have errors of order 1/n",
    ),
    Statement(
        "5.1",
        "a near-optimal policy by Q-learning",
        ("studies/test_q_learning.py::test_the_learned_policy_is_within_2_percent_of_the_best", "frozenlake"),
    ),
    Statement(
        "5.1", "the exact value from the transition matrix", ("environments/test_finite.py::test_frozen_lake_optimum",)
    ),
    Statement(
        "5.1",
        "resampling transitions would miss dependence; episodes do not",
        (
            "baselines/test_offline_bootstrap.py::test_resampled_transitions_miss_the_dependence_within_episodes",
            "baselines/test_offline_bootstrap.py::test_intervals_cover_as_often_as_they_say",
        ),
        "where scores depend on each other; with a feature a state they do not, and transitions do as well",
    ),
    Statement("Figure 1a", "one run's intervals reach the exact value", (EXAMPLE,)),
    Statement("Figure 1b", "both bootstraps cover 95 % within about 1,000 episodes", (COVERAGE,)),
    Statement("Figure 2", "widths are robust to α₀ and η", (STEPS,)),
    Statement("Figure 3", "coverage is robust to α₀ and η", (STEPS,)),
    Statement(
        "5.2",
        "a DQN without its last layer gives 512 features",
        ("pong", "studies/test_pong_learner.py::test_the_card_describes_the_weights"),
    ),
    Statement("Figure 4a", "a game", (GAME,)),
    Statement("Figure 4b", "one run's intervals; quantile and SE", (GAME,)),
    Statement("Figure 5a", "widths over episodes", (POLICIES,)),
    Statement("Figure 5b", "the value falls with ε", (POLICIES,)),
    Statement("5.2", "policies with ε > 0 have a lower variance", (POLICIES,)),
    Statement(
        "5.3",
        "the value of the generated policy is linear; its ε-greedy version is evaluated",
        ("two-readings", "environments/test_random_mdp.py::test_the_target_value_is_linear"),
    ),
    Statement("Figure 6a", "widths of the three methods are on par", (COMPARISON,)),
    Statement("Figure 6b", "so is their coverage", (COMPARISON,)),
    Statement(
        "5.3",
        "SAVE reaches 95 % with fewer observations",
        (COMPARISON, "baselines/test_save.py::test_it_converges_to_its_own_fixed_point"),
    ),
    Statement(
        "5.3",
        "the online bootstrap is much faster than the offline one and stores no data",
        ("#Time and memory on the random MDP", "#Time and memory on FrozenLake"),
    ),
    Statement(
        "5.4",
        "the sepsis simulator of Oberst and Sontag",
        (
            "environments/test_sepsis.py::test_exact_values",
            "environments/test_sepsis.py::test_the_sampler_follows_the_tensor",
        ),
    ),
    Statement(
        "5.4",
        "coverage cannot be measured, as the matrix is unknown",
        ("#Coverage of the value, with tabular features",),
        "it is known, and coverage measured",
    ),
    Statement("Figure 7a", "the MSPBE falls over 20,000 episodes", (MSPBE_CURVE,)),
    Statement("Figure 7b", "widths of both kinds fall", (WIDTHS,)),
    # 6. Discussion
    Statement("6", "the method also serves SGD under Markov noise", ("markov-noise",)),
    Statement("6.1", "a changing behaviour needs nothing but the ratio of each step", ("changing-behaviour",)),
    Statement(
        "6.2",
        "with i.i.d. data the average is efficient",
        (COMPARISON,),
        "least squares has the limit law of the uniform average; its width beside the oracle's",
    ),
    Statement("6.3", "nonlinear features: linear TD on the last layer of a network", ("pong",)),
    Statement(
        "6.3, (6.1)",
        "nonlinear recursions",
        (
            FIELD,
            DEPENDENT_FIELD,
        ),
        "a multiplier a step covers where scores are martingale differences, and is too narrow in the second",
    ),
    Statement("6.4", "ΠV is the best linear fit", ("enumerations",)),
    Statement("6.4", "θ* solves the projected Bellman equation and minimises the MSPBE", (FIXED_POINT, OBJECTIVES)),
    Statement("6.4", "its error is at most 1/√(1 - γ²) times the best fit's", ("enumerations",), "on-policy only"),
    Statement("6.4", "intervals cover V_θ*, not V", ("limits", "two-readings", "method.md#7. The estimand")),
    # Supplement
    Statement("Lemma S1.1, (B1)-(B4)", "conditions for o(ρ_t)", (), "a cited theorem; its use is Proposition 4.1"),
    Statement("S1", "Poisson's equations of Ã and b̃ have bounded solutions", (POISSON,)),
    Statement(
        "S1",
        "(B1) to (B4) hold",
        (NOISE, "limits", ERRATA),
        "the proof as printed fails: ‖r_t‖ does not tend to 0, e_t is no martingale difference, and Σ α_t ‖e_t‖ "
        "cannot converge as η is below 1; what it concludes is checked",
    ),
    Statement(
        "S1",
        "‖θ_t - θ*‖ ≤ R_θ for all t, so no truncation is needed",
        ("limits",),
        "R_θ depends on the path",
    ),
    Statement("(S1.1), (C1)-(C4)", "Liang's algorithm and conditions", (), "cited; their use is Proposition 4.2"),
    Statement(
        "S1", "(C1) to (C4) hold", ("limits",), "no number can check them; what follows, Proposition 4.2, is checked"
    ),
    Statement(
        "S1",
        "v(θ) = θ'b̄ - θ'Āθ/2 is a Lyapunov function",
        ("enumerations",),
        "for symmetric Ā; what counts is that -Ā is Hurwitz",
    ),
    Statement("Lemma S2.1", "the average is -Ā⁻¹ times the mean of the noise, but for o_p(1)", ("limits",)),
    Statement("Lemma S2.2, (S2.1)", "‖E[Ã(X_i) given F_j] - Ā‖ ≤ A_max M κ^(i-j)", ("enumerations",)),
    Statement("(S2.2)", "the noise at θ* and the rest", (), "algebra"),
    Statement("S2", "I₁ and I₂ vanish", ("limits",), "as the remainder of Lemma 4.1"),
    Statement("Lemma S2.3", "convergence in law to a continuous law is uniform", (), "a textbook lemma"),
    Statement("(S2.3)", "Σ r_i telescopes", (POISSON,)),
    Statement("(S2.4)-(S2.8)", "central limit theorem of the martingale part", ("limits",)),
    Statement(
        "(S2.9)", "the perturbed sum has the same limit", ("limits", ERRATA), "no: Σ (W_i - 1) r_i does not telescope"
    ),
    Statement("Figure 8a", "coverage errors fall faster than 1/√t, then as 1/t", (RATES,)),
    Statement("Figure 8b", "slopes of -1 or less: second-order accuracy", (RATES,)),
)


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it.

    >>> slug("One run's intervals (Figure 1a)")
    'one-runs-intervals-figure-1a'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def statements_table(sections: dict[str, str]) -> str:
    """The table; `sections` has the heading of each study's section."""
    rows = []
    for one in STATEMENTS:
        places = ", ".join(_link(place, sections) for place in one.where)
        rows.append([one.number, one.says, "; ".join(filter(None, [places, one.note]))])
    head = ["number", "says", "shown by"]
    return table(head, rows, text=head)


def _link(place: str, sections: dict[str, str]) -> str:
    if "::" in place:
        return f"`{place}`"
    if place in sections:
        return f"[{place}](#{slug(sections[place])})"
    page, _, heading = place.partition("#")
    return f"[{f'{page}, ' if page else ''}{heading}]({page}#{slug(heading)})"
