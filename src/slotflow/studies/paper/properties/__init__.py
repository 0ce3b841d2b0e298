"""Table 1: the properties of the methods, measured; `table` turns the measurements into verdicts and a picture."""
