"""Section 5.1.2 and appendix B.1: which slot takes which component, and what a change does to the others."""
