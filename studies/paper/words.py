"""The text of docs/reproduction.md; names in <angle brackets> are filled in from the results."""

from __future__ import annotations

__all__ = ["FROZENLAKE", "HEAD", "RANDOM_MDP"]

HEAD = """\
# The paper's experiments, reproduced

<!-- Written by `python -m studies.paper.page` from docs/results/*.json: change those, not this page. -->

Ramprasad et al., *Online Bootstrap Inference For Policy Evaluation In Reinforcement Learning* (JASA 2022), sections
5.1 to 5.4 and the supplement. For each figure, this page shows our version, what the paper claims, what agrees, what
does not, and why. `python -m studies.paper frozenlake`, `pong`, `random-mdp` and `sepsis` make the pictures, the tables
and the JSON again, with the same seeds and so the same numbers (`--quick` takes minutes). Lines "Made by" name the
command as it was at that commit; `inferl reproduce` is now `python -m studies.paper`.

The coverage figures of FrozenLake and the random MDP compare four methods, to show the effect of each erratum in the
paper's text:

- **as printed**: the text taken literally. Multipliers uniform on 1 ∓ 1/√3, said to have variance 1 (it is 1/9); the
  average of all iterates from the first step; step sizes α₀ t^(-3/4), no cap. (Two more misprints, the sign of the
  update and a step size of α₀ η^(-t), would make the recursion diverge, and are corrected even here.)
- **law alone**: everything else corrected, but the multipliers' variance still assumed to be 1. Deviations are then a
  third of what they should be, and the coverage of a 95 % interval is 2 Φ(1.96 / 3) - 1 = 48.6 %.
- **bootstrap**: the corrected online bootstrap. Deviations divided by the multipliers' standard deviation, averaging
  weights proportional to t, step sizes large enough for the recursion to converge (α₀ t^-.65, with a cap).
- **least squares**: our default, without step size or replicas.

Coverages are percentages of the repeats, with exact binomial 95 % intervals in brackets (99.9 % in the tables of
criteria).
"""

FROZENLAKE = """\
## FrozenLake 8x8, on-policy

Slippery, episodes not truncated, γ = .99. The policy was learned by our own Q-learning: its value at the start is
<value>, <share> of the optimal <best>. Linear TD with tabular features, B = 200. Within a repeat, all methods see the
same path.

<criteria>

### One run's intervals (the paper's *CI Example*)

![one run](images/reproduction/frozenlake-example.png)

*The paper*: intervals of the online and the offline bootstrap converge to the true value of the start.

*Agrees*: they do, with α₀ = <initial>, η = <decay> and a cap; the offline bootstrap of the same recursion follows the
online one.

*Does not*: before about 200 episodes both bootstraps give narrow intervals around a wrong value. The reward has not yet
propagated back from the goal in any replica or resample, and the spread does not show a bias that all share. Least
squares has no such transient. With the printed step sizes the transient is longer than the 2000 episodes.

### Coverage (the paper's *Empirical Coverage Probabilities*)

![coverage](images/reproduction/frozenlake-coverage.png)

<coverage_table>

*The paper*: both bootstraps reach 95 % within about 1000 episodes (200 repeats).

*Agrees*: the corrected online bootstrap has nominal coverage from 250 episodes on (<repeats> repeats).

*Does not*: the text as printed never covers, for three reasons at once: its law (alone: about 49 %, see the table), its
average, which never forgets the start, and its step sizes. Least squares has nominal coverage from 50 episodes on.
The *offline* bootstrap (<offline_repeats> repeats, episodes resampled, percentile intervals) is no better, although it
uses the data 200 times.

![kinds](images/reproduction/frozenlake-kinds.png)

<kinds_table>

The paper's *quantile* interval is the percentile one, its *SE* interval the normal one; its theorem is about the
reflected one, here basic. Asymptotically all of them are valid; once the average has converged, the three agree.

### Sensitivity to the step size

![widths](images/reproduction/frozenlake-sensitivity-width.png)
![coverage](images/reproduction/frozenlake-sensitivity-coverage.png)

<sensitivity_table>

Rows are α₀, η; corrected bootstrap, percentile, <sensitivity_repeats> repeats.

*The paper*: the online bootstrap is quite robust to the step size.

*Does not agree*: of these step sizes only one, α₀ = 100 with η = .65, has nominal coverage. There are two ways to
fail, and neither shows in the width:

- *Too small* (α₀ of 30 or less, η of .75 or more): the reward has not propagated back from the goal, and the average is
  biased, by <bias_small> at the end with α₀ = 30, compared with a width of <width_small>.
- *Too large* (α₀ = 300, or η = .55): the steps are still large at the end, and because successive transitions are
  dependent, the average has a bias of the order of the step size: <bias_large> at the end with α₀ = 300, compared with
  a width of <width_large>. It shrinks more slowly than the interval, so that coverage *falls* over time. (With the same
  transitions in random order, which removes the dependence, the mean error is <order_large_random> instead of
  <order_large_path>.)

With α₀ = 100 and η = .65 the two nearly cancel: the mean error is <order_right_path> on the path, and
<order_right_random> in random order. So the setting that works here was found by using the truth, which is not
available in practice. No α₀ is safe for every problem. This is why the **convergence** check compares the average with
the least-squares solution, and why least squares is the default.

### Rates of the coverage error (the supplement's figure)

![rates](images/reproduction/frozenlake-rates.png)

*The paper*: log coverage error against log episodes has slopes of -1 or less, so the method is second-order accurate.

*What we find*: slopes <slopes>; the brackets contain 95 % of the slopes when the <repeats> repeats are resampled.
Zero errors are handled by a rule: an error below half a repeat counts as half a repeat.

*Why this does not show second-order accuracy*: the slopes are negative because of the first two points, where the
average has not converged. They measure the decay of a transient, not the order of an approximation. From <settled>
episodes on the slopes are <late_slopes>: errors are a point or two, which <repeats> repeats can hardly distinguish from
0, and they decrease no further. With 200 repeats an error below <noise> is noise; if every coverage were exactly 95 %,
so that there were no rate at all, 95 % of the fitted slopes would lie in <exact>. Batches of 200 of our repeats gave
<batches> (percentile). **So 200 repeats can show that coverage is wrong by more than three points, but cannot
distinguish a rate of 1/t from 1/√t, or from no rate.**

### A few random features: the truth is θ*, not V

![features](images/reproduction/frozenlake-features.png)

<features_table>

Eight random features cannot express the value. TD converges to φ(s₀)'θ* = <fixed_point>, which is the estimand here,
while V(s₀) = <value> (<features_repeats> repeats). Scores now depend on each other within an episode: with these
features, a multiplier for each step gives a spread that is too small (they were chosen, among four seeds, because of
this; with most of the others the spread was too large). A multiplier for each episode corrects the width. It does not
correct the coverage: with α₀ set by the rule of thumb (a quarter of 1 over the smallest eigenvalue of A) the average
has a bias of <bias_features> at 2,000 episodes, compared with a standard deviation of <spread_features>; part of it is
again the bias of the order of the step size (in random order: <order_features_random>). Least squares has neither
problem, and nominal coverage. Theorem 4.2 of the paper, which claims consistency for a multiplier per step under Markov
noise, does not hold here.

### Time and memory

![memory](images/reproduction/frozenlake-memory.png)

CPU time for <cost_steps> steps and B = 200: one report takes <online_seconds> s online and <offline_seconds> s offline
(a factor of <once>); a report after each of 100 checkpoints takes <online_100_seconds> s and <offline_100_seconds> s (a
factor of <hundred>; of the 100 offline reports 10, evenly spaced, were run). Peak memory at <memory_steps> steps:
online <online_memory> MB, offline <offline_memory> MB. The online bootstrap ran without the least-squares companion
that its checks use. Both are our own code; the offline bootstrap is vectorised over its resamples.

<made_by>
"""

