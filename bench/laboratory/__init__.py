"""The experiments of the papers, row by row; bench/experiments runs them."""
