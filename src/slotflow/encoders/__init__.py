"""Encoders: streams to features."""

from slotflow.encoders.pooled import Encoding, PooledEncoder

__all__ = ["Encoding", "PooledEncoder"]
