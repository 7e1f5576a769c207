"""A second oracle: the truth of random runs, against what xlahouse makes of their trace files."""
