"""Likelihood sets of indicator features: Kullback-Leibler balls, their radii and bounds."""