RANDOM_MDP = """\
## Random MDP, off-policy

50 states, 5 actions, 10 features, γ = .9; the value of one state under a target policy, from data of another. Each
repeat has a new MDP. The reward is built so that the *target* policy's value is linear in the features. In the paper's
description it is the generating policy's value that is linear, and then the target's is not: at 100,000 steps it is one
to five standard errors, depending on how the description is read, away from what the methods estimate.

<criteria>

### Coverage and widths (the paper's comparison of three methods)

![coverage](images/reproduction/random-mdp-coverage.png)

<coverage_table>

Median width relative to that of an interval which uses the true asymptotic variance of least squares:

<widths_table>

*The paper*: online bootstrap with GTD, offline bootstrap and SAVE perform roughly on par; SAVE reaches 95 % with
fewer observations.

*Agrees*: once they have converged, the online and the offline bootstrap of an algorithm have the same width, 1.155
times that of least squares (the price of the linear average).

*Does not*: GTD itself is slow. Its matrix is A'A, whose smallest eigenvalue is the square of a small number, and it
needs features scaled to E|φ|² = d to make progress at all. Use GTD2 and TDC instead. At 1,000 steps the replicas of
GTD2 are very noisy: its intervals cover because they are wide. <repeats> repeats, offline <offline_repeats>.

![save](images/reproduction/random-mdp-save.png)

SAVE needs features of state *and action*. With a separate φ(s) for each action the action values are not linear in the
features, so SAVE converges to its own fixed point. It covers that fixed point; its coverage of the value decreases as
the interval shrinks around another number. Least squares with importance ratios uses the features of the state only,
has no such bias, and is narrower.

### As printed and corrected

![errata](images/reproduction/random-mdp-errata.png)

<errata_table>

*As printed* with α₀ = 1, an auxiliary step of 1 and features of norm 1. GTD2 and TDC converge here, unlike TD on
FrozenLake, but their average still depends on the start, so that their coverage is below that of the law alone. GTD has
not converged after 100,000 steps.

### Percentile, basic, normal

![kinds](images/reproduction/random-mdp-kinds.png)

<kinds_table>

### Time and memory

![memory](images/reproduction/random-mdp-memory.png)

<cost_table>

GTD2, <cost_steps> steps: the offline bootstrap takes <once> times as long as the online one for one report, and
<hundred> times as long for a report after each of 100 checkpoints. Its memory grows with the stream, as that of SAVE
does; that of the online bootstrap and of least squares does not.

*The paper*: the online bootstrap is much faster than the offline one and need not store the data. *Agrees.*

<made_by>
"""
