"""Clients of a service."""

from matrixrl.service.client.asynchronous import AsyncClient, AsyncClientEpisode
from matrixrl.service.client.in_process import InProcess
from matrixrl.service.client.sync import Client, ClientEpisode

__all__ = ["AsyncClient", "AsyncClientEpisode", "Client", "ClientEpisode", "InProcess"]
