"""The scorecard on bsuite (Osband et al. 2020): which experiments, how they are run, and how they are scored."""
