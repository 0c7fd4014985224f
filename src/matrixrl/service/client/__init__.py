"""Clients of a service."""
