"""The words of docs/reproduction.md; what stands in <angle brackets> is filled in from the results."""

from __future__ import annotations

__all__ = ["FROZENLAKE", "HEAD", "RANDOM_MDP"]

HEAD = """\
# The paper's experiments, rebuilt

<!-- Written by `python -m studies.paper.page` from docs/results/*.json: change those, not this page. -->

Ramprasad et al., *Online Bootstrap Inference For Policy Evaluation In Reinforcement Learning* (JASA 2022), sections
5.1 to 5.4 and the supplement; each figure as ours, with what the paper claims, what agrees, what does not, and why.
`python -m studies.paper frozenlake`, `pong`, `random-mdp` and `sepsis` make the pictures, their tables and the JSON
again, with the same seeds and so the same numbers (`--quick` takes minutes).

Four methods stand in the coverage figures of FrozenLake and the random MDP, so that one sees what each erratum of the
paper's text does:

- **as printed**: the text to the letter. Multipliers uniform on 1 ∓ 1/√3, said to have variance 1 (it is 1/9); the
  average of all iterates from the first step; step sizes α₀ t^(-3/4), no cap. (Two more misprints, the sign of the
  update and a step size of α₀ η^(-t), would make the recursion diverge, and are put right even here.)
- **law alone**: everything else corrected, but the multipliers' variance still taken for 1. Deviations are then a
  third of what they should be, and a 95 % interval covers 2 Φ(1.96 / 3) - 1 = 48.6 %.
- **bootstrap**: the corrected online bootstrap. Deviations divided by the multipliers' standard deviation, averaging
  weights proportional to t, step sizes that let the value travel (α₀ t^-.65, with a cap).
- **least squares**: our default, without step size or replicas.

Coverages are percentages of the repeats; brackets hold exact binomial 95 % intervals (in the lists of criteria 99.9 %).
"""

FROZENLAKE = """\
## FrozenLake 8x8, on-policy

Slippery, episodes not cut, γ = .99. The policy is our own Q-learning's: it is worth <value> at the start, <share> of
the best policy's <best>. Linear TD with tabular features, B = 200. All methods of a repeat see the same path.

<criteria>

### One run's intervals (the paper's *CI Example*)

![one run](images/reproduction/frozenlake-example.png)

*The paper*: intervals of the online and the offline bootstrap close in on the true value of the start.

*Agrees*: they do, with α₀ = <initial>, η = <decay> and a cap; the offline bootstrap of the same recursion follows the
online one.

*Does not*: before some 200 episodes both bootstraps are narrow around a wrong value. The reward has not yet travelled
back from the goal, in none of the replicas nor of the resamples: a spread says nothing of what all share. Least
squares has no such delay. With the printed step sizes the delay outlasts the 2000 episodes.

### Coverage (the paper's *Empirical Coverage Probabilities*)

![coverage](images/reproduction/frozenlake-coverage.png)

<coverage_table>

*The paper*: both bootstraps reach 95 % within about 1000 episodes (200 repeats).

*Agrees*: the corrected online bootstrap is nominal from 250 episodes, and stays so (<repeats> repeats).

*Does not*: the text as printed covers never, for three reasons at once: its law (alone: about 49 %, a line of the
table), its average, which keeps the start for ever, and its step sizes. Least squares is nominal from 50 episodes.
The *offline* bootstrap (<offline_repeats> repeats, episodes resampled, percentile intervals) is no better for seeing
the data 200 times.

![kinds](images/reproduction/frozenlake-kinds.png)

<kinds_table>

The paper's *quantile* interval is the percentile one, its *SE* interval the normal one; its theorem is about the
reflected one, here basic. In the limit all of them hold; once the average has arrived, the three agree.

### Sensitivity to the step size

![widths](images/reproduction/frozenlake-sensitivity-width.png)
![coverage](images/reproduction/frozenlake-sensitivity-coverage.png)

<sensitivity_table>

Rows are α₀, η; corrected bootstrap, percentile, <sensitivity_repeats> repeats.

*The paper*: the online bootstrap is quite robust to the step size.

*Does not agree*: of these step sizes only one, α₀ = 100 with η = .65, covers as it should. There are two ways to
fail, and neither shows in the width:

- *Too small* (α₀ of 30 or less, η of .75 or more): the value has not travelled back from the goal, and the average is
  too low, by <bias_small> at the end with α₀ = 30, against a width of <width_small>.
- *Too large* (α₀ = 300, or η = .55): the steps are still large at the end, and since successive transitions depend on
  each other, the average has a bias of the order of the step size: <bias_large> at the end with α₀ = 300, against a
  width of <width_large>. It shrinks more slowly than the interval, so that coverage *falls* over time. (From the same
  transitions in random order, which do not depend on each other, the mean error is <order_large_random> instead of
  <order_large_path>.)

With α₀ = 100 and η = .65 the two nearly cancel: the mean error is <order_right_path> from the path, and
<order_right_random> in random order. So the setting that works here was found by looking at the truth, which nobody
has in practice. No α₀ is safe for every problem. This is why the **convergence** check compares the average with the
least-squares solution, and why least squares is the default.

### Rates of the coverage error (the supplement's figure)

![rates](images/reproduction/frozenlake-rates.png)

*The paper*: log coverage error against log episodes has slopes of -1 or less, so the method is second-order accurate.

*What we find*: slopes <slopes>; in brackets 95 % of the slopes when the <repeats> repeats themselves are resampled.
The rule for zero errors: an error below half a repeat counts as half a repeat.

*Why it is no proof*: the slopes fall because of the first two points, where the average has not arrived: they measure
how a transient dies, not the order of an approximation. From <settled> episodes on they are <late_slopes>: errors are
a point or two, which <repeats> repeats can barely tell from none, and do not fall any more. With 200 repeats an error
below <noise> is noise; if every coverage were exactly 95 %, so that there were no rate at all, 95 % of the fitted
slopes would lie in <exact>. The batches of 200 among our repeats gave <batches> (percentile). **So 200 repeats can show
that coverage is wrong by more than three points, and cannot tell a rate of 1/t from one of 1/√t, or from none.**

### A few random features: the truth is θ*, not V

![features](images/reproduction/frozenlake-features.png)

<features_table>

Eight random features cannot hold the value. What TD converges to, and what an interval can cover, is φ(s₀)'θ* =
<fixed_point>, while V(s₀) = <value> (<features_repeats> repeats). Scores now depend on each other within an episode:
a multiplier for each step gives a spread that is too narrow with these features (chosen, among four seeds, because it
is; with most of the others it was too wide). A
multiplier for each episode repairs the width. It does not repair the coverage: with α₀ set by the rule of thumb (a
quarter of 1 over the smallest eigenvalue of A) the average is off by <bias_features> at 2,000 episodes, against a
standard deviation of <spread_features>, in part the bias of the order of the step size again (in random order:
<order_features_random>). Least squares has neither trouble, and is nominal. Theorem 4.2 of the paper, which promises
consistency for a multiplier a step under Markov noise, does not hold here.

### Time and memory

![memory](images/reproduction/frozenlake-memory.png)

For <cost_steps> steps and B = 200, processor time: one report takes <online_seconds> s online and <offline_seconds> s
offline (<once> times); one after each of 100 checkpoints <online_100_seconds> s and <offline_100_seconds> s
(<hundred> times; of the 100 offline reports 10, evenly spaced, were run). Peak memory at <memory_steps> steps: online
<online_memory> MB, offline <offline_memory> MB. The online rows were read without the least-squares companion that
serves the checks; both are our own code, the offline one vectorised over its resamples.

<made_by>
"""

