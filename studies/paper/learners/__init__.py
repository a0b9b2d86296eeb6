"""Learners: how the policies that are evaluated came to be."""

from studies.paper.learners.q_learning import Learned, q_learning

__all__ = ["Learned", "q_learning"]
