"""Decisions for the real world: a durable log, a learner that is a fold of it, and answers over HTTP."""
