"""The parts of bench/compare: filesystems, loads, and what is written about their times."""
