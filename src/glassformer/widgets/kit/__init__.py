"""What every view is made of: its base, its modules, its controls, its plots and its mathematics."""
