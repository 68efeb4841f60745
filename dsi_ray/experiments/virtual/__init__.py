"""Virtual time: bounds, sweeps and loads without waiting."""
