"""The kit that every view is made of: base class, modules, controls, plots and mathematics."""
