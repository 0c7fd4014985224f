"""Clients of a service."""

from matrixrl_serve.client.asynchronous import AsyncClient, AsyncClientEpisode
from matrixrl_serve.client.in_process import InProcess
from matrixrl_serve.client.sync import Client, ClientEpisode

__all__ = ["AsyncClient", "AsyncClientEpisode", "Client", "ClientEpisode", "InProcess"]
