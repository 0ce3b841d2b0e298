"""Appendix B.2: what the contexts of the slots say of the components; `contexts` measures, `plot` draws."""
