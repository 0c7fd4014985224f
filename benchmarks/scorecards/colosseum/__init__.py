"""The scorecard on Colosseum's episodic MDPs."""
