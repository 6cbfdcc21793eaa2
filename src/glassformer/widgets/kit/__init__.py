"""The components of every view: base class, modules, controls, plots and mathematics."""
