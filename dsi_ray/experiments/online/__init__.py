"""The paper's experiments on real Ray actors."""
