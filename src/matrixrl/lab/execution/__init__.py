"""Playing experiments: units of work, where they are played, and who hands them out."""

from matrixrl.lab.execution.campaign import Campaign, Observer, Outcome
from matrixrl.lab.execution.executors import EXECUTORS, make_executor
from matrixrl.lab.execution.progress import CampaignProgress

__all__ = ["EXECUTORS", "Campaign", "CampaignProgress", "Observer", "Outcome", "make_executor"]
