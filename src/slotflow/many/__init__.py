"""Many signals: read in chunks, answered here, in processes of their own or on a cluster, and listed in one catalogue.

`answers` reads and asks, `results` and `records` say and write what was found, `tables` lists it.
"""
