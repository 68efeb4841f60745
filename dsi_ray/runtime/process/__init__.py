"""What every process of ours does with tasks and exceptions."""
