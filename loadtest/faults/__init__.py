"""What goes wrong: processes and nodes that die or hang, and slow networks."""
