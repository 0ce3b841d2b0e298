"""Slots: features to one context per component."""

from slotflow.slots.onehot import slot_contexts

__all__ = ["slot_contexts"]