RANDOM_MDP = """\
## Random MDP, off-policy

50 states, 5 actions, 10 features, γ = .9; the value of one state under a target policy, from steps of another. A
fresh MDP for every repeat. The reward makes the *target's* value linear in the features; as the paper describes it,
the generating policy's value is, and then the target's is not. At 100,000 steps it lies from one to five standard
errors, depending on how one reads the description, from what the methods estimate.

<criteria>

### Coverage and widths (the paper's comparison of three methods)

![coverage](images/reproduction/random-mdp-coverage.png)

<coverage_table>

Median width over that of an interval which knows the limit law of least squares:

<widths_table>

*The paper*: online bootstrap with GTD, offline bootstrap and SAVE perform roughly on par; SAVE reaches 95 % with
fewer observations.

*Agrees*: once they have arrived, the online and the offline bootstrap of one algorithm have the same width, 1.155
times that of least squares (the price of the linear average).

*Does not*: GTD itself is slow. Its matrix is A'A, whose smallest eigenvalue is the square of a small number, and it
needs features scaled to E|φ|² = d to get anywhere. GTD2 and TDC are what to use. At 1,000 steps the replicas of GTD2
are wild: its intervals cover because they are wide. <repeats> repeats, offline <offline_repeats>.

![save](images/reproduction/random-mdp-save.png)

SAVE needs features of state *and action*. With φ(s) for each action apart the action values are not linear, so it
converges to its own fixed point. That it covers; the value it covers less and less, as the interval shrinks around
another number. Least squares with ratios stays with the state's features, is exact, and is narrower.

### As printed and corrected

![errata](images/reproduction/random-mdp-errata.png)

<errata_table>

*As printed* with α₀ = 1, an auxiliary step of 1 and features of norm 1. GTD2 and TDC arrive here, unlike TD on the
lake, but their average still remembers the start, so that they cover less than the law alone would let them; GTD has
not arrived after 100,000 steps.

### Percentile, basic, normal

![kinds](images/reproduction/random-mdp-kinds.png)

<kinds_table>

### Time and memory

![memory](images/reproduction/random-mdp-memory.png)

<cost_table>

GTD2, <cost_steps> steps: the offline bootstrap takes <once> times as long as the online one for one report, and
<hundred> times for one after each of 100 checkpoints. Its memory grows with the stream, as that of SAVE does; that of
the online bootstrap and of least squares does not.

*The paper*: the online bootstrap is much faster than the offline one and need not store the data. *Agrees.*

<made_by>
"""
