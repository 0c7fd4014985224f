"""Scorecards on problems that others chose: bsuite, Colosseum's episodic MDPs and ICU-Sepsis."""
