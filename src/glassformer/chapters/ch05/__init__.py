"""Everything that chapter 05 adds to the package."""
